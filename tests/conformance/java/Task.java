import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicReference;

/** One call of a main method: what it reads, what it has written, and the exit code that it asked for first. */
final class Task {
    /** The task that a thread works for; threads that the task starts inherit it. */
    static final InheritableThreadLocal<Task> CURRENT = new InheritableThreadLocal<>();

    final InputStream in;
    final ByteArrayOutputStream out = new ByteArrayOutputStream();
    final ByteArrayOutputStream err = new ByteArrayOutputStream();
    private final AtomicReference<Integer> exitCode = new AtomicReference<>();

    Task(String input) {
        in = new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8));
    }

    /** A process would be gone from here on: later codes do not count and later output is dropped. */
    void exit(int code) {
        exitCode.compareAndSet(null, code);
    }

    boolean exited() {
        return exitCode.get() != null;
    }

    int code() {
        return exitCode.get();
    }
}
