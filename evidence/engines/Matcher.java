import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Which consumers a record of the jobs after ShuffleBench goes to (`matcher.py` has the files' layout), and what a
 * consumer keeps: 32 bytes, the count, the sum of the records' first longs, and the times of the first and last record.
 */
public final class Matcher {
  private final LongBuffer bounds;
  private final IntBuffer offsets;
  private final IntBuffer consumers;

  public Matcher(String folder) {
    bounds = mapped(folder, "bounds").asLongBuffer();
    offsets = mapped(folder, "offsets").asIntBuffer();
    consumers = mapped(folder, "consumers").asIntBuffer();
  }

  private static ByteBuffer mapped(String folder, String name) {
    try (FileChannel file = FileChannel.open(Path.of(folder, name))) {
      return file.map(FileChannel.MapMode.READ_ONLY, 0, file.size()).order(ByteOrder.LITTLE_ENDIAN);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** The names of a record's consumers. Threads may share a matcher. */
  public List<String> consumers(byte[] record) {
    long hash = ByteBuffer.wrap(record).getLong() & Long.MAX_VALUE;
    int segment = 0;
    for (int last = bounds.limit() - 1; segment < last; ) {
      int middle = (segment + last + 1) >>> 1;
      if (bounds.get(middle) <= hash) {
        segment = middle;
      } else {
        last = middle - 1;
      }
    }
    List<String> found = new ArrayList<>(2);
    for (int at = offsets.get(segment); at < offsets.get(segment + 1); at++) {
      found.add("consumer_" + consumers.get(at));
    }
    return found;
  }

  /** A consumer's state after a record. `state` is that before it, null for the first record. */
  public static byte[] counted(byte[] state, byte[] record, long time) {
    ByteBuffer before = ByteBuffer.wrap(state == null ? new byte[32] : state);
    long count = before.getLong() + 1;
    long sum = before.getLong() + ByteBuffer.wrap(record).getLong();
    long first = count == 1 ? time : before.getLong();
    return ByteBuffer.allocate(32).putLong(count).putLong(sum).putLong(first).putLong(time).array();
  }

  /** Whether a state is an event: each tenth record's is. */
  public static boolean due(byte[] state) {
    return ByteBuffer.wrap(state).getLong() % 10 == 0;
  }

  /** Prints the consumers of each record of 1,024 bytes on the standard input, for a test. */
  public static void main(String[] given) throws IOException {
    Matcher matcher = new Matcher(given[0]);
    DataInputStream records = new DataInputStream(System.in);
    for (byte[] record = records.readNBytes(1024); record.length > 0; record = records.readNBytes(1024)) {
      System.out.println(String.join(" ", matcher.consumers(record)));
    }
  }
}
