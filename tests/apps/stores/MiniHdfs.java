import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A name node at the port given first and a data node, with their files in the folder given second, until it is ended. */
public class MiniHdfs {
  public static void main(String[] given) throws Exception {
    Configuration settings = new Configuration();
    settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, given[1]);
    settings.set("dfs.namenode.fs-limits.min-block-size", "0");
    settings.set("dfs.replication", "1");
    new MiniDFSCluster.Builder(settings).nameNodePort(Integer.parseInt(given[0])).numDataNodes(1).build().waitActive();
    System.out.println("ready");
    Thread.currentThread().join();
  }
}
