package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
)

func ends(d *driver, ctx context.Context, given command) (any, error) {
	starts, err := d.admin.ListStartOffsets(ctx, given.Topic)
	if err != nil {
		return nil, err
	}
	stops, err := d.admin.ListEndOffsets(ctx, given.Topic)
	if err != nil {
		return nil, err
	}
	answer := map[int32][2]int64{}
	var failure error
	starts.Each(func(low kadm.ListedOffset) {
		high, _ := stops.Lookup(given.Topic, low.Partition)
		if low.Err != nil {
			failure = low.Err
		}
		answer[low.Partition] = [2]int64{low.Offset, high.Offset}
	})
	return answer, failure
}

// offsetsForTimes looks into partition 0.
func offsetsForTimes(d *driver, ctx context.Context, given command) (any, error) {
	offsets := []int64{}
	for _, milliseconds := range given.Times {
		listed, err := d.admin.ListOffsetsAfterMilli(ctx, milliseconds, given.Topic)
		if err != nil {
			return nil, err
		}
		found, _ := listed.Lookup(given.Topic, 0)
		if found.Err != nil {
			return nil, found.Err
		}
		offsets = append(offsets, found.Offset)
	}
	return offsets, nil
}

func createTopic(d *driver, ctx context.Context, given command) (any, error) {
	configs := map[string]*string{}
	for key, value := range given.Configs {
		configs[key] = &value
	}
	_, err := d.admin.CreateTopic(ctx, given.Count, 1, configs, given.Topic)
	return nil, err
}

func topics(d *driver, ctx context.Context, _ command) (any, error) {
	listed, err := d.admin.ListTopics(ctx)
	return listed.Names(), err
}

// describeTopic answers with leader, replicas and in-sync replicas by partition.
func describeTopic(d *driver, ctx context.Context, given command) (any, error) {
	listed, err := d.admin.ListTopics(ctx, given.Topic)
	if err != nil {
		return nil, err
	}
	described := listed[given.Topic]
	if described.Err != nil {
		return nil, described.Err
	}
	partitions := []any{}
	for _, each := range described.Partitions.Sorted() {
		partitions = append(partitions, map[string]any{"leader": each.Leader, "replicas": each.Replicas, "isr": each.ISR})
	}
	return partitions, nil
}

func deleteTopic(d *driver, ctx context.Context, given command) (any, error) {
	_, err := d.admin.DeleteTopic(ctx, given.Topic)
	return nil, err
}

func createPartitions(d *driver, ctx context.Context, given command) (any, error) {
	responses, err := d.admin.UpdatePartitions(ctx, int(given.Count), given.Topic)
	if err != nil {
		return nil, err
	}
	return nil, responses.Error()
}

func alterConfigs(d *driver, ctx context.Context, given command) (any, error) {
	changes := []kadm.AlterConfig{}
	for key, value := range given.Configs {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
	}
	responses, err := d.admin.AlterTopicConfigs(ctx, changes, given.Topic)
	if err != nil {
		return nil, err
	}
	response, err := responses.On(given.Topic, nil)
	if err != nil {
		return nil, err
	}
	return nil, response.Err
}

func describeConfigs(d *driver, ctx context.Context, given command) (any, error) {
	resources, err := d.admin.DescribeTopicConfigs(ctx, given.Topic)
	if err != nil {
		return nil, err
	}
	resource, err := resources.On(given.Topic, nil)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, config := range resource.Configs {
		values[config.Key] = config.MaybeValue()
	}
	return values, resource.Err
}

func cluster(d *driver, ctx context.Context, _ command) (any, error) {
	metadata, err := d.admin.BrokerMetadata(ctx)
	if err != nil {
		return nil, err
	}
	brokers := []string{}
	for _, broker := range metadata.Brokers {
		brokers = append(brokers, fmt.Sprintf("%s:%d", broker.Host, broker.Port))
	}
	return map[string]any{"id": metadata.Cluster, "controller": metadata.Controller, "brokers": brokers}, nil
}

func groups(d *driver, ctx context.Context, _ command) (any, error) {
	listed, err := d.admin.ListGroups(ctx)
	return append([]string{}, slices.Sorted(maps.Keys(listed))...), err
}

func describeGroup(d *driver, ctx context.Context, given command) (any, error) {
	described, err := d.admin.DescribeGroups(ctx, given.Group)
	if err != nil {
		return nil, err
	}
	group := described[given.Group]
	return map[string]any{"state": group.State, "assignor": group.Protocol, "members": len(group.Members)}, group.Err
}

func groupOffsets(d *driver, ctx context.Context, given command) (any, error) {
	fetched, err := d.admin.FetchOffsets(ctx, given.Group)
	if err != nil {
		return nil, err
	}
	answer := map[int32]int64{}
	for partition, offset := range fetched[given.Topic] {
		answer[partition] = offset.At
	}
	return answer, fetched.Error()
}

func setGroupOffsets(d *driver, ctx context.Context, given command) (any, error) {
	offsets := kadm.Offsets{}
	for partition, offset := range given.Offsets {
		offsets.AddOffset(given.Topic, partition, offset, -1)
	}
	return nil, d.admin.CommitAllOffsets(ctx, given.Group, offsets)
}

func deleteGroup(d *driver, ctx context.Context, given command) (any, error) {
	deleted, err := d.admin.DeleteGroup(ctx, given.Group)
	if err != nil {
		return nil, err
	}
	return nil, deleted.Err
}

// deleteRecords answers with the first offset that is left, by partition.
func deleteRecords(d *driver, ctx context.Context, given command) (any, error) {
	before := kadm.Offsets{}
	for partition, offset := range given.Offsets {
		before.AddOffset(given.Topic, partition, offset, -1)
	}
	deleted, err := d.admin.DeleteRecords(ctx, before)
	if err != nil {
		return nil, err
	}
	answer := map[int32]int64{}
	for partition, each := range deleted[given.Topic] {
		answer[partition] = each.LowWatermark
	}
	return answer, deleted.Error()
}
