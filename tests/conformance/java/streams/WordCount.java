import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The word count of Kafka's own documentation: lines come from one topic, the count of each word goes to another.
 *
 * <p>Arguments: broker, application id, topic of lines, topic of counts, then properties as key=value. Each state of the
 * application is a line on standard output. It ends when its standard input does.
 */
public final class WordCount {
    private WordCount() { }

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        for (String property : Arrays.copyOfRange(args, 4, args.length)) {
            properties.put(property.split("=", 2)[0], property.split("=", 2)[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(args[2]);
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> counts =
            Materialized.as(Stores.inMemoryKeyValueStore("counts"));
        lines.flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split("\\W+")))
            .groupBy((key, word) -> word)
            .count(counts)
            .toStream()
            .to(args[3], Produced.with(Serdes.String(), Serdes.Long()));
        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties)) {
            streams.setStateListener((now, before) -> System.out.println(now));
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            while (System.in.read() >= 0) {
                continue;
            }
            streams.close(Duration.ofSeconds(30));
        }
    }
}
