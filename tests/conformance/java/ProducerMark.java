import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Marks each record with a header and counts acknowledgements. */
public final class ProducerMark implements ProducerInterceptor<String, String> {
    static final AtomicInteger ACKNOWLEDGED = new AtomicInteger();

    @Override
    public ProducerRecord<String, String> onSend(ProducerRecord<String, String> record) {
        record.headers().add("mark", "sent".getBytes(StandardCharsets.UTF_8));
        return record;
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) {
        if (exception == null) {
            ACKNOWLEDGED.incrementAndGet();
        }
    }

    @Override
    public void close() {
    }

    @Override
    public void configure(Map<String, ?> settings) {
    }
}
