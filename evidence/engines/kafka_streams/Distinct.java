import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
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
  private static final String SEEN = "seen";

  public static void main(String[] given) {
    String[] path = given[3].split("\\.");
    int workers = Integer.parseInt(given[4]);
    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(
        Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(SEEN), Serdes.String(), Serdes.ByteArray())
            .withCachingEnabled());
    builder.stream(given[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .map((key, value) -> KeyValue.pair(Streams.field(value, path), value))
        .repartition(Streams.repartitioned("keyed", workers))
        .processValues(FirstSeen::new, SEEN)
        .to(given[2], Produced.with(Serdes.String(), Serdes.ByteArray()));
    Streams.run(builder, Streams.settings(given[0], given[2], workers, given[5]));
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
}
