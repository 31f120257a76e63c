// What go-redis gets for a round of stream commands, a line of JSON for each: redis-go HOST:PORT PROTOCOL
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

func say(name string, value any, err error) {
	if err != nil && !errors.Is(err, redis.Nil) {
		value = "refused: " + err.Error()
	}
	line, broken := json.Marshal([]any{name, value})
	if broken != nil {
		panic(broken)
	}
	fmt.Println(string(line))
}

func main() {
	ctx := context.Background()
	protocol, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: os.Args[1], Protocol: protocol, MaxRetries: -1})
	defer client.Close()
	if err := client.Del(ctx, "jobs", "other", "later").Err(); err != nil {
		panic(err)
	}
	id, err := client.XAdd(ctx, &redis.XAddArgs{Stream: "jobs", ID: "1-1", Values: []string{"name", "tea"}}).Result()
	say("add", id, err)
	made, err := client.XGroupCreateMkStream(ctx, "jobs", "workers", "0").Result()
	say("group", made, err)
	added, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := 2; number <= 20; number++ {
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: "jobs", ID: fmt.Sprintf("%d-0", number), Values: []any{"n", number}})
		}
		return nil
	})
	say("pipeline", len(added), err)
	length, err := client.XLen(ctx, "jobs").Result()
	say("length", length, err)
	entries, err := client.XRangeN(ctx, "jobs", "-", "+", 3).Result()
	say("range", entries, err)
	entries, err = client.XRevRange(ctx, "jobs", "+", "(18-0").Result()
	say("reverse", entries, err)
	streams, err := client.XRead(ctx, &redis.XReadArgs{Streams: []string{"jobs", "other", "18-0", "0"}, Count: 2, Block: -1}).Result()
	say("read", streams, err)
	taking := &redis.XReadGroupArgs{Group: "workers", Consumer: "alice", Streams: []string{"jobs", ">"}, Count: 4, Block: -1}
	streams, err = client.XReadGroup(ctx, taking).Result()
	say("taken", streams, err)
	done, err := client.XAck(ctx, "jobs", "workers", "1-1", "2-0").Result()
	say("acknowledged", done, err)
	summary, err := client.XPending(ctx, "jobs", "workers").Result()
	say("summary", summary, err)
	claiming := &redis.XClaimArgs{Stream: "jobs", Group: "workers", Consumer: "bob", Messages: []string{"3-0"}}
	entries, err = client.XClaim(ctx, claiming).Result()
	say("claimed", entries, err)
	ids, next, err := client.XAutoClaimJustID(ctx, &redis.XAutoClaimArgs{
		Stream: "jobs", Group: "workers", Consumer: "bob", Start: "0", Count: 5,
	}).Result()
	say("claimed of itself", []any{ids, next}, err)
	groups, err := client.XInfoGroups(ctx, "jobs").Result()
	say("group info", groups, err)
	consumers, err := client.XInfoConsumers(ctx, "jobs", "workers").Result()
	for at := range consumers {
		consumers[at].Idle, consumers[at].Inactive = 0, 0
	}
	say("consumers", consumers, err)
	commands, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: "jobs", ID: "30-0", Values: []string{"n", "1"}})
		pipe.XTrimMaxLen(ctx, "jobs", 5)
		return nil
	})
	say("transaction", len(commands), err)
	gone, err := client.XDel(ctx, "jobs", "30-0", "31-0").Result()
	say("deleted", gone, err)
	kind, err := client.Type(ctx, "jobs").Result()
	say("type", kind, err)
	keys, _, err := client.Scan(ctx, 0, "job*", 100).Result()
	say("keys", keys, err)
	renamed, err := client.Rename(ctx, "jobs", "other").Result()
	say("renamed", renamed, err)
	_, err = client.XAdd(ctx, &redis.XAddArgs{Stream: "other", ID: "1-0", Values: []string{"n", "1"}}).Result()
	say("too small", nil, err)
	_, err = client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "none", Consumer: "c", Streams: []string{"other", ">"}}).Result()
	say("no group", nil, err)
	waited := make(chan []redis.XStream)
	go func() {
		found, err := client.XRead(ctx, &redis.XReadArgs{Streams: []string{"later", "$"}, Block: 0}).Result()
		if err != nil {
			panic(err)
		}
		waited <- found
	}()
	for !strings.Contains(client.Info(ctx, "clients").Val(), "blocked_clients:1") {
		continue // it has not asked yet
	}
	client.XAdd(ctx, &redis.XAddArgs{Stream: "later", ID: "5-5", Values: []string{"n", "käse"}})
	say("waited", <-waited, nil)
}
