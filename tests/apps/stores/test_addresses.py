"""Addresses that a session's Spark reads in its own way: by its settings of a store, or by Hadoop's default."""

import pytest

from unskew import balance
from unskew.apps.checkpoint.location import resolve_location

pytestmark = [
    pytest.mark.nightly(group="clusters"),
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("cluster"),
]


@pytest.mark.takes(40)
def test_ours_are_where_spark_has_its_own(spark, hdfs, tmp_path):
    """Of an address without a scheme."""
    source = f"file:{tmp_path}/in"
    spark.range(500).selectExpr("id % 7 as key").write.parquet(source)
    spark.conf.set("fs.defaultFS", f"hdfs://{hdfs.listen_address}")
    spark.conf.set("dfs.client.use.datanode.hostname", "false")
    try:
        stream = spark.readStream.schema("key long").parquet(source)
        placed = balance(stream, "key", 3, "SHUFFLE", "/placed")
        writer = placed.writeStream.format("parquet").option("path", f"file:{tmp_path}/out")
        writer.option("checkpointLocation", "/placed").trigger(availableNow=True).start().awaitTermination()
        location = resolve_location(spark, "/placed")
    finally:
        spark.conf.unset("fs.defaultFS")
        spark.conf.unset("dfs.client.use.datanode.hostname")
    assert str(location) == f"hdfs://{hdfs.listen_address}/placed"
    # What is set in the session reaches our client, too.
    assert location.access["dfs.client.use.datanode.hostname"] == "false"
    assert {"metadata", "unskew"} <= {*hdfs.location("placed").folder().names()}
    assert spark.read.parquet(f"file:{tmp_path}/out").count() == 500


def test_the_sessions_settings_of_a_store_are_found(spark):
    name = "fs.azure.account.key.account.dfs.core.windows.net"
    spark.conf.set(name, "s3cret")
    spark.conf.set("fs.gs.auth.type", "UNAUTHENTICATED")
    try:
        azure = resolve_location(spark, "abfss://container@account.dfs.core.windows.net/a")
        google = resolve_location(spark, "gs://bucket/a")
    finally:
        spark.conf.unset(name)
        spark.conf.unset("fs.gs.auth.type")
    assert azure.access["fs.azure.account.key"] == "s3cret"
    assert google.access["fs.gs.auth.type"] == "UNAUTHENTICATED"
