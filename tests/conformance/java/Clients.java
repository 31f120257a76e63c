import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Java clients of text, with settings as names and values in turn. */
final class Clients {
    static KafkaProducer<String, String> producer(String bootstrap, Object... settings) {
        return new KafkaProducer<>(map(bootstrap, settings), new StringSerializer(), new StringSerializer());
    }

    /** Without a group id: for partitions that are assigned by hand. It starts at the beginning and commits nothing. */
    static KafkaConsumer<String, String> consumer(String bootstrap, Object... settings) {
        Map<String, Object> all = map(bootstrap, "auto.offset.reset", "earliest", "enable.auto.commit", false);
        all.putAll(map(bootstrap, settings));
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    private static Map<String, Object> map(String bootstrap, Object... settings) {
        Map<String, Object> all = new HashMap<>();
        all.put("bootstrap.servers", bootstrap);
        for (int each = 0; each < settings.length; each += 2) {
            all.put((String) settings[each], settings[each + 1]);
        }
        return all;
    }

    private Clients() {
    }
}
