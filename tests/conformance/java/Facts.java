import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;

/** What a class has seen, as lines of JSON that the test reads. */
final class Facts {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** Prints one object from names and values in turn. */
    static void print(Object... namesAndValues) throws JsonProcessingException {
        Map<String, Object> fact = new LinkedHashMap<>();
        for (int each = 0; each < namesAndValues.length; each += 2) {
            fact.put((String) namesAndValues[each], namesAndValues[each + 1]);
        }
        System.out.println(JSON.writeValueAsString(fact));
    }

    private Facts() {
    }
}
