//go:build tools

// Package tools names go-nsq, whose own tests are run against a broker.
package tools

import _ "github.com/nsqio/go-nsq"
