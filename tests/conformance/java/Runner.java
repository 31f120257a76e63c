import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs main methods in one JVM, each in a thread with streams of its own, because a JVM start costs a second.
 *
 * <p>Standard input: one JSON object a line, {"id", "main" (a class name), "args", "input"}. Standard output: one line
 * for each call that has ended, in the order in which they end: {"id", "code", "out", "err"}. The jars of Kafka's tools
 * are named by the system property "tools" and are not on the class path.
 */
public final class Runner {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final PrintStream answers;
    private final URL[] toolJars;

    private Runner(PrintStream answers, URL[] toolJars) {
        this.answers = answers;
        this.toolJars = toolJars;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = System.out;
        System.setOut(new PrintStream(new TaskOutput(System.err, task -> task.out), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new TaskOutput(System.err, task -> task.err), true, StandardCharsets.UTF_8));
        System.setIn(new TaskInput());
        Exit.setExitProcedure(Runner::exit);
        Exit.setHaltProcedure(Runner::exit);
        Exit.setShutdownHookAdder((name, hook) -> { });
        Runner runner = new Runner(answers, jars(System.getProperty("tools")));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            JsonNode call = JSON.readTree(line);
            Thread thread = new Thread(() -> runner.answer(call), call.get("main").asText());
            thread.setDaemon(true);
            thread.start();
        }
        System.exit(0);
    }

    private static URL[] jars(String path) throws MalformedURLException {
        List<URL> urls = new ArrayList<>();
        for (String jar : path.split(File.pathSeparator)) {
            urls.add(new File(jar).toURI().toURL());
        }
        return urls.toArray(new URL[0]);
    }

    private static void exit(int code, String message) {
        Task task = Task.CURRENT.get();
        if (message != null) {
            System.err.println(message);
        }
        if (task != null) {
            task.exit(code);
        }
        throw new ExitRequest(code);
    }

    private void answer(JsonNode call) {
        Task task = new Task(call.get("input").asText());
        Task.CURRENT.set(task);
        run(call, task);
        ObjectNode answer = JSON.createObjectNode();
        answer.put("id", call.get("id").asInt());
        answer.put("code", task.code());
        answer.put("out", task.out.toString(StandardCharsets.UTF_8));
        answer.put("err", task.err.toString(StandardCharsets.UTF_8));
        synchronized (answers) {
            answers.println(answer);
            answers.flush();
        }
    }

    private void run(JsonNode call, Task task) {
        List<String> args = new ArrayList<>();
        call.get("args").forEach(arg -> args.add(arg.asText()));
        try (ToolLoader loader = new ToolLoader(toolJars, Runner.class.getClassLoader())) {
            Thread.currentThread().setContextClassLoader(loader);
            task.exit(code(loader, call.get("main").asText(), args.toArray(new String[0])));
        } catch (IOException | RuntimeException broken) {
            broken.printStackTrace();
        }
    }

    /** As the java command does: 0 when main returns, 1 and the trace when it throws. */
    private static int code(ToolLoader loader, String main, String[] args) {
        try {
            Class.forName(main, true, loader).getMethod("main", String[].class).invoke(null, (Object) args);
            return 0;
        } catch (InvocationTargetException thrown) {
            thrown.getCause().printStackTrace();
        } catch (ReflectiveOperationException broken) {
            broken.printStackTrace();
        }
        return 1;
    }
}
