import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * What a user sees of what cannot be. Arguments: bootstrap, topic whose max.message.bytes is 10000, name of a topic that
 * is not there.
 */
public final class Refusals {
    public static void main(String[] args) throws Exception {
        try (KafkaProducer<String, String> producer = Clients.producer(args[0], "max.request.size", 100_000)) {
            // A batch of one record of these bytes is exactly as long as the topic allows, or one byte longer.
            report("record at the limit", () -> send(producer, args[1], 10_000 - 61 - 11));
            report("record beyond the limit", () -> send(producer, args[1], 10_000 - 61 - 10));
            report("record beyond the client's limit", () -> send(producer, args[1], 200_000));
        }
        try (KafkaProducer<String, String> producer = Clients.producer(args[0])) {
            report("partition that is not there", () -> {
                try (KafkaProducer<String, String> hasty = Clients.producer(args[0], "max.block.ms", 300)) {
                    return hasty.send(new ProducerRecord<>(args[1], 9, null, "x")).get();
                }
            });
            report("illegal topic", () -> producer.send(new ProducerRecord<>("two words", "x")).get());
        }
        try (KafkaConsumer<String, String> consumer = Clients.consumer(args[0], "allow.auto.create.topics", false)) {
            report("partitions of a topic that is not there", () -> consumer.partitionsFor(args[2]));
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            report("topic that is not there", () -> admin.describeTopics(List.of(args[2])).allTopicNames().get());
        }
        report("transactions that take too long", () -> {
            try (KafkaProducer<String, String> producer =
                    Clients.producer(args[0], "transactional.id", args[1], "transaction.timeout.ms", 900_001)) {
                producer.initTransactions();
                return null;
            }
        });
    }

    private static Object send(KafkaProducer<String, String> producer, String topic, int size) throws Exception {
        return producer.send(new ProducerRecord<>(topic, 0, null, "x".repeat(size))).get();
    }

    private static void report(String what, Callable<Object> call) throws Exception {
        try {
            call.call();
            Facts.print("what", what, "error", null, "message", null);
        } catch (ExecutionException thrown) {
            Facts.print("what", what, "error", thrown.getCause().getClass().getSimpleName(),
                    "message", thrown.getCause().getMessage());
        } catch (org.apache.kafka.common.KafkaException thrown) {
            Facts.print("what", what, "error", thrown.getClass().getSimpleName(), "message", thrown.getMessage());
        }
    }

    private Refusals() {
    }
}
