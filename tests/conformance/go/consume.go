package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const pollWait = 100 * time.Millisecond

// A consumer reads all the time; what it has read waits for the next poll.
type consumer struct {
	client *kgo.Client
	topic  string
	done   chan struct{}
	news   chan struct{} // holds a token when there may be records that no poll has taken

	mutex      sync.Mutex
	records    []record
	failure    error
	assigned   map[int32]bool
	rebalances int
}

func newConsumer(topic string) *consumer {
	return &consumer{topic: topic, done: make(chan struct{}), news: make(chan struct{}, 1), assigned: map[int32]bool{}}
}

func (c *consumer) start(options ...kgo.Opt) error {
	client, err := kgo.NewClient(append(options, kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return err
	}
	c.client = client
	go c.read()
	return nil
}

func (c *consumer) read() {
	defer close(c.done)
	for {
		fetches := c.client.PollFetches(context.Background())
		if fetches.IsClientClosed() {
			return
		}
		c.mutex.Lock()
		for _, failed := range fetches.Errors() {
			c.failure = failed.Err
		}
		fetches.EachRecord(func(got *kgo.Record) {
			each := record{got.Partition, got.Offset, got.Key, got.Value, []header{}, got.Timestamp.UnixMilli()}
			for _, of := range got.Headers {
				each.Headers = append(each.Headers, header{of.Key, of.Value})
			}
			c.records = append(c.records, each)
		})
		c.mutex.Unlock()
		select {
		case c.news <- struct{}{}:
		default: // the token is there already
		}
	}
}

// openReader begins to read all partitions of a topic, without a group.
func openReader(d *driver, ctx context.Context, given command) (any, error) {
	offset := kgo.NewOffset().At(given.Start)
	switch given.Start {
	case -2:
		offset = kgo.NewOffset().AtStart()
	case -1:
		offset = kgo.NewOffset().AtEnd()
	}
	partitions := map[int32]kgo.Offset{}
	for _, partition := range given.Partitions {
		partitions[partition] = offset
	}
	opened := newConsumer(given.Topic)
	d.consumers[given.Handle] = opened
	return nil, opened.start(d.with(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{given.Topic: partitions}),
	)...)
}

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// openMember joins a group; `server-side range` in the protocol in which the broker assigns (KIP-848).
func openMember(d *driver, ctx context.Context, given command) (any, error) {
	name, isServerSide := strings.CutPrefix(given.Assignor, "server-side ")
	balancer, known := balancers[name]
	if !known {
		return nil, fmt.Errorf("no such assignor: %s", given.Assignor)
	}
	opened := newConsumer(given.Topic)
	options := d.with(
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topic),
		kgo.Balancers(balancer),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.OnPartitionsAssigned(opened.onAssigned),
		kgo.OnPartitionsRevoked(opened.onRevoked),
		kgo.OnPartitionsLost(opened.onRevoked),
	)
	if isServerSide {
		options = append(options, kgo.ServerSideBalancer())
	}
	if given.InstanceID != "" {
		options = append(options, kgo.InstanceID(given.InstanceID))
	}
	d.consumers[given.Handle] = opened
	return nil, opened.start(options...)
}

func (c *consumer) onAssigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.rebalances++
	for _, partition := range added[c.topic] {
		c.assigned[partition] = true
	}
}

func (c *consumer) onRevoked(_ context.Context, _ *kgo.Client, removed map[string][]int32) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, partition := range removed[c.topic] {
		delete(c.assigned, partition)
	}
}

func onConsumer(run func(*consumer, context.Context, command) (any, error)) operation {
	return func(d *driver, ctx context.Context, given command) (any, error) {
		opened, known := d.consumers[given.Handle]
		if !known {
			return nil, fmt.Errorf("no consumer has the handle %s", given.Handle)
		}
		return run(opened, ctx, given)
	}
}

// poll hands over what came since the last one; it waits a little when that is nothing.
func (c *consumer) poll(ctx context.Context, _ command) (any, error) {
	select {
	case <-c.news:
	case <-time.After(pollWait):
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	answer := map[string]any{
		"records":    append([]record{}, c.records...),
		"assignment": append([]int32{}, slices.Sorted(maps.Keys(c.assigned))...),
		"rebalances": c.rebalances,
	}
	failure := c.failure
	c.records, c.failure = nil, nil
	return answer, failure
}

func (c *consumer) seek(ctx context.Context, given command) (any, error) {
	at := map[int32]kgo.EpochOffset{}
	for _, partition := range given.Partitions {
		at[partition] = kgo.EpochOffset{Epoch: -1, Offset: given.Offset}
	}
	c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{c.topic: at})
	return nil, nil
}

func (c *consumer) pause(ctx context.Context, given command) (any, error) {
	return c.client.PauseFetchPartitions(map[string][]int32{c.topic: given.Partitions}), nil
}

func (c *consumer) resume(ctx context.Context, given command) (any, error) {
	c.client.ResumeFetchPartitions(map[string][]int32{c.topic: given.Partitions})
	return nil, nil
}

// commit commits the position in each partition, with metadata.
func (c *consumer) commit(ctx context.Context, given command) (any, error) {
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		for t := range request.Topics {
			for p := range request.Topics[t].Partitions {
				request.Topics[t].Partitions[p].Metadata = &given.Metadata
			}
		}
		return nil
	})
	return nil, c.client.CommitUncommittedOffsets(ctx)
}

// closeConsumer ends a consumer; a member without an instance id leaves its group.
func closeConsumer(d *driver, ctx context.Context, given command) (any, error) {
	return onConsumer(func(c *consumer, _ context.Context, _ command) (any, error) {
		c.client.Close()
		<-c.done
		delete(d.consumers, given.Handle)
		return nil, nil
	})(d, ctx, given)
}
