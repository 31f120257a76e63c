package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// openTransactional makes a producer with transactions; later commands name its handle.
func openTransactional(d *driver, _ context.Context, given command) (any, error) {
	client, err := kgo.NewClient(d.with(
		kgo.TransactionalID(given.ID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)...)
	if err == nil {
		d.producers[given.Handle] = client
	}
	return nil, err
}

// transaction writes records in a transaction of their own, and commits or aborts it.
func transaction(d *driver, ctx context.Context, given command) (any, error) {
	client := d.producers[given.Handle]
	if err := client.BeginTransaction(); err != nil {
		return nil, err
	}
	records := make([]*kgo.Record, len(given.Records))
	for index, each := range given.Records {
		records[index] = &kgo.Record{Topic: given.Topic, Partition: each.Partition, Value: each.Value}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return nil, err
	}
	return nil, client.EndTransaction(ctx, kgo.TransactionEndTry(given.Commit))
}

// copyInTransactions copies a number of records from one topic to another, with the offsets of a group in each
// transaction, of which every third is aborted. It answers with how many transactions there were.
func copyInTransactions(d *driver, ctx context.Context, given command) (any, error) {
	session, err := kgo.NewGroupTransactSession(d.with(
		kgo.TransactionalID(given.ID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)...)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	transactions := 0
	for copied := 0; copied < int(given.Count); transactions++ {
		fetches := session.PollRecords(ctx, 20)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		if err := session.Begin(); err != nil {
			return nil, err
		}
		taken := 0
		promised := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(each *kgo.Record) {
			taken++
			record := &kgo.Record{Topic: given.Target, Partition: each.Partition, Value: each.Value}
			session.Produce(ctx, record, promised.Promise())
		})
		committed, err := session.End(ctx, kgo.TransactionEndTry(promised.Err() == nil && transactions%3 != 1))
		if err != nil {
			return nil, err
		}
		if committed {
			copied += taken
		}
	}
	return transactions, nil
}
