import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Distinct keys in Kafka Streams: select the key, repartition, and ask a store whether it has the key.
 *
 * <p>java Distinct BOOTSTRAP TOPIC OUTPUT FIELD WORKERS STATE
 *
 * <p>After https://kafka.apache.org/documentation/streams/developer-guide/dsl-api ("Applying processors", "repartition"),
 * .../processor-api ("State Stores") and .../memory-mgmt ("Record caches in the Processor API"). The store is RocksDB, with
 * a changelog. The settings are those of `Counts`, for throughput.
 */
public class Distinct {
  private static final JsonFactory JSON = new JsonFactory();
  private static final String SEEN = "seen";

  public static void main(String[] given) {
    String[] path = given[3].split("\\.");
    int workers = Integer.parseInt(given[4]);
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, given[2]);
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, given[0]);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, workers);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, given[5]);
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64L << 20);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 5000);
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    settings.put("auto.offset.reset", "earliest");
    settings.put("producer.linger.ms", 50);
    settings.put("producer.compression.type", "lz4");

    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(
        Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(SEEN), Serdes.String(), Serdes.ByteArray())
            .withCachingEnabled());
    builder.stream(given[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .map((key, value) -> KeyValue.pair(key(value, path), value))
        .repartition(
            Repartitioned.<String, byte[]>as("keyed")
                .withKeySerde(Serdes.String())
                .withValueSerde(Serdes.ByteArray())
                .withNumberOfPartitions(Math.max(workers, 4)))
        .processValues(FirstSeen::new, SEEN)
        .to(given[2], Produced.with(Serdes.String(), Serdes.ByteArray()));

    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
    streams.start();
  }

  /** Forwards a record whose key comes for the first time. */
  private static class FirstSeen extends ContextualFixedKeyProcessor<String, byte[], byte[]> {
    private static final byte[] YES = {1};
    private KeyValueStore<String, byte[]> seen;

    @Override
    public void init(FixedKeyProcessorContext<String, byte[]> context) {
      super.init(context);
      seen = context.getStateStore(SEEN);
    }

    @Override
    public void process(FixedKeyRecord<String, byte[]> record) {
      if (seen.putIfAbsent(record.key(), YES) == null) {
        context().forward(record);
      }
    }
  }

  /** A field of a value as text. The path has the names of the objects around it, too. */
  private static String key(byte[] value, String[] path) {
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
