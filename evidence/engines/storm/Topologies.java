import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.bolt.selector.DefaultTopicSelector;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.Func;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;

/** What the programs share. */
class Topologies {
  private static final JsonFactory JSON = new JsonFactory();

  /** Reads a topic from its beginning: a tuple a message. */
  static KafkaSpout<String, String> messages(
      String bootstrap,
      String topic,
      String group,
      Func<ConsumerRecord<String, String>, List<Object>> values,
      Fields fields) {
    return new KafkaSpout<>(
        KafkaSpoutConfig.builder(bootstrap, topic)
            .setProp("group.id", group)
            .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.EARLIEST)
            .setOffsetCommitPeriodMs(5_000)
            .setRecordTranslator(values, fields)
            .build());
  }

  /** Writes the field "message" of tuples to a topic, with the field "key". */
  static KafkaBolt<String, String> write(String bootstrap, String output, String lingerMs) {
    Properties producer = new Properties();
    producer.put("bootstrap.servers", bootstrap);
    producer.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    producer.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    producer.put("linger.ms", lingerMs);
    return new KafkaBolt<String, String>()
        .withProducerProperties(producer)
        .withTopicSelector(new DefaultTopicSelector(output))
        .withTupleToKafkaMapper(new FieldNameBasedTupleToKafkaMapper<>("key", "message"));
  }

  static Config settings() {
    Config settings = new Config();
    settings.setMaxSpoutPending(1_000);
    settings.setMessageTimeoutSecs(300); // a tuple waits in the queue of a hot key's worker
    return settings;
  }

  /** Runs until the process is ended. */
  static void run(String name, Config settings, TopologyBuilder builder) throws Exception {
    try (LocalCluster cluster = new LocalCluster()) {
      cluster.submitTopology(name, settings, builder.createTopology());
      Thread.sleep(Long.MAX_VALUE);
    }
  }

  /** A field of a value. */
  static String field(String value, String field) {
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
}
