import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces the numbers from {@code from} up to {@code to} as values to one partition, each with its own timestamp:
 * number + base, or now without a base. Arguments: bootstrap, topic, partition, from, to, and the base.
 */
public final class Records {
    public static void main(String[] args) throws Exception {
        int partition = Integer.parseInt(args[2]);
        int from = Integer.parseInt(args[3]);
        int to = Integer.parseInt(args[4]);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", args[0]), new StringSerializer(), new StringSerializer())) {
            Future<RecordMetadata> last = null;
            for (int number = from; number < to; number++) {
                Long timestamp = args.length > 5 ? Long.parseLong(args[5]) + number : null;
                String value = Integer.toString(number);
                last = producer.send(new ProducerRecord<>(args[1], partition, timestamp, null, value));
            }
            last.get();
        }
    }

    private Records() {
    }
}
