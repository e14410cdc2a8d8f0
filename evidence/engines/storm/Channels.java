import java.nio.charset.StandardCharsets;
import java.util.HashMap;
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
import org.apache.storm.utils.TupleUtils;

/**
 * NEXMark's query 16 in Storm: a worker a channel and day ("fields"), which keeps its row and the ids seen in memory.
 *
 * <p>java Channels BOOTSTRAP TOPIC OUTPUT SPOUTS WORKERS
 *
 * <p>After the pages that `Counts` names, with its settings for throughput. A row is written again once a second.
 */
public class Channels {
  private static final Fields BID = new Fields("key", "bidder", "auction", "rank", "minute");

  public static void main(String[] given) throws Exception {
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout(
        "bids",
        Topologies.messages(given[0], given[1], given[2], record -> values(record.value()), BID),
        Integer.parseInt(given[3]));
    builder.setBolt("count", new Count(), Integer.parseInt(given[4])).fieldsGrouping("bids", new Fields("key"));
    builder.setBolt("write", Topologies.write(given[0], given[2], "50"), 1).shuffleGrouping("count");

    Config settings = Topologies.settings();
    settings.put(Config.TOPOLOGY_TICK_TUPLE_FREQ_SECS, 1);
    Topologies.run("channels", settings, builder);
  }

  private static Values values(String message) {
    Bid bid = Bid.of(message.getBytes(StandardCharsets.UTF_8));
    return new Values(bid.key(), bid.bidder(), bid.auction(), Bid.rank(bid.price()), bid.minute());
  }

  /** Adds up the rows of bids. Each second it emits those that have changed. */
  public static class Count extends BaseBasicBolt {
    private transient Map<String, long[]> rows;
    private transient Map<String, Map<Long, Integer>> bidders;
    private transient Map<String, Map<Long, Integer>> auctions;
    private transient Set<String> changed;

    @Override
    public void prepare(Map<String, Object> settings, TopologyContext context) {
      rows = new HashMap<>();
      bidders = new HashMap<>();
      auctions = new HashMap<>();
      changed = new HashSet<>();
    }

    @Override
    public void execute(Tuple tuple, BasicOutputCollector collector) {
      if (TupleUtils.isTick(tuple)) {
        for (String key : changed) {
          collector.emit(new Values(key, Bid.json(key, rows.get(key))));
        }
        changed.clear();
        return;
      }
      String key = tuple.getString(0);
      int rank = tuple.getInteger(3);
      int bidder = before(bidders, key, tuple.getLong(1), rank);
      int auction = before(auctions, key, tuple.getLong(2), rank);
      rows.merge(key, Bid.row(rank, tuple.getLong(4), bidder, auction), Bid::sum);
      changed.add(key);
    }

    /** The ranks in which an id was seen before, as bits; the map gets this one. */
    private static int before(Map<String, Map<Long, Integer>> seen, String key, long id, int rank) {
      Map<Long, Integer> ids = seen.computeIfAbsent(key, of -> new HashMap<>());
      int before = ids.getOrDefault(id, 0);
      ids.put(id, before | 1 << rank);
      return before;
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
      declarer.declare(new Fields("key", "message"));
    }
  }
}
