import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Repartitioned;

/** What the programs share. */
class Streams {
  private static final JsonFactory JSON = new JsonFactory();

  /** The settings for throughput. The application's name is that of its output. */
  static Properties settings(String bootstrap, String output, int workers, String state) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, output);
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, workers);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64L << 20);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 5000);
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    settings.put("auto.offset.reset", "earliest");
    settings.put("producer.linger.ms", 50);
    settings.put("producer.compression.type", "lz4");
    return settings;
  }

  /** A topic between reading and working, with a partition or more a worker. */
  static Repartitioned<String, byte[]> repartitioned(String name, int workers) {
    return Repartitioned.<String, byte[]>as(name)
        .withKeySerde(Serdes.String())
        .withValueSerde(Serdes.ByteArray())
        .withNumberOfPartitions(Math.max(workers, 4));
  }

  /** Runs until the process is ended. */
  static void run(StreamsBuilder builder, Properties settings) {
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
    streams.start();
  }

  /** A field of a value as text. The path has the names of the objects around it, too. */
  static String field(byte[] value, String... path) {
    try (JsonParser parser = JSON.createParser(value)) {
      int found = 0;
      while (parser.nextToken() != null) {
        if (parser.currentToken() == JsonToken.FIELD_NAME && parser.currentName().equals(path[found])) {
          parser.nextToken();
          if (++found == path.length) {
            return parser.getText();
          }
        }
      }
      throw new IllegalArgumentException("no " + String.join(".", path));
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
