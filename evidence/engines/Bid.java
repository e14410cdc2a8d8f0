import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;

/**
 * A bid of NEXMark's, and what query 16 makes of it: the row of a channel and a day.
 *
 * <p>A row is 13 numbers: the statistics in the order of NAMES, and the latest minute of the day.
 */
public record Bid(String channel, String dateTime, long auction, long bidder, long price) {
  private static final JsonFactory JSON = new JsonFactory();
  private static final String[] NAMES = new String[12];

  static {
    String[] ranks = {"total", "rank1", "rank2", "rank3"};
    String[] kinds = {"bids", "bidders", "auctions"};
    for (int number = 0; number < NAMES.length; number++) {
      NAMES[number] = ranks[number % 4] + "_" + kinds[number / 4];
    }
  }

  /** The bid of a message. */
  public static Bid of(byte[] message) {
    String channel = null;
    String dateTime = null;
    long auction = 0;
    long bidder = 0;
    long price = 0;
    try (JsonParser parser = JSON.createParser(message)) {
      for (JsonToken token = parser.nextToken(); token != null; token = parser.nextToken()) {
        if (token != JsonToken.FIELD_NAME) {
          continue;
        }
        String name = parser.currentName();
        token = parser.nextToken();
        if (name.equals("channel")) {
          channel = parser.getText();
        } else if (name.equals("dateTime")) {
          dateTime = parser.getText();
        } else if (name.equals("auction") && token == JsonToken.VALUE_NUMBER_INT) {
          auction = parser.getLongValue(); // an event has an object of that name, too
        } else if (name.equals("bidder")) {
          bidder = parser.getLongValue();
        } else if (name.equals("price")) {
          price = parser.getLongValue();
        }
      }
      return new Bid(channel, dateTime, auction, bidder, price);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Its day and channel. */
  public String key() {
    return dateTime.substring(0, 10) + " " + channel;
  }

  /** The minute of its day. */
  public long minute() {
    return 60 * Long.parseLong(dateTime, 11, 13, 10) + Long.parseLong(dateTime, 14, 16, 10);
  }

  /** The rank of a price: 1, 2 or 3. */
  public static int rank(long price) {
    return price < 10_000 ? 1 : price < 1_000_000 ? 2 : 3;
  }

  /**
   * The row of a bid alone, without what was counted before.
   *
   * @param bidder the ranks in which its bidder was seen in this channel, as bits; 0 means never
   * @param auction the same of its auction
   */
  public static long[] row(int rank, long minute, int bidder, int auction) {
    long[] row = new long[NAMES.length + 1];
    row[NAMES.length] = minute;
    int[] seen = {0, bidder, auction};
    for (int kind = 0; kind < seen.length; kind++) {
      row[4 * kind] = seen[kind] == 0 ? 1 : 0;
      row[4 * kind + rank] = (seen[kind] & 1 << rank) == 0 ? 1 : 0;
    }
    return row;
  }

  /** The row of what two rows have counted. */
  public static long[] sum(long[] one, long[] other) {
    long[] row = new long[one.length];
    for (int number = 0; number < NAMES.length; number++) {
      row[number] = one[number] + other[number];
    }
    row[NAMES.length] = Math.max(one[NAMES.length], other[NAMES.length]);
    return row;
  }

  /** A row as JSON. */
  public static String json(String key, long[] row) {
    long minute = row[NAMES.length];
    StringBuilder json = new StringBuilder("{\"channel\":\"").append(key, 11, key.length());
    json.append("\",\"day\":\"").append(key, 0, 10);
    json.append("\",\"minute\":\"").append(String.format("%02d:%02d", minute / 60, minute % 60)).append('"');
    for (int number = 0; number < NAMES.length; number++) {
      json.append(",\"").append(NAMES[number]).append("\":").append(row[number]);
    }
    return json.append('}').toString();
  }
}
