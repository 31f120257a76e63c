import java.io.IOException;
import java.io.InputStream;

/** Standard input that comes from the task of the reading thread. */
final class TaskInput extends InputStream {
    private static InputStream current() {
        Task task = Task.CURRENT.get();
        return task == null ? InputStream.nullInputStream() : task.in;
    }

    @Override
    public int read() throws IOException {
        return current().read();
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
        return current().read(bytes, offset, length);
    }

    @Override
    public int available() throws IOException {
        return current().available();
    }
}
