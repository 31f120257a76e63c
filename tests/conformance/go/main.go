// Drives franz-go: a command is a line of JSON on standard input, its answer a line on standard output.
//
//	{"op": "ends", "topic": "t"}             ->  {"ok": {"0": [0, 100]}}
//	{"op": "reader", "handle": "r1", ...}    ->  {"ok": null}      later commands name the handle
//	{"op": "poll", "handle": "nobody"}       ->  {"error": "no consumer has the handle nobody"}
//
// Keys, values and header values are base64 or null. The first argument is the address of the broker, the second,
// where it is not spoken to in plaintext, a file that says how: see security.go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 30 * time.Second

// A command has the fields of all operations; each reads its own.
type command struct {
	Op         string            `json:"op"`
	Handle     string            `json:"handle"`
	Topic      string            `json:"topic"`
	Partitions []int32           `json:"partitions"`
	Count      int32             `json:"count"`
	Records    []record          `json:"records"`
	Acks       string            `json:"acks"`
	Idempotent bool              `json:"idempotent"`
	Codec      string            `json:"codec"`
	Start      int64             `json:"start"` // an offset, -2 for the beginning, -1 for the end
	Offset     int64             `json:"offset"`
	Times      []int64           `json:"times"`
	Group      string            `json:"group"`
	Assignor   string            `json:"assignor"`
	InstanceID string            `json:"instance_id"`
	Metadata   string            `json:"metadata"`
	Configs    map[string]string `json:"configs"`
	Offsets    map[int32]int64   `json:"offsets"`
	ID         string            `json:"id"`
	Target     string            `json:"target"`
	Commit     bool              `json:"commit"`
}

type record struct {
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
	Timestamp int64    `json:"timestamp"`
}

type header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// A driver is what commands work on.
type driver struct {
	reach     []kgo.Opt // where the broker is, and how it is spoken to
	consumers map[string]*consumer
	producers map[string]*kgo.Client // with transactions
	admin     *kadm.Client
}

type operation func(*driver, context.Context, command) (any, error)

var operations = map[string]operation{
	"produce":           produce,
	"transactional":     openTransactional,
	"transaction":       transaction,
	"copy":              copyInTransactions,
	"reader":            openReader,
	"member":            openMember,
	"poll":              onConsumer((*consumer).poll),
	"seek":              onConsumer((*consumer).seek),
	"pause":             onConsumer((*consumer).pause),
	"resume":            onConsumer((*consumer).resume),
	"commit":            onConsumer((*consumer).commit),
	"close":             closeConsumer,
	"ends":              ends,
	"offsets_for_times": offsetsForTimes,
	"create_topic":      createTopic,
	"topics":            topics,
	"describe_topic":    describeTopic,
	"delete_topic":      deleteTopic,
	"create_partitions": createPartitions,
	"alter_configs":     alterConfigs,
	"describe_configs":  describeConfigs,
	"cluster":           cluster,
	"groups":            groups,
	"describe_group":    describeGroup,
	"group_offsets":     groupOffsets,
	"set_group_offsets": setGroupOffsets,
	"delete_group":      deleteGroup,
	"delete_records":    deleteRecords,
	"share_members":     shareMembers,
}

func main() {
	reach, err := reaching(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	client, err := kgo.NewClient(reach...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	d := &driver{reach, map[string]*consumer{}, map[string]*kgo.Client{}, kadm.NewClient(client)}
	lines := bufio.NewReader(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break // the tests have ended
		}
		if err := answers.Encode(d.answer(line)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	client.Close()
}

func (d *driver) answer(line []byte) map[string]any {
	var given command
	if err := json.Unmarshal(line, &given); err != nil {
		return map[string]any{"error": err.Error()}
	}
	run, known := operations[given.Op]
	if !known {
		return map[string]any{"error": "no such operation: " + given.Op}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := run(d, ctx, given)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return map[string]any{"ok": result}
}
