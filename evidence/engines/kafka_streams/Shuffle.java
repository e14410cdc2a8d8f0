import java.util.Properties;
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
 * After ShuffleBench in Kafka Streams: `flatMap` a record to its consumers, repartition, and count in a store.
 *
 * <p>java Shuffle BOOTSTRAP TOPIC OUTPUT WORKERS SEGMENTS STATE
 *
 * <p>After https://kafka.apache.org/documentation/streams/developer-guide/dsl-api ("FlatMap", "Applying processors",
 * "repartition"), .../processor-api ("State Stores") and .../memory-mgmt ("Record caches in the Processor API"). The store
 * is RocksDB, with a changelog, as in ShuffleBench. The settings are those of `Distinct`; but what is sent isn't compressed,
 * because random bytes can't be, and a producer's batches take 256 records of a kilobyte, in place of 16.
 */
public class Shuffle {
  private static final String COUNTS = "counts";

  public static void main(String[] given) {
    int workers = Integer.parseInt(given[3]);
    Matcher matcher = new Matcher(given[4]);
    Properties settings = Streams.settings(given[0], given[2], workers, given[5]);
    settings.put("producer.compression.type", "none");
    settings.put("producer.batch.size", 256 << 10);

    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(
        Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(COUNTS), Serdes.String(), Serdes.ByteArray())
            .withCachingEnabled());
    builder.stream(given[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .flatMap(
            (key, value) ->
                matcher.consumers(value).stream().map(name -> KeyValue.pair(name, value)).toList())
        .repartition(Streams.repartitioned("matched", workers))
        .processValues(Consumer::new, COUNTS)
        .to(given[2], Produced.with(Serdes.String(), Serdes.ByteArray()));
    Streams.run(builder, settings);
  }

  /** Counts the records of a consumer, and forwards its events. */
  private static class Consumer extends ContextualFixedKeyProcessor<String, byte[], byte[]> {
    private KeyValueStore<String, byte[]> counts;

    @Override
    public void init(FixedKeyProcessorContext<String, byte[]> context) {
      super.init(context);
      counts = context.getStateStore(COUNTS);
    }

    @Override
    public void process(FixedKeyRecord<String, byte[]> record) {
      byte[] state = Matcher.counted(counts.get(record.key()), record.value(), record.timestamp());
      counts.put(record.key(), state);
      if (Matcher.due(state)) {
        context().forward(record.withValue(state));
      }
    }
  }
}
