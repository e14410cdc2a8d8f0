"""Names of shared Spark settings, and our values."""

#: The setting of the state store, and the store that ``keyed_map`` needs.
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: The setting of the class that writes a checkpoint's files.
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
#: The setting of the parent module of Spark's Python workers, and our module.
DAEMON = "spark.python.daemon.module"
OWN_DAEMON = "unskew.apps.driver.python_daemon"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"
#: The settings of an Arrow batch's most rows and bytes.
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
#: The value of ``BYTES`` with which Spark doesn't add up the buffers.
UNCHECKED = str(2**31 - 1)
TRACEBACK = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
#: Whether a query may have several stateful operators. If not, rows are late by their batch's watermark.
ALLOW_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
#: Whether a join is shuffled though both sides are partitioned by some of its columns: not in ``balanced_join``.
CO_PARTITION = "spark.sql.requireAllClusterKeysForCoPartition"
