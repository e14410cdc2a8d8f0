import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.storm.Config;
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
  private static final Fields MESSAGE = new Fields("key", "message");

  public static void main(String[] given) throws Exception {
    String field = given[3];
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout(
        "messages",
        Topologies.messages(
            given[0],
            given[1],
            given[2],
            record -> new Values(Topologies.field(record.value(), field), record.value()),
            MESSAGE),
        Integer.parseInt(given[4]));
    builder
        .setBolt("first", new FirstSeen(), Integer.parseInt(given[5]))
        .fieldsGrouping("messages", new Fields("key"));
    builder.setBolt("write", Topologies.write(given[0], given[2], "50"), 1).shuffleGrouping("first");

    Config settings = Topologies.settings();
    Topologies.run("distinct", settings, builder);
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
