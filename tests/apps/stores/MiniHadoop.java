import java.io.File;
import java.io.FileWriter;
import java.io.Writer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.NodeManager;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;

/**
 * HDFS at the port given first, a name node and a data node, with their files in the folder given second, until it is
 * ended; and YARN, a resource manager and a node manager, as soon as the folder given third exists: they leave there a
 * configuration for clients. Containers find programs in the folder given fourth first.
 *
 * <p>Hadoop's MiniYARNCluster is these two as well, but needs JUnit, and takes the machine's outer address.
 */
public class MiniHadoop {
  private static final String HERE = "127.0.0.1";

  public static void main(String[] given) throws Exception {
    File configuration = new File(given[2]);
    Configuration settings = new YarnConfiguration();
    settings.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, given[1]);
    settings.set("dfs.namenode.fs-limits.min-block-size", "0");
    settings.set("dfs.replication", "1");
    new MiniDFSCluster.Builder(settings).nameNodePort(Integer.parseInt(given[0])).numDataNodes(1).build().waitActive();
    System.out.println("ready");
    while (!configuration.isDirectory()) Thread.sleep(100);
    try {
      startYarn(settings, given[1], configuration, given[3]);
    } catch (Throwable broken) {
      broken.printStackTrace();
      System.exit(1);  // HDFS's threads would keep the process
    }
    Thread.currentThread().join();
  }

  private static void startYarn(Configuration settings, String folder, File configuration, String programs)
      throws Exception {
    for (String server : new String[] {
      "resourcemanager", "resourcemanager.admin", "resourcemanager.scheduler", "resourcemanager.resource-tracker",
      "resourcemanager.webapp", "nodemanager", "nodemanager.localizer", "nodemanager.webapp",
    }) settings.set("yarn." + server + ".address", HERE + ":0");
    settings.set("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", "100");  // each brings containers
    settings.set("yarn.nodemanager.local-dirs", folder + "/local");
    settings.set("yarn.nodemanager.log-dirs", folder + "/logs");
    settings.set("yarn.nodemanager.force.path", programs + File.pathSeparator + System.getenv("PATH"));
    settings.set("yarn.nodemanager.resource.memory-mb", "3072");
    settings.set("yarn.scheduler.minimum-allocation-mb", "128");
    settings.set("yarn.nodemanager.pmem-check-enabled", "false");
    settings.set("yarn.nodemanager.vmem-check-enabled", "false");
    // A disk that is nearly full is none to YARN, which looks once even where its checker is disabled.
    settings.set("yarn.nodemanager.disk-health-checker.enable", "false");
    settings.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "100");
    settings.set("yarn.scheduler.capacity.root.queues", "default");
    settings.set("yarn.scheduler.capacity.root.default.capacity", "100");
    settings.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1");

    ResourceManager manager = new ResourceManager();
    manager.init(settings);
    manager.start();
    NodeManager node = new NodeManager();
    node.init(settings);
    node.start();
    while (manager.getResourceScheduler().getNumClusterNodes() < 1) Thread.sleep(100);

    Configuration clients = new Configuration(false);
    for (String name : new String[] {
      "fs.defaultFS", "yarn.resourcemanager.address", "yarn.resourcemanager.scheduler.address",
    }) clients.set(name, manager.getConfig().get(name));
    for (String name : new String[] {"core-site.xml", "yarn-site.xml"}) {  // Hadoop asks the first for the file system
      try (Writer file = new FileWriter(new File(configuration, name))) {
        clients.writeXml(file);
      }
    }
    System.out.println("yarn ready");
  }
}
