//go:build tools

// Package tools names nsqadmin, which the tests build as it is.
package tools

import _ "github.com/nsqio/nsq/apps/nsqadmin"
