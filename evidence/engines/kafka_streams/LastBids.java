import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * NEXMark's q18 in Kafka Streams: select bidder and auction, repartition, and `reduce` to the later bid.
 *
 * <p>java LastBids BOOTSTRAP TOPIC OUTPUT WORKERS STATE
 *
 * <p>After https://kafka.apache.org/documentation/streams/developer-guide/dsl-api ("Reduce", "repartition"). A last bid is
 * written again when a newer one has come: at each commit, through the cache of records. The state has the whole message.
 * Times are of one format, so they compare as text.
 */
public class LastBids {
  public static void main(String[] given) {
    int workers = Integer.parseInt(given[3]);
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(given[1], Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .map(
            (key, bid) ->
                KeyValue.pair(
                    Streams.field(bid, "bid", "bidder") + "/" + Streams.field(bid, "bid", "auction"), bid))
        .repartition(Streams.repartitioned("keyed", workers))
        .groupByKey(Grouped.with(Serdes.String(), Serdes.ByteArray()))
        .reduce((last, bid) -> time(bid).compareTo(time(last)) < 0 ? last : bid)
        .toStream()
        .to(given[2], Produced.with(Serdes.String(), Serdes.ByteArray()));
    Streams.run(builder, Streams.settings(given[0], given[2], workers, given[4]));
  }

  private static String time(byte[] bid) {
    return Streams.field(bid, "bid", "dateTime");
  }
}
