import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Three members of a group with one assignor, two of which come late and one of which leaves early; what each has when
 * nothing moves, and what all of them have read. Arguments: bootstrap, topic, group, number of partitions, assignor, and
 * `consumer` when that is one of the broker's (KIP-848).
 */
public final class Members {
    private static final int ROUND = 60;

    private final String[] args;
    private final int partitions;
    private final List<Member> members = new ArrayList<>();
    private final List<String> read = new ArrayList<>();

    private Members(String[] args) {
        this.args = args;
        this.partitions = Integer.parseInt(args[3]);
    }

    public static void main(String[] args) throws Exception {
        new Members(args).run();
    }

    private void run() throws Exception {
        produce(0);
        join();
        pollUntilRead(ROUND);
        join();
        join();
        pollUntilShared();
        Facts.print("shares", shares());
        pollUntilRead(partitions * ROUND);
        try (Member leaving = members.remove(1)) {
            Facts.print("leaves with", leaving.assigned().size());
        }
        produce(ROUND);
        pollUntilShared();
        Facts.print("shares", shares());
        pollUntilRead(2 * partitions * ROUND);
        members.forEach(Member::close);
        Set<String> distinct = new HashSet<>(read);
        Facts.print("read", read.size(), "distinct", distinct.size());
    }

    private void produce(int from) {
        try (KafkaProducer<String, String> producer = Clients.producer(args[0])) {
            for (int number = from; number < from + ROUND; number++) {
                for (int partition = 0; partition < partitions; partition++) {
                    producer.send(new ProducerRecord<>(args[1], partition, null, Integer.toString(number)));
                }
            }
        }
    }

    private void join() {
        members.add(new Member(Clients.consumer(args[0], settings()), args[1]));
    }

    private Object[] settings() {
        if (args.length > 5) {
            return new Object[] {
                "group.id", args[2], "group.protocol", args[5], "group.remote.assignor", args[4], "max.poll.records", 20
            };
        }
        return new Object[] {
            "group.id", args[2],
            "partition.assignment.strategy", args[4],
            "max.poll.records", 20,
            "heartbeat.interval.ms", 200
        };
    }

    private void poll() {
        for (Member member : members) {
            for (ConsumerRecord<String, String> record : member.poll()) {
                read.add(record.partition() + ":" + record.value());
            }
        }
    }

    private void pollUntilRead(int count) {
        Reading.until(() -> read.size() >= count, this::poll);
    }

    /** Each partition has exactly one member, and each member its share. */
    private void pollUntilShared() {
        Reading.until(
                () -> {
                    TreeSet<Integer> all = new TreeSet<>();
                    int sum = 0;
                    for (Member member : members) {
                        all.addAll(member.assigned());
                        sum += member.assigned().size();
                    }
                    return sum == partitions
                            && all.size() == partitions
                            && members.stream().allMatch(member -> member.assigned().size() == partitions / members.size());
                },
                this::poll);
    }

    private TreeMap<Integer, TreeSet<Integer>> shares() {
        TreeMap<Integer, TreeSet<Integer>> shares = new TreeMap<>();
        members.forEach(member -> shares.put(shares.size(), member.assigned()));
        return shares;
    }
}
