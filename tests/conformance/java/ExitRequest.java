/** What a tool meets where it would end its process. */
final class ExitRequest extends Error {
    private static final long serialVersionUID = 1L;

    ExitRequest(int code) {
        super("exit " + code, null, false, false);
    }
}
