import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Counts what was consumed and what was committed. */
public final class ConsumerMark implements ConsumerInterceptor<String, String> {
    static final AtomicLong CONSUMED = new AtomicLong();
    static final AtomicLong COMMITTED = new AtomicLong();

    @Override
    public ConsumerRecords<String, String> onConsume(ConsumerRecords<String, String> records) {
        CONSUMED.addAndGet(records.count());
        return records;
    }

    @Override
    public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        COMMITTED.addAndGet(offsets.values().stream().mapToLong(OffsetAndMetadata::offset).sum());
    }

    @Override
    public void close() {
    }

    @Override
    public void configure(Map<String, ?> settings) {
    }
}
