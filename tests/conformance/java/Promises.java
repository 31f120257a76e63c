import java.util.List;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Fifty records to one partition for each number of acknowledgements and each codec, idempotent where that can be, read
 * back in between. Arguments: bootstrap, topic.
 */
public final class Promises {
    private static final int COUNT = 50;

    public static void main(String[] args) throws Exception {
        try (KafkaConsumer<String, String> consumer = Clients.consumer(args[0])) {
            consumer.assign(List.of(new TopicPartition(args[1], 0)));
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                for (String acks : List.of("0", "1", "all")) {
                    send(args[0], args[1], codec, acks);
                    List<String> values =
                            Reading.next(consumer, COUNT).stream().map(ConsumerRecord::value).toList();
                    Facts.print("codec", codec, "acks", acks, "read", values.equals(values(codec, acks)));
                }
            }
        }
    }

    private static List<String> values(String codec, String acks) {
        return IntStream.range(0, COUNT).mapToObj(number -> codec + acks + number).toList();
    }

    private static void send(String bootstrap, String topic, String codec, String acks) {
        try (KafkaProducer<String, String> producer = Clients.producer(
                bootstrap, "acks", acks, "compression.type", codec, "enable.idempotence", acks.equals("all"))) {
            values(codec, acks).forEach(value -> producer.send(new ProducerRecord<>(topic, 0, null, value)));
        }
    }

    private Promises() {
    }
}
