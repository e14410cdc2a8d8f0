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
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * Both jobs in Kafka Streams: select the key, repartition, count in tumbling windows.
 *
 * <p>java Counts BOOTSTRAP TOPIC OUTPUT COST_MS WORKERS STATE
 *
 * <p>After https://kafka.apache.org/documentation/streams/developer-guide/dsl-api ("Tumbling time windows", "repartition")
 * and .../config-streams ("num.stream.threads", "statestore.cache.max.bytes"). A count is written again as it grows: at
 * each commit, through the cache of records.
 */
public class Counts {
  private static final JsonFactory JSON = new JsonFactory();

  public static void main(String[] given) {
    String topic = given[1];
    String output = given[2];
    double cost = Double.parseDouble(given[3]);
    int workers = Integer.parseInt(given[4]);
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, output);
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
    KStream<byte[], byte[]> messages =
        builder.stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()));
    KStream<String, byte[]> keyed =
        messages
            .map((key, value) -> KeyValue.pair(country(value), new byte[0]))
            .repartition(
                Repartitioned.<String, byte[]>as("keyed")
                    .withKeySerde(Serdes.String())
                    .withValueSerde(Serdes.ByteArray())
                    .withNumberOfPartitions(Math.max(workers, 4)));
    if (cost > 0) {
      keyed =
          keyed.mapValues(
              value -> {
                try {
                  Thread.sleep((long) cost, (int) (cost % 1 * 1_000_000));
                } catch (InterruptedException interrupted) {
                  Thread.currentThread().interrupt();
                }
                return value;
              });
    }
    keyed
        .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(5), Duration.ofMinutes(40)))
        .count(Materialized.with(Serdes.String(), Serdes.Long()))
        .toStream()
        .map(
            (window, count) ->
                KeyValue.pair(
                    window.key(),
                    "{\"start\":" + window.window().start() + ",\"count\":" + count + "}"))
        .to(output, Produced.with(Serdes.String(), Serdes.String()));

    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
    streams.start();
  }

  /** The value's field "country". */
  private static String country(byte[] value) {
    try (JsonParser parser = JSON.createParser(value)) {
      while (parser.nextToken() != null) {
        if (parser.currentToken() == JsonToken.FIELD_NAME && parser.currentName().equals("country")) {
          return parser.nextTextValue();
        }
      }
      throw new IllegalArgumentException("no country");
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
