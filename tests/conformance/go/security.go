package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// security says how the broker is spoken to over TLS: whom to trust, and the client's own key or its password.
type security struct {
	Authority string `json:"authority"` // a PEM file, as is the next one
	Key       string `json:"key"`       // with its certificate; empty for none
	User      string `json:"user"`      // empty for who does not log in
	Password  string `json:"password"`
}

// reaching has what every client of the broker is made with.
func reaching(arguments []string) ([]kgo.Opt, error) {
	reach := []kgo.Opt{kgo.SeedBrokers(arguments[0])}
	if len(arguments) == 1 {
		return reach, nil
	}
	text, err := os.ReadFile(arguments[1])
	if err != nil {
		return nil, err
	}
	var given security
	if err := json.Unmarshal(text, &given); err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(given.Authority)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if given.Key != "" {
		own, err := tls.LoadX509KeyPair(given.Key, given.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	reach = append(reach, kgo.DialTLSConfig(config))
	if given.User != "" {
		reach = append(reach, kgo.SASL(scram.Auth{User: given.User, Pass: given.Password}.AsSha512Mechanism()))
	}
	return reach, nil
}

// with has what a client is made with besides what it is for.
func (d *driver) with(options ...kgo.Opt) []kgo.Opt {
	return append(slices.Clone(d.reach), options...)
}
