"""Addresses that a session's Spark reads in its own way: what Hadoop's settings say of them."""

import pytest

from unskew.apps.checkpoint.location import resolve_location

pytestmark = [pytest.mark.nightly(group="clusters"), pytest.mark.slow, pytest.mark.spark]


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
