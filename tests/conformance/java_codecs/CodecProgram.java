import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Drives Kafka's Java client: a command is a line of JSON on standard input, its answer a line on standard output.
 *
 * <pre>
 * {"op": "reader", "handle": "r1", "topic": "t", "partitions": [0]}  ->  {"ok": null}
 * {"op": "poll", "handle": "r1"}                                     ->  {"ok": {"records": [...]}}
 * </pre>
 *
 * Keys, values and header values are base64 or null. The only argument is the address of the broker.
 */
public final class CodecProgram {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL_WAIT = Duration.ofMillis(100);

    private final String address;
    private final Map<String, KafkaConsumer<byte[], byte[]>> readers = new HashMap<>();

    private CodecProgram(String address) {
        this.address = address;
    }

    /** Answers each command until the input ends. */
    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        System.setOut(System.err); // what loggers say is no answer
        CodecProgram program = new CodecProgram(arguments[0]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(program.answer(line));
            answers.flush();
        }
        program.readers.values().forEach(KafkaConsumer::close);
    }

    private ObjectNode answer(String line) throws IOException {
        ObjectNode answer = JSON.createObjectNode();
        try {
            return answer.set("ok", run(JSON.readTree(line)));
        } catch (Exception failure) {
            return answer.put("error", failure.toString());
        }
    }

    private JsonNode run(JsonNode command) throws Exception {
        switch (command.get("op").asText()) {
            case "produce":
                return produce(command);
            case "reader":
                return open(command);
            case "poll":
                return poll(readers.get(command.get("handle").asText()));
            case "close":
                readers.remove(command.get("handle").asText()).close();
                return null;
            default:
                throw new IllegalArgumentException("no such operation: " + command.get("op").asText());
        }
    }

    /** Writes records in order; their offsets. */
    private JsonNode produce(JsonNode command) throws Exception {
        Map<String, Object> config = Map.of(
                "bootstrap.servers", address,
                "key.serializer", ByteArraySerializer.class,
                "value.serializer", ByteArraySerializer.class,
                "acks", command.get("acks").asText(),
                "enable.idempotence", command.get("idempotent").asBoolean(),
                "compression.type", command.get("codec").asText(),
                "linger.ms", 10);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            for (JsonNode record : command.get("records")) {
                RecordHeaders headers = new RecordHeaders();
                for (JsonNode header : record.get("headers")) {
                    headers.add(header.get("name").asText(), bytes(header.get("value")));
                }
                sent.add(producer.send(new ProducerRecord<>(
                        command.get("topic").asText(),
                        record.get("partition").asInt(),
                        record.get("timestamp").asLong(),
                        bytes(record.get("key")),
                        bytes(record.get("value")),
                        headers)));
            }
        }
        ArrayNode offsets = JSON.createArrayNode();
        for (Future<RecordMetadata> each : sent) {
            offsets.add(each.get().offset());
        }
        return offsets;
    }

    /** Begins to read partitions of a topic from their beginning. */
    private JsonNode open(JsonNode command) {
        KafkaConsumer<byte[], byte[]> reader = new KafkaConsumer<>(Map.of(
                "bootstrap.servers", address,
                "key.deserializer", ByteArrayDeserializer.class,
                "value.deserializer", ByteArrayDeserializer.class,
                "enable.auto.commit", false));
        List<TopicPartition> partitions = new ArrayList<>();
        for (JsonNode partition : command.get("partitions")) {
            partitions.add(new TopicPartition(command.get("topic").asText(), partition.asInt()));
        }
        reader.assign(partitions);
        reader.seekToBeginning(partitions);
        readers.put(command.get("handle").asText(), reader);
        return null;
    }

    private JsonNode poll(KafkaConsumer<byte[], byte[]> reader) {
        ObjectNode answer = JSON.createObjectNode();
        ArrayNode records = answer.putArray("records");
        for (ConsumerRecord<byte[], byte[]> record : reader.poll(POLL_WAIT)) {
            ObjectNode each = records.addObject()
                    .put("partition", record.partition())
                    .put("offset", record.offset())
                    .put("key", record.key())
                    .put("value", record.value())
                    .put("timestamp", record.timestamp());
            ArrayNode headers = each.putArray("headers");
            for (Header header : record.headers()) {
                headers.addObject().put("name", header.key()).put("value", header.value());
            }
        }
        return answer;
    }

    private static byte[] bytes(JsonNode node) throws IOException {
        return node.isNull() ? null : node.binaryValue();
    }
}
