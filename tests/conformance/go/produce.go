package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

var acknowledgements = map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}

// produce writes records in order and answers with their offsets.
func produce(d *driver, ctx context.Context, given command) (any, error) {
	codec, known := codecs[given.Codec]
	if !known {
		return nil, fmt.Errorf("no such codec: %s", given.Codec)
	}
	options := d.with(
		kgo.RequiredAcks(acknowledgements[given.Acks]),
		kgo.ProducerBatchCompression(codec),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(10*time.Millisecond),
	)
	if !given.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	records := make([]*kgo.Record, len(given.Records))
	for index, each := range given.Records {
		records[index] = &kgo.Record{
			Topic:     given.Topic,
			Partition: each.Partition,
			Key:       each.Key,
			Value:     each.Value,
			Timestamp: time.UnixMilli(each.Timestamp),
		}
		for _, header := range each.Headers {
			records[index].Headers = append(records[index].Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
		}
	}
	results := client.ProduceSync(ctx, records...)
	offsets := make([]int64, len(results))
	for index, result := range results {
		if result.Err != nil {
			return nil, result.Err
		}
		offsets[index] = result.Record.Offset
	}
	return offsets, nil
}
