import java.util.List;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.common.errors.FencedInstanceIdException;

/**
 * Two members with names of their own: one goes and comes back, one is replaced by its double, one is sent away.
 * Arguments: bootstrap, topic of four partitions, group.
 */
public final class StaticMembers {
    public static void main(String[] args) throws Exception {
        Member one = member(args, "one");
        Member two = member(args, "two");
        Reading.until(() -> one.assigned().size() == 2 && two.assigned().size() == 2, () -> {
            one.poll();
            two.poll();
        });
        int assignments = one.assignments;
        TreeSet<Integer> share = two.assigned();
        two.close();
        Member back = member(args, "two");
        Reading.until(() -> !back.assigned().isEmpty(), () -> {
            back.poll();
            one.poll();
        });
        Facts.print("same share", back.assigned().equals(share), "rebalanced", one.assignments - assignments);
        Member twin = member(args, "two");
        Reading.until(() -> !twin.assigned().isEmpty(), twin::poll);
        Facts.print("twin", twin.assigned().equals(share));
        try {
            Reading.until(() -> false, back::poll);
        } catch (FencedInstanceIdException fenced) {
            Facts.print("fenced", fenced.getClass().getSimpleName());
        }
        back.close();
        twin.close();
        try (Admin admin = Admin.create(java.util.Map.of("bootstrap.servers", args[0]))) {
            admin.removeMembersFromConsumerGroup(
                            args[2], new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("two"))))
                    .all()
                    .get();
        }
        Reading.until(() -> one.assigned().size() == 4, one::poll);
        Facts.print("left", one.assigned());
        one.close();
    }

    private static Member member(String[] args, String name) {
        return new Member(
                Clients.consumer(
                        args[0], "group.id", args[2], "group.instance.id", name, "heartbeat.interval.ms", 200),
                args[1]);
    }

    private StaticMembers() {
    }
}
