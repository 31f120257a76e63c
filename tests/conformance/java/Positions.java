import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;

/**
 * Seeks, looks up offsets, pauses and resumes. Arguments: bootstrap, topic of two partitions, each of which holds the
 * numbers from 0 to 99 with timestamps from 1000 on.
 */
public final class Positions {
    public static void main(String[] args) throws Exception {
        TopicPartition zero = new TopicPartition(args[1], 0);
        TopicPartition one = new TopicPartition(args[1], 1);
        try (KafkaConsumer<String, String> consumer = Clients.consumer(args[0], "auto.offset.reset", "none")) {
            consumer.assign(List.of(zero));
            consumer.seek(zero, 42);
            Facts.print("seek", Reading.next(consumer, 3).stream().limit(3).map(ConsumerRecord::value).toList());
            consumer.seekToBeginning(List.of(zero));
            Facts.print("beginning", consumer.position(zero), "first", Reading.next(consumer, 1).get(0).value());
            consumer.seekToEnd(List.of(zero));
            Facts.print("end", consumer.position(zero), "polled", consumer.poll(Reading.POLL).count());
            for (long time : new long[] {0, 1050, 1099, 1100}) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(zero, time)).get(zero);
                Facts.print(
                        "time", time,
                        "offset", found == null ? null : found.offset(),
                        "timestamp", found == null ? null : found.timestamp());
            }
            consumer.assign(List.of(zero, one));
            Facts.print(
                    "beginnings", consumer.beginningOffsets(List.of(zero, one)).values().stream().toList(),
                    "ends", consumer.endOffsets(List.of(zero, one)).values().stream().toList());
            consumer.seekToBeginning(List.of(zero, one));
            consumer.pause(List.of(zero));
            boolean quiet = Reading.next(consumer, 100).stream().allMatch(record -> record.partition() == 1);
            quiet &= consumer.poll(Reading.POLL).isEmpty();
            consumer.resume(List.of(zero));
            Facts.print("paused", quiet, "resumed", Reading.next(consumer, 100).get(99).value());
            consumer.seek(zero, 1000);
            try {
                Reading.next(consumer, 1);
            } catch (OffsetOutOfRangeException outOfRange) {
                Facts.print("outOfRange", outOfRange.offsetOutOfRangePartitions().get(zero));
            }
        }
    }

    private Positions() {
    }
}
