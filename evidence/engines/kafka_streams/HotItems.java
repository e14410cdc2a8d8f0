import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.WindowStore;

/**
 * NEXMark's q5 in Kafka Streams: count by auction in hopping windows, then `reduce` a window's counts to the greatest.
 *
 * <p>java HotItems BOOTSTRAP TOPIC OUTPUT WORKERS STATE LATE_MS
 *
 * <p>After https://kafka.apache.org/documentation/streams/developer-guide/dsl-api ("Hopping time windows", "Window Final
 * Results", "Reduce", "repartition") and .../config-streams ("Timestamp extractor"): a message's time is its bid's, also in
 * the topics between. By `suppress` counts are final when they go on, so the greatest only grows. It is written again when
 * it has grown. Retention is longer than the jump in time of the last message, as in `Counts`.
 */
public class HotItems {
  private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss.SSS");

  public static void main(String[] given) {
    int workers = Integer.parseInt(given[3]);
    TimeWindows windows =
        TimeWindows.ofSizeAndGrace(
                Duration.ofSeconds(10), Duration.ofMillis(Long.parseLong(given[5])))
            .advanceBy(Duration.ofSeconds(2));
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(
            given[1],
            Consumed.with(Serdes.ByteArray(), Serdes.ByteArray())
                .withTimestampExtractor((record, newest) -> time((byte[]) record.value())))
        .map((key, bid) -> KeyValue.pair(Streams.field(bid, "bid", "auction"), new byte[0]))
        .repartition(Streams.repartitioned("keyed", workers))
        .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
        .windowedBy(windows)
        .count(
            Materialized.<String, Long, WindowStore<Bytes, byte[]>>with(Serdes.String(), Serdes.Long())
                .withRetention(Duration.ofHours(2)))
        .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
        .toStream()
        .map((auction, count) -> KeyValue.pair(auction.window().start(), pair(count, auction.key())))
        .groupByKey(Grouped.with("windows", Serdes.Long(), Serdes.ByteBuffer()))
        .reduce((hottest, other) -> isLess(hottest, other) ? other : hottest)
        .toStream()
        .mapValues(
            (start, hottest) ->
                String.format(
                    "{\"start\":%d,\"auction\":%d,\"num\":%d}", start, hottest.getLong(8), hottest.getLong(0)))
        .to(given[2], Produced.with(Serdes.Long(), Serdes.String()));
    Streams.run(builder, Streams.settings(given[0], given[2], workers, given[4]));
  }

  private static long time(byte[] bid) {
    LocalDateTime time = LocalDateTime.parse(Streams.field(bid, "bid", "dateTime"), TIME);
    return time.toInstant(ZoneOffset.UTC).toEpochMilli();
  }

  /** The number of bids, and the auction: two longs. */
  private static ByteBuffer pair(long count, String auction) {
    return ByteBuffer.allocate(16).putLong(count).putLong(Long.parseLong(auction)).flip();
  }

  /** Whether a pair has fewer bids, or as many and a smaller auction. */
  private static boolean isLess(ByteBuffer one, ByteBuffer other) {
    int counts = Long.compare(one.getLong(0), other.getLong(0));
    return counts < 0 || (counts == 0 && one.getLong(8) < other.getLong(8));
  }
}
