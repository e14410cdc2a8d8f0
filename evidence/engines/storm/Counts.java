import java.io.File;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.storm.Config;
import org.apache.storm.metrics2.filters.RegexFilter;
import org.apache.storm.metrics2.reporters.CsvStormReporter;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.BoltDeclarer;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.TupleUtils;

/**
 * Counts by key and window in Storm: a worker a key ("fields"), or the less loaded of a key's two ("partial").
 *
 * <p>java Counts GROUPING BOOTSTRAP TOPIC OUTPUT FIELD COST_MS COST SPOUTS WORKERS AIM
 *
 * <p>After https://storm.apache.org/releases/2.8.2/Concepts.html ("Stream groupings"), .../storm-kafka-client.html,
 * .../Guaranteeing-message-processing.html, .../metrics_v2.html and .../Local-mode.html. A window's count is written
 * again as it grows: with the aim "throughput" once a second, with "latency" at each message. Counts are kept in memory.
 * With partial key grouping a second bolt adds up what a key's workers have counted.
 */
public class Counts {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
  private static final long WINDOW_MS = 5_000;
  private static final String EXECUTED = ".*__execute-count-messages:default";
  private static final Fields COUNTED = new Fields("key", "start", "count");

  public static void main(String[] given) throws Exception {
    boolean partial = given[0].equals("partial");
    String bootstrap = given[1];
    String field = given[4];
    double cost = Double.parseDouble(given[5]);
    boolean sleeps = given[6].equals("sleep");
    int spouts = Integer.parseInt(given[7]);
    int workers = Integer.parseInt(given[8]);
    boolean hasty = !given[9].equals("throughput");

    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout(
        "messages",
        Topologies.messages(
            bootstrap,
            given[2],
            given[3],
            record ->
                new Values(
                    Topologies.field(record.value(), field), record.timestamp() / WINDOW_MS * WINDOW_MS, 1L),
            COUNTED),
        spouts);
    BoltDeclarer count = builder.setBolt("count", new Count(cost, sleeps, partial, hasty), workers);
    if (partial) {
      count.partialKeyGrouping("messages", new Fields("key"));
      builder.setBolt("sum", new Count(0, true, false, hasty), 1).fieldsGrouping("count", new Fields("key"));
    } else {
      count.fieldsGrouping("messages", new Fields("key"));
    }
    builder.setBolt("record", new Record(), 1).shuffleGrouping(partial ? "sum" : "count");
    builder.setBolt("write", Topologies.write(bootstrap, given[3], hasty ? "0" : "50"), 1).shuffleGrouping("record");

    Config settings = Topologies.settings();
    settings.put(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, 1);
    if (cost > 0 && !hasty) {
      // Storm's own counts of the tuples that each task has executed: of all, where the default is a sample.
      settings.put(Config.TOPOLOGY_STATS_SAMPLE_RATE, 1.0);
      Map<String, Object> only = Map.of("class", RegexFilter.class.getName(), "expression", EXECUTED);
      Map<String, Object> reporter =
          Map.of(
              "class", CsvStormReporter.class.getName(),
              "report.period", 1,
              "report.period.units", "SECONDS",
              "filter", only,
              "csv.log.dir", new File("account").getAbsolutePath());
      settings.put(Config.TOPOLOGY_METRICS_REPORTERS, List.of(reporter));
    }
    Topologies.run("counts", settings, builder);
  }

  /** Adds up counts. Each second it emits those that have changed; or, if it is hasty, each change at once. */
  public static class Count extends BaseBasicBolt {
    private final double cost;
    private final boolean sleeps;
    private final boolean forgets;
    private final boolean hasty;
    private transient Map<Values, Long> counts;
    private transient Set<Values> changed;

    /** Take {@code cost} ms a tuple, asleep or computing; if it forgets, a count is of what came since it was last emitted. */
    public Count(double cost, boolean sleeps, boolean forgets, boolean hasty) {
      this.cost = cost;
      this.sleeps = sleeps;
      this.forgets = forgets;
      this.hasty = hasty;
    }

    @Override
    public void prepare(Map<String, Object> settings, TopologyContext context) {
      counts = new HashMap<>();
      changed = new HashSet<>();
    }

    @Override
    public void execute(Tuple tuple, BasicOutputCollector collector) {
      if (TupleUtils.isTick(tuple)) {
        for (Values place : changed) {
          collector.emit(new Values(place.get(0), place.get(1), counts.get(place)));
        }
        changed.clear();
        if (forgets) {
          counts.clear();
        }
        return;
      }
      if (cost > 0) {
        spend();
      }
      Values place = new Values(tuple.getString(0), tuple.getLong(1));
      long count = counts.merge(place, tuple.getLong(2), Long::sum);
      if (!hasty) {
        changed.add(place);
        return;
      }
      collector.emit(new Values(place.get(0), place.get(1), count));
      if (forgets) {
        counts.remove(place);
      }
    }

    private void spend() {
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

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
      declarer.declare(COUNTED);
    }
  }

  /** Makes a record's text. */
  public static class Record extends BaseBasicBolt {
    @Override
    public void execute(Tuple tuple, BasicOutputCollector collector) {
      if (!TupleUtils.isTick(tuple)) {
        String text = "{\"start\":" + tuple.getLong(1) + ",\"count\":" + tuple.getLong(2) + "}";
        collector.emit(new Values(tuple.getString(0), text));
      }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
      declarer.declare(new Fields("key", "message"));
    }
  }
}
