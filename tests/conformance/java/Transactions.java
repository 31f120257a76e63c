import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/** Transactions of the Java producer: bootstrap, source, target. Copies the source in transactions, some aborted. */
public final class Transactions {
    private static final int PER_TRANSACTION = 10;

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String source = args[1];
        String target = args[2];
        int count = Integer.parseInt(args[3]);
        int committed = copy(bootstrap, source, target, count);
        List<String> values = read(bootstrap, target, "read_committed");
        List<String> everything = read(bootstrap, target, "read_uncommitted");
        Facts.print("committed", committed, "read", values, "written", everything.size());
        Facts.print("fenced", fenced(bootstrap, target));
    }

    /** Each transaction is aborted the first time and committed the second. */
    private static int copy(String bootstrap, String source, String target, int count) {
        int copied = 0;
        int transactions = 0;
        try (KafkaProducer<String, String> producer =
                        Clients.producer(bootstrap, "transactional.id", target);
                KafkaConsumer<String, String> consumer =
                        Clients.consumer(bootstrap, "group.id", target, "max.poll.records", PER_TRANSACTION,
                                "isolation.level", "read_committed")) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            boolean aborts = true;
            while (copied < count) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                    offsets.put(new TopicPartition(source, record.partition()),
                            new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                transactions++;
                if (aborts) {
                    producer.flush();
                    producer.abortTransaction();
                    goBack(consumer);
                } else {
                    producer.commitTransaction();
                    copied += records.count();
                }
                aborts = !aborts;
            }
        }
        return transactions;
    }

    private static void goBack(KafkaConsumer<String, String> consumer) {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(partition);
            consumer.seek(partition, offset == null ? 0 : offset.offset());
        }
    }

    private static List<String> read(String bootstrap, String topic, String isolation) {
        List<String> values = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = Clients.consumer(bootstrap, "isolation.level", isolation)) {
            List<TopicPartition> partitions = new ArrayList<>();
            consumer.partitionsFor(topic)
                    .forEach(each -> partitions.add(new TopicPartition(topic, each.partition())));
            consumer.assign(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            while (ends.entrySet().stream().anyMatch(end -> consumer.position(end.getKey()) < end.getValue())) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> values.add(record.value()));
            }
        }
        return values;
    }

    /** What a producer is told after another with its id has begun. */
    private static String fenced(String bootstrap, String topic) {
        try (KafkaProducer<String, String> first = Clients.producer(bootstrap, "transactional.id", topic);
                KafkaProducer<String, String> second = Clients.producer(bootstrap, "transactional.id", topic)) {
            first.initTransactions();
            first.beginTransaction();
            first.send(new ProducerRecord<>(topic, 0, null, "void"));
            first.flush();
            second.initTransactions();
            try {
                first.commitTransaction();
                return "nothing";
            } catch (KafkaException refused) {
                return refused.getClass().getSimpleName();
            }
        }
    }

    private Transactions() {
    }
}
