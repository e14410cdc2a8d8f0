import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/**
 * The join in Kafka Streams: select the keys, repartition both streams alike, and join them by `JoinWindows`.
 *
 * <p>java Join BOOTSTRAP LEFT RIGHT OUTPUT WORKERS STATE LATE_MS
 *
 * <p>After https://kafka.apache.org/documentation/streams/developer-guide/dsl-api ("KStream-KStream Join", "Join
 * co-partitioning requirements", "repartition"). Time is that of the records. Of a row the store has the id. The settings
 * are those of `Counts`, for throughput.
 */
public class Join {
  public static void main(String[] given) {
    int workers = Integer.parseInt(given[4]);
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, byte[]> right = keyed(builder, given[2], "right", workers);
    keyed(builder, given[1], "left", workers)
        .join(
            right,
            (key, one, other) ->
                "{\"key\":\"" + key + "\",\"left\":" + text(one) + ",\"right\":" + text(other) + "}",
            JoinWindows.ofTimeDifferenceAndGrace(
                Duration.ofSeconds(1), Duration.ofMillis(Long.parseLong(given[6]))),
            StreamJoined.with(Serdes.String(), Serdes.ByteArray(), Serdes.ByteArray()))
        .to(given[3], Produced.with(Serdes.String(), Serdes.String()));
    Streams.run(builder, Streams.settings(given[0], given[3], workers, given[5]));
  }

  /** The ids of a topic's rows, by their keys. */
  private static KStream<String, byte[]> keyed(
      StreamsBuilder builder, String topic, String name, int workers) {
    return builder.stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .map(
            (key, row) ->
                KeyValue.pair(
                    Streams.field(row, "key"),
                    Streams.field(row, "id").getBytes(StandardCharsets.UTF_8)))
        .repartition(Streams.repartitioned(name, workers));
  }

  private static String text(byte[] id) {
    return new String(id, StandardCharsets.UTF_8);
  }
}
