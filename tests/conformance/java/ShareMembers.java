import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Three members of a share group read a topic until each of its records is done: numbers that end in 3 are released at
 * their first delivery, those that end in 7 are rejected, those that end in 5 are renewed and then accepted, all others
 * are accepted. Arguments: bootstrap, topic, group, number of records.
 */
public final class ShareMembers {
    private final String[] args;
    private final Map<String, Integer> accepted = new HashMap<>();
    private final Map<String, Integer> rejected = new HashMap<>();
    private final Map<String, Integer> released = new HashMap<>();
    private final Map<String, Integer> renewed = new HashMap<>();
    private int wrongCounts;
    private int failures;

    private ShareMembers(String[] args) {
        this.args = args;
    }

    public static void main(String[] args) throws Exception {
        new ShareMembers(args).run();
    }

    private void run() throws Exception {
        List<KafkaShareConsumer<String, String>> members = new ArrayList<>();
        for (int member = 0; member < 3; member++) {
            members.add(new KafkaShareConsumer<>(settings(), new StringDeserializer(), new StringDeserializer()));
            members.get(member).subscribe(List.of(args[1]));
        }
        int wanted = Integer.parseInt(args[3]);
        while (accepted.size() + rejected.size() < wanted) {
            members.forEach(this::workOff);
        }
        members.forEach(KafkaShareConsumer::close);
        Facts.print("accepted", accepted.size(), "rejected", rejected.size());
        Facts.print("accepted again", again(accepted), "rejected again", again(rejected));
        Facts.print("released", released.size(), "renewed", renewed.size());
        Facts.print("wrong delivery counts", wrongCounts, "failed acknowledgements", failures);
    }

    private Map<String, Object> settings() {
        return Map.of(
            "bootstrap.servers", args[0],
            "group.id", args[2],
            "share.acknowledgement.mode", "explicit",
            "max.poll.records", 20);
    }

    private void workOff(KafkaShareConsumer<String, String> member) {
        for (ConsumerRecord<String, String> record : member.poll(Duration.ofMillis(200))) {
            member.acknowledge(record, end(record));
        }
        Map<TopicIdPartition, Optional<KafkaException>> results = member.commitSync();
        failures += (int) results.values().stream().filter(Optional::isPresent).count();
    }

    private AcknowledgeType end(ConsumerRecord<String, String> record) {
        int number = Integer.parseInt(record.value());
        boolean isReleased = released.containsKey(record.value());
        if (record.deliveryCount().orElse((short) 0) != (isReleased ? 2 : 1)) {
            wrongCounts++;
        }
        if (number % 10 == 3 && !isReleased) {
            released.put(record.value(), 1);
            return AcknowledgeType.RELEASE;
        }
        if (number % 10 == 5 && !renewed.containsKey(record.value())) {
            renewed.put(record.value(), 1);
            return AcknowledgeType.RENEW;
        }
        if (number % 10 == 7) {
            rejected.merge(record.value(), 1, Integer::sum);
            return AcknowledgeType.REJECT;
        }
        accepted.merge(record.value(), 1, Integer::sum);
        return AcknowledgeType.ACCEPT;
    }

    private static long again(Map<String, Integer> done) {
        return done.values().stream().filter(times -> times > 1).count();
    }
}
