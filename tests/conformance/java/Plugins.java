import java.util.List;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A partitioner and interceptors of our own on both sides. Arguments: bootstrap, topic of two partitions, group. */
public final class Plugins {
    public static void main(String[] args) throws Exception {
        try (KafkaProducer<String, String> producer = Clients.producer(
                args[0],
                "partitioner.class",
                EvenOddPartitioner.class.getName(),
                "interceptor.classes",
                ProducerMark.class.getName())) {
            for (int key = 0; key < 10; key++) {
                producer.send(new ProducerRecord<>(args[1], Integer.toString(key), "value"));
            }
        }
        try (KafkaConsumer<String, String> consumer = Clients.consumer(
                args[0], "group.id", args[2], "interceptor.classes", ConsumerMark.class.getName())) {
            consumer.subscribe(List.of(args[1]));
            List<ConsumerRecord<String, String>> records = Reading.next(consumer, 10);
            consumer.commitSync();
            Facts.print(
                    "keys",
                    records.stream().collect(Collectors.groupingBy(
                            ConsumerRecord::partition,
                            TreeMap::new,
                            Collectors.mapping(ConsumerRecord::key, Collectors.toList()))),
                    "marked",
                    records.stream().filter(record -> record.headers().lastHeader("mark") != null).count(),
                    "acknowledged", ProducerMark.ACKNOWLEDGED.get(),
                    "consumed", ConsumerMark.CONSUMED.get(),
                    "committed", ConsumerMark.COMMITTED.get());
        }
    }

    private Plugins() {
    }
}
