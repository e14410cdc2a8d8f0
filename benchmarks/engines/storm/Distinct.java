import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.bolt.selector.DefaultTopicSelector;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Distinct keys in Storm: a worker a key ("fields"), which keeps the keys in memory.
 *
 * <p>java Distinct BOOTSTRAP TOPIC OUTPUT FIELD SPOUTS WORKERS
 *
 * <p>After the pages that `Counts` names, with its settings for throughput.
 */
public class Distinct {
  private static final JsonFactory JSON = new JsonFactory();
  private static final Fields MESSAGE = new Fields("key", "message");

  public static void main(String[] given) throws Exception {
    String field = given[3];
    TopologyBuilder builder = new TopologyBuilder();
    KafkaSpoutConfig<String, String> read =
        KafkaSpoutConfig.builder(given[0], given[1])
            .setProp("group.id", given[2])
            .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.EARLIEST)
            .setOffsetCommitPeriodMs(5_000)
            .setRecordTranslator(
                record -> new Values(key(record.value(), field), record.value()), MESSAGE)
            .build();
    builder.setSpout("messages", new KafkaSpout<>(read), Integer.parseInt(given[4]));
    builder
        .setBolt("first", new FirstSeen(), Integer.parseInt(given[5]))
        .fieldsGrouping("messages", new Fields("key"));
    Properties producer = new Properties();
    producer.put("bootstrap.servers", given[0]);
    producer.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    producer.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    producer.put("linger.ms", "50");
    KafkaBolt<String, String> write =
        new KafkaBolt<String, String>()
            .withProducerProperties(producer)
            .withTopicSelector(new DefaultTopicSelector(given[2]))
            .withTupleToKafkaMapper(new FieldNameBasedTupleToKafkaMapper<>("key", "message"));
    builder.setBolt("write", write, 1).shuffleGrouping("first");

    Config settings = new Config();
    settings.setMaxSpoutPending(1_000);
    settings.setMessageTimeoutSecs(300);
    try (LocalCluster cluster = new LocalCluster()) {
      cluster.submitTopology("distinct", settings, builder.createTopology());
      Thread.sleep(Long.MAX_VALUE);
    }
  }

  /** A field of a value. */
  private static String key(String value, String field) {
    try (JsonParser parser = JSON.createParser(value)) {
      while (parser.nextToken() != null) {
        if (parser.currentToken() == JsonToken.FIELD_NAME && parser.currentName().equals(field)) {
          return parser.nextTextValue();
        }
      }
      throw new IllegalArgumentException("no " + field);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Emits a message whose key comes for the first time. */
  public static class FirstSeen extends BaseBasicBolt {
    private transient Set<String> seen;

    @Override
    public void prepare(Map<String, Object> settings, TopologyContext context) {
      seen = new HashSet<>();
    }

    @Override
    public void execute(Tuple tuple, BasicOutputCollector collector) {
      if (seen.add(tuple.getString(0))) {
        collector.emit(new Values(tuple.getString(0), tuple.getString(1)));
      }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
      declarer.declare(MESSAGE);
    }
  }
}
