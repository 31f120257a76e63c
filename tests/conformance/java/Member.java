import java.util.Collection;
import java.util.List;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;

/** A consumer that commits what it has read before it gives a partition away. */
final class Member implements AutoCloseable, ConsumerRebalanceListener {
    private final KafkaConsumer<String, String> consumer;
    int assignments;

    Member(KafkaConsumer<String, String> consumer, String topic) {
        this.consumer = consumer;
        consumer.subscribe(List.of(topic), this);
    }

    ConsumerRecords<String, String> poll() {
        ConsumerRecords<String, String> records = consumer.poll(Reading.POLL);
        if (!records.isEmpty()) {
            commit();
        }
        return records;
    }

    TreeSet<Integer> assigned() {
        TreeSet<Integer> partitions = new TreeSet<>();
        consumer.assignment().forEach(partition -> partitions.add(partition.partition()));
        return partitions;
    }

    private void commit() {
        try {
            consumer.commitSync();
        } catch (RebalanceInProgressException later) {
            // What is given away is committed when it is; what is kept, with the next records.
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        assignments++;
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        // They are another's already: there is nothing to commit.
    }

    @Override
    public void close() {
        consumer.close();
    }
}
