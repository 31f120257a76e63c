import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/** Records with every field there, empty and missing, as they come back. Arguments: bootstrap, topic. */
public final class Fields {
    public static void main(String[] args) throws Exception {
        try (KafkaProducer<String, String> producer = Clients.producer(args[0])) {
            ProducerRecord<String, String> full = new ProducerRecord<>(args[1], 0, 12345L, "key", "value");
            full.headers().add("h", "1".getBytes(StandardCharsets.UTF_8)).add("h", new byte[0]).add("", null);
            producer.send(full);
            producer.send(new ProducerRecord<>(args[1], 0, 12346L, null, "value"));
            producer.send(new ProducerRecord<>(args[1], 0, 12347L, "key", (String) null));
            producer.send(new ProducerRecord<>(args[1], 0, 12348L, "", ""));
        }
        try (KafkaConsumer<String, String> consumer = Clients.consumer(args[0])) {
            consumer.assign(List.of(new TopicPartition(args[1], 0)));
            for (ConsumerRecord<String, String> record : Reading.next(consumer, 4)) {
                List<String> headers = new ArrayList<>();
                for (Header header : record.headers()) {
                    byte[] value = header.value();
                    headers.add(header.key() + "=" + (value == null ? null : new String(value, StandardCharsets.UTF_8)));
                }
                Facts.print("offset", record.offset(), "timestamp", record.timestamp(), "type",
                        record.timestampType().name, "key", record.key(), "value", record.value(), "headers", headers,
                        "epoch", record.leaderEpoch().orElse(-1));
            }
        }
    }

    private Fields() {
    }
}
