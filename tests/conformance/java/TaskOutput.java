import java.io.IOException;
import java.io.OutputStream;
import java.util.function.Function;

/** Standard output (or error) that leads to the task of the writing thread; without a task, to where it led before. */
final class TaskOutput extends OutputStream {
    private final OutputStream process;
    private final Function<Task, OutputStream> ofTask;

    TaskOutput(OutputStream process, Function<Task, OutputStream> ofTask) {
        this.process = process;
        this.ofTask = ofTask;
    }

    @Override
    public void write(int value) throws IOException {
        write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
        Task task = Task.CURRENT.get();
        if (task == null) {
            process.write(bytes, offset, length);
        } else if (!task.exited()) {
            ofTask.apply(task).write(bytes, offset, length);
        }
    }

    @Override
    public void flush() throws IOException {
        process.flush();
    }
}
