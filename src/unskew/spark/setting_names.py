"""Spark's settings that several rooms set or look at, and our values of them."""

#: The setting that names the state store, and the store that ``keyed_map`` needs.
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: The setting that names what writes the files of a checkpoint.
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
#: The module that Spark starts as the parent of its Python workers, and ours.
DAEMON = "spark.python.daemon.module"
OWN_DAEMON = "unskew.apps.driver.python_daemon"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"
#: The settings at which Spark ends an Arrow batch: at so many rows, or at so many bytes.
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
#: A value of ``BYTES``: Spark doesn't add up the buffers.
UNCHECKED = str(2**31 - 1)
TRACEBACK = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
#: Whether a query may have several stateful operators. Without, rows are late by their own batch's watermark.
ALLOW_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
#: Whether a join is shuffled anew though both sides are partitioned by some of its columns: not in ``balanced_join``.
CO_PARTITION = "spark.sql.requireAllClusterKeysForCoPartition"
