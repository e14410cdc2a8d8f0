import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.serialization.SerializationSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * After ShuffleBench in Flink: `flatMap` a record to its consumers, `keyBy`, and count in a `ValueState`.
 *
 * <p>java Shuffle BOOTSTRAP TOPIC OUTPUT WORKERS SEGMENTS CHECKPOINTS
 *
 * <p>After https://nightlies.apache.org/flink/flink-docs-release-2.2/docs/learn-flink/etl/ ("Stateless Transformations",
 * "Keyed Streams", "An Example with Keyed State"), .../dev/datastream/operators/process_function/ and
 * .../connectors/datastream/kafka/. States are on the heap, as in ShuffleBench. Checkpoints, which ShuffleBench leaves
 * off, go to the folder CHECKPOINTS.
 */
public class Shuffle {
  private static final TypeInformation<byte[]> BYTES = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
  private static final TypeInformation<Tuple2<String, byte[]>> NAMED = Types.TUPLE(Types.STRING, BYTES);

  public static void main(String[] given) throws Exception {
    Configuration settings =
        Configuration.fromMap(
            Map.of(
                "pipeline.object-reuse", "true",
                "execution.checkpointing.interval", "10 s",
                "execution.checkpointing.dir", "file://" + given[5]));
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
    environment.setParallelism(Integer.parseInt(given[3]));
    KafkaSource<byte[]> source =
        KafkaSource.<byte[]>builder()
            .setBootstrapServers(given[0])
            .setTopics(given[1])
            .setGroupId(given[2])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setBounded(OffsetsInitializer.latest())
            .setValueOnlyDeserializer(new Plain())
            .build();
    KafkaSink<Tuple2<String, byte[]>> sink =
        KafkaSink.<Tuple2<String, byte[]>>builder()
            .setBootstrapServers(given[0])
            .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
            .setRecordSerializer(
                KafkaRecordSerializationSchema.<Tuple2<String, byte[]>>builder()
                    .setTopic(given[2])
                    .setKeySerializationSchema(new Key())
                    .setValueSerializationSchema(new Event())
                    .build())
            .build();
    environment
        .fromSource(source, WatermarkStrategy.noWatermarks(), "records", BYTES)
        .flatMap(new Match(given[4]), NAMED)
        .keyBy(tuple -> tuple.f0, Types.STRING)
        .process(new Consumer(), NAMED)
        .sinkTo(sink);
    environment.execute(given[1]);
  }

  /** An event's key: its consumer. Flink can't infer the types of a lambda here. */
  private static class Key implements SerializationSchema<Tuple2<String, byte[]>> {
    @Override
    public byte[] serialize(Tuple2<String, byte[]> event) {
      return event.f0.getBytes(StandardCharsets.UTF_8);
    }
  }

  /** An event's value: its consumer's state. */
  private static class Event implements SerializationSchema<Tuple2<String, byte[]>> {
    @Override
    public byte[] serialize(Tuple2<String, byte[]> event) {
      return event.f1;
    }
  }

  /** A record's bytes as they are. */
  private static class Plain extends AbstractDeserializationSchema<byte[]> {
    @Override
    public byte[] deserialize(byte[] message) {
      return message;
    }
  }

  /** Gives a record to each of its consumers. Tasks map the same files. */
  private static class Match extends RichFlatMapFunction<byte[], Tuple2<String, byte[]>> {
    private final String segments;
    private transient Matcher matcher;

    Match(String segments) {
      this.segments = segments;
    }

    @Override
    public void open(OpenContext context) {
      matcher = new Matcher(segments);
    }

    @Override
    public void flatMap(byte[] record, Collector<Tuple2<String, byte[]>> to) {
      for (String consumer : matcher.consumers(record)) {
        to.collect(Tuple2.of(consumer, record));
      }
    }
  }

  /** Counts the records of a consumer, and gives its events. */
  private static class Consumer
      extends KeyedProcessFunction<String, Tuple2<String, byte[]>, Tuple2<String, byte[]>> {
    private transient ValueState<byte[]> counts;

    @Override
    public void open(OpenContext context) {
      counts = getRuntimeContext().getState(new ValueStateDescriptor<>("counts", BYTES));
    }

    @Override
    public void processElement(
        Tuple2<String, byte[]> tuple, Context context, Collector<Tuple2<String, byte[]>> to) throws Exception {
      byte[] state = Matcher.counted(counts.value(), tuple.f1, context.timestamp());
      counts.update(state);
      if (Matcher.due(state)) {
        to.collect(Tuple2.of(tuple.f0, state));
      }
    }
  }
}
