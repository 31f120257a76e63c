import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of a share group, each in a thread, accept all records of a topic.
 *
 * <p>java ShareLoad.java BOOTSTRAP TOPIC CONSUMERS WARM_UP RECORDS SECONDS: prints `begin` when WARM_UP records have come,
 * and `end` with records and seconds since then, when RECORDS more are there or the time is over.
 */
final class ShareLoad {
    private static final AtomicLong come = new AtomicLong();
    private static volatile boolean isOver;

    private ShareLoad() {}

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        int consumers = Integer.parseInt(arguments[2]);
        long warmUp = Long.parseLong(arguments[3]);
        long records = Long.parseLong(arguments[4]);
        double seconds = Double.parseDouble(arguments[5]);
        String group = "share-" + topic;
        beginAtTheStart(bootstrap, group);
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < consumers; number++) {
            threads.add(new Thread(() -> work(bootstrap, topic, group)));
        }
        threads.forEach(Thread::start);
        while (come.get() < warmUp) {
            Thread.sleep(1);
        }
        long first = come.get();
        long begun = System.nanoTime();
        System.out.println("begin");
        while (come.get() < warmUp + records && System.nanoTime() - begun < seconds * 1e9) {
            Thread.sleep(1);
        }
        long last = come.get();
        double taken = (System.nanoTime() - begun) / 1e9;
        System.out.println("end " + (last - first) + " " + taken);
        isOver = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void work(String bootstrap, String topic, String group) {
        Map<String, Object> settings =
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "group.id", group,
                        "key.deserializer", ByteArrayDeserializer.class,
                        "value.deserializer", ByteArrayDeserializer.class);
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            while (!isOver) {
                come.addAndGet(consumer.poll(Duration.ofMillis(200)).count());
            }
        }
    }

    private static void beginAtTheStart(String bootstrap, String group) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            Collection<AlterConfigOp> set =
                    List.of(
                            new AlterConfigOp(
                                    new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET));
            admin.incrementalAlterConfigs(Map.of(resource, set)).all().get();
        }
    }
}
