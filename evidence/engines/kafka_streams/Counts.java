import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.SessionStore;

/**
 * All jobs in Kafka Streams: select the key, repartition, count in tumbling windows, or in sessions.
 *
 * <p>java Counts BOOTSTRAP TOPIC OUTPUT FIELD GAP_MS COST_MS COST WORKERS STATE LATE_MS AIM
 *
 * <p>After https://kafka.apache.org/documentation/streams/developer-guide/dsl-api ("Tumbling time windows",
 * "Session Windows", "Window Final Results", "repartition") and .../config-streams ("num.stream.threads",
 * "statestore.cache.max.bytes"). A window's count is written again as it grows: at each commit, through the cache of
 * records. A session's is written once, when it is over: by `suppress`, and not by `EmitStrategy.onWindowClose`, with which
 * that cache is left out.
 *
 * <p>With the aim "latency" there is no cache (.../developer-guide/memory-mgmt, "Record caches in the DSL"), so a window's
 * count is written at each message; commits are each 100 ms; and producers wait for 5 ms, Kafka's default, where the
 * default of Kafka Streams is 100 ms. With "throughput" it is 64 MiB, 5 s and 50 ms, and what is sent is compressed.
 *
 * <p>The aim "recovery" is "latency", and counts that are right after a kill: by "processing.guarantee". Static membership
 * (https://kafka.apache.org/documentation, "Static Membership") gives what starts again its partitions at once; else
 * they would wait for the killed member's "session.timeout.ms", 45 s.
 */
public class Counts {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  // A message that is later than the one before it by more than the retention removes the store's
  // sessions before they are emitted. The default is gap + grace; the last message may be 55 minutes later.
  private static final Duration KEPT = Duration.ofHours(2);

  public static void main(String[] given) {
    String topic = given[1];
    String output = given[2];
    String[] path = given[3].split("\\.");
    Duration gap = Duration.ofMillis(Long.parseLong(given[4]));
    double cost = Double.parseDouble(given[5]);
    int workers = Integer.parseInt(given[7]);
    Duration late = Duration.ofMillis(Long.parseLong(given[9]));
    boolean sleeps = given[6].equals("sleep");
    boolean hasty = !given[10].equals("throughput");
    Properties settings = Streams.settings(given[0], output, workers, given[8]);
    if (hasty) {
      settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0L);
      settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
      settings.put("producer.linger.ms", 5);
      settings.put("producer.compression.type", "none");
    }
    if (given[10].equals("recovery")) {
      settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
      settings.put("group.instance.id", "counts");
    }

    StreamsBuilder builder = new StreamsBuilder();
    KStream<byte[], byte[]> messages =
        builder.stream(topic, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()));
    KStream<String, byte[]> keyed =
        messages
            .map((key, value) -> KeyValue.pair(Streams.field(value, path), new byte[0]))
            .repartition(Streams.repartitioned("keyed", workers));
    if (cost > 0) {
      keyed =
          keyed.mapValues(
              value -> {
                spend(cost, sleeps);
                return value;
              });
    }
    KGroupedStream<String, byte[]> grouped =
        keyed.groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()));
    KTable<Windowed<String>, Long> counts;
    if (gap.isZero()) {
      counts =
          grouped
              .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(5), late))
              .count(Materialized.with(Serdes.String(), Serdes.Long()));
    } else {
      counts =
          grouped
              .windowedBy(SessionWindows.ofInactivityGapAndGrace(gap, late))
              .count(
                  Materialized.<String, Long, SessionStore<Bytes, byte[]>>with(Serdes.String(), Serdes.Long())
                      .withRetention(KEPT))
              .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()));
    }
    counts
        .toStream()
        .map(
            (window, count) ->
                KeyValue.pair(
                    window.key(),
                    "{\"start\":" + window.window().start() + ",\"count\":" + count + "}"))
        .to(output, Produced.with(Serdes.String(), Serdes.String()));
    Streams.run(builder, settings);
  }

  /** Takes so many ms: asleep, or computing. */
  private static void spend(double cost, boolean sleeps) {
    if (!sleeps) {
      long until = THREADS.getCurrentThreadCpuTime() + (long) (cost * 1_000_000);
      while (THREADS.getCurrentThreadCpuTime() < until) {}
      return;
    }
    try {
      Thread.sleep((long) cost, (int) (cost % 1 * 1_000_000));
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
