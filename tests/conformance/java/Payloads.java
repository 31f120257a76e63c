import java.util.Map;
import java.util.Random;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces long records, ten a batch, to partition 0: a number, a space and noise. Arguments: bootstrap, topic, first
 * number, count, size of a record, codec.
 */
public final class Payloads {
    public static void main(String[] args) throws Exception {
        int first = Integer.parseInt(args[2]);
        int count = Integer.parseInt(args[3]);
        int size = Integer.parseInt(args[4]);
        Random random = new Random(first);
        Map<String, Object> settings = Map.of("bootstrap.servers", args[0], "compression.type", args[5], "linger.ms", 50);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = first; number < first + count; number++) {
                String noise = random.ints(size, 'a', 'z' + 1)
                        .collect(StringBuilder::new, StringBuilder::appendCodePoint, StringBuilder::append)
                        .toString();
                String value = number + " " + noise;
                Future<RecordMetadata> sent = producer.send(new ProducerRecord<>(args[1], 0, null, value));
                if (number % 10 == 9) {
                    producer.flush();
                    sent.get();
                }
            }
        }
    }

    private Payloads() {
    }
}
