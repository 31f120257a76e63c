import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** Polls with an end: what is waited for comes within a minute or is missing. */
final class Reading {
    private static final long LIMIT_NS = 60_000_000_000L;
    static final Duration POLL = Duration.ofMillis(50);

    /** The next {@code count} records. */
    static List<ConsumerRecord<String, String>> next(Consumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        until(() -> records.size() >= count, () -> consumer.poll(POLL).forEach(records::add));
        return records;
    }

    /** Does the step again and again until it is so. */
    static void until(BooleanSupplier isSo, Runnable step) {
        long end = System.nanoTime() + LIMIT_NS;
        while (!isSo.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("what the program waits for did not come");
            }
            step.run();
        }
    }

    private Reading() {
    }
}
