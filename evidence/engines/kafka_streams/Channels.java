import java.nio.ByteBuffer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * NEXMark's query 16 in Kafka Streams: repartition by channel and day, ask a store what is new of a bid, and add that up.
 *
 * <p>java Channels BOOTSTRAP TOPIC OUTPUT WORKERS STATE
 *
 * <p>After https://kafka.apache.org/documentation/streams/developer-guide/dsl-api ("Aggregating", "Applying processors",
 * "repartition"), .../processor-api ("State Stores") and .../memory-mgmt ("Record caches in the DSL", "Record caches in the
 * Processor API"). An aggregate that is a set would be written as a whole at each bid. So the first store has an entry for
 * each channel and bidder or auction: the ranks of price in which it was seen. Both stores are RocksDB, with a changelog.
 * A row is written again at each commit. The settings are those of `Counts`, for throughput.
 */
public class Channels {
  private static final String SEEN = "seen";
  private static final Serde<long[]> NUMBERS =
      Serdes.serdeFrom((topic, numbers) -> bytes(numbers), (topic, content) -> numbers(content));

  public static void main(String[] given) {
    int workers = Integer.parseInt(given[3]);
    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(
        Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(SEEN), Serdes.String(), Serdes.ByteArray())
            .withCachingEnabled());
    builder.stream(given[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .map(
            (key, value) -> {
              Bid bid = Bid.of(value);
              long[] numbers = {bid.bidder(), bid.auction(), Bid.rank(bid.price()), bid.minute()};
              return KeyValue.pair(bid.key(), numbers);
            })
        .repartition(
            Repartitioned.<String, long[]>as("keyed")
                .withKeySerde(Serdes.String())
                .withValueSerde(NUMBERS)
                .withNumberOfPartitions(Math.max(workers, 4)))
        .processValues(New::new, SEEN)
        .groupByKey(Grouped.with(Serdes.String(), NUMBERS))
        .aggregate(
            () -> new long[13],
            (key, row, sum) -> Bid.sum(row, sum),
            Materialized.with(Serdes.String(), NUMBERS))
        .toStream()
        .mapValues(Bid::json)
        .to(given[2], Produced.with(Serdes.String(), Serdes.String()));

    Streams.run(builder, Streams.settings(given[0], given[2], workers, given[4]));
  }

  /** Forwards a bid as the row of what it adds to its channel. */
  private static class New extends ContextualFixedKeyProcessor<String, long[], long[]> {
    private KeyValueStore<String, byte[]> seen;

    @Override
    public void init(FixedKeyProcessorContext<String, long[]> context) {
      super.init(context);
      seen = context.getStateStore(SEEN);
    }

    @Override
    public void process(FixedKeyRecord<String, long[]> bid) {
      long[] numbers = bid.value();
      int rank = (int) numbers[2];
      int bidder = before(bid.key() + " bidder " + numbers[0], rank);
      int auction = before(bid.key() + " auction " + numbers[1], rank);
      context().forward(bid.withValue(Bid.row(rank, numbers[3], bidder, auction)));
    }

    /** The ranks in which an id was seen before, as bits; the store gets this one. */
    private int before(String id, int rank) {
      byte[] ranks = seen.get(id);
      int before = ranks == null ? 0 : ranks[0];
      if ((before & 1 << rank) == 0) {
        seen.put(id, new byte[] {(byte) (before | 1 << rank)});
      }
      return before;
    }
  }

  private static byte[] bytes(long[] numbers) {
    if (numbers == null) {
      return null;
    }
    ByteBuffer content = ByteBuffer.allocate(8 * numbers.length);
    content.asLongBuffer().put(numbers);
    return content.array();
  }

  private static long[] numbers(byte[] content) {
    if (content == null) {
      return null;
    }
    long[] numbers = new long[content.length / 8];
    ByteBuffer.wrap(content).asLongBuffer().get(numbers);
    return numbers;
  }
}
