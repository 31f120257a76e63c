package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// shareMembers reads a topic with two members of a share group until a number of records is done. Of the numbers that
// are their values it releases those that end in 3 at their first delivery, rejects those that end in 7 and accepts the
// others. It answers with how many ended each way, and with what was not as it should be.
func shareMembers(d *driver, ctx context.Context, given command) (any, error) {
	members := make([]*kgo.Client, 2)
	for index := range members {
		client, err := kgo.NewClient(d.with(
			kgo.ShareGroup(given.Group), kgo.ConsumeTopics(given.Topic), kgo.ShareMaxRecords(20),
		)...)
		if err != nil {
			return nil, err
		}
		defer client.Close()
		members[index] = client
	}
	accepted, rejected, released := map[int]int{}, map[int]int{}, map[int]int{}
	var odd []string
	for len(accepted)+len(rejected) < int(given.Count) {
		for _, member := range members {
			short, cancel := context.WithTimeout(ctx, patience/100)
			fetches := member.PollRecords(short, 20)
			cancel()
			if ctx.Err() != nil {
				return nil, fmt.Errorf("accepted %d, rejected %d: %w", len(accepted), len(rejected), ctx.Err())
			}
			fetches.EachRecord(func(r *kgo.Record) {
				number, _ := strconv.Atoi(string(r.Value))
				if int(r.DeliveryCount()) != 1+released[number] {
					odd = append(odd, fmt.Sprintf("%d was delivered for the %d. time", number, r.DeliveryCount()))
				}
				switch {
				case number%10 == 3 && released[number] == 0:
					released[number]++
					r.Ack(kgo.AckRelease)
				case number%10 == 7:
					rejected[number]++
					r.Ack(kgo.AckReject)
				default:
					accepted[number]++
					r.Ack(kgo.AckAccept)
				}
			})
			if err := member.FlushAcks(ctx); err != nil {
				return nil, err
			}
		}
	}
	for _, done := range []map[int]int{accepted, rejected} {
		for number, times := range done {
			if times > 1 {
				odd = append(odd, fmt.Sprintf("%d was done %d times", number, times))
			}
		}
	}
	return map[string]any{"accepted": len(accepted), "rejected": len(rejected), "released": len(released), "odd": odd}, nil
}
