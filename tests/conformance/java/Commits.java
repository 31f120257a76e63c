import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Commits of each kind, and where the next consumer of the group starts. Arguments: bootstrap, topic of one partition
 * with the numbers from 0 to 99, group.
 */
public final class Commits {
    public static void main(String[] args) throws Exception {
        TopicPartition partition = new TopicPartition(args[1], 0);
        try (KafkaConsumer<String, String> consumer =
                Clients.consumer(args[0], "group.id", args[2], "max.poll.records", 10)) {
            consumer.assign(List.of(partition));
            Facts.print("before", consumer.committed(Set.of(partition)).get(partition));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(7, "seven")));
            OffsetAndMetadata committed = consumer.committed(Set.of(partition)).get(partition);
            Facts.print("sync", committed.offset(), "metadata", committed.metadata());
            AtomicReference<Map<TopicPartition, OffsetAndMetadata>> done = new AtomicReference<>();
            consumer.commitAsync(
                    Map.of(partition, new OffsetAndMetadata(30)), (offsets, error) -> done.set(offsets));
            Reading.until(() -> done.get() != null, () -> consumer.poll(Reading.POLL));
            Facts.print("async", consumer.committed(Set.of(partition)).get(partition).offset());
        }
        try (KafkaConsumer<String, String> consumer = Clients.consumer(
                args[0], "group.id", args[2], "max.poll.records", 10, "enable.auto.commit", true)) {
            consumer.subscribe(Pattern.compile(Pattern.quote(args[1])));
            Facts.print("first", Reading.next(consumer, 10).get(0).value());
        }
        try (KafkaConsumer<String, String> consumer = Clients.consumer(args[0], "group.id", args[2])) {
            consumer.subscribe(List.of(args[1]));
            Facts.print("afterAutoCommit", Reading.next(consumer, 1).get(0).value());
        }
    }

    private Commits() {
    }
}
