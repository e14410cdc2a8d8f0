"""Delta Lake and Iceberg for a version of Spark: their archives, by the Ivy that fetches those of Spark's connector."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from unskew.deploy.installation.jars import resolve_jars
from unskew.directories import jars_directory
from unskew.errors import EnvironmentFault

#: A catalog of Iceberg, in a folder.
CATALOG = "lake"


class Release(NamedTuple):
    """A format's newest release."""

    organisation: str  #: Of Maven. The artifact has the minor version of Spark in it.
    artifact: str
    versions: Mapping[str, str]  #: Minor version of Spark → the newest release for it, where there is one.
    size: str  #: Of its archives.


RELEASES = {
    "delta": Release("io.delta", "delta-spark_{}_2.13", dict.fromkeys(("4.0", "4.1", "4.2"), "4.4.0"), "some 20 MB"),
    "iceberg": Release(
        "org.apache.iceberg", "iceberg-spark-runtime-{}_2.13", {"4.0": "1.11.0", "4.1": "1.12.0"}, "some 50 MB"
    ),
}
#: What pyspark ships already.
_EXCLUDED = (
    "com.fasterxml.jackson.core",
    "org.apache.hadoop",
    "org.apache.parquet",
    "org.apache.spark",
    "org.scala-lang",
    "org.slf4j",
)
_DESCRIPTION = """<ivy-module version="2.0">
  <info organisation="unskew" module="{kind}"/>
  <configurations><conf name="{kind}"/></configurations>
  <dependencies>
    <dependency org="{organisation}" name="{artifact}" rev="{version}" conf="{kind}->default"/>
{excluded}  </dependencies>
</ivy-module>
"""
_SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "2",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        # A stream's session is another one, and has a cache of its own.
        f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
    },
}


def find_coordinates(kind: str, spark: str) -> str | None:
    """The format's archive for a version of Spark, as ``spark.jars.packages`` takes it; None: there is none.

    >>> find_coordinates("delta", "4.2.0")
    'io.delta:delta-spark_4.2_2.13:4.4.0'
    """
    release, minor = RELEASES[kind], ".".join(spark.split(".")[:2])
    if minor not in release.versions:
        return None
    return f"{release.organisation}:{release.artifact.format(minor)}:{release.versions[minor]}"


def fetch_archives(kind: str, spark: str) -> list[Path]:
    """The format's archives for a version of Spark. Missing ones are fetched first; none has a hash.

    Raises ``EnvironmentFault`` if there are none for it, or they can't be fetched.
    """
    coordinates = find_coordinates(kind, spark)
    if coordinates is None:
        raise EnvironmentFault(f"there is no {kind} for Spark {spark}; valid: {', '.join(RELEASES[kind].versions)}")
    path = jars_directory() / f"{kind}-{spark}.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(describe_archives(kind, coordinates))
    return resolve_jars(path, kind, f"{kind} for Spark {spark}", 8, RELEASES[kind].size)


def describe_archives(kind: str, coordinates: str) -> str:
    """An Ivy file of a format."""
    organisation, artifact, version = coordinates.split(":")
    excluded = "".join(f'    <exclude org="{each}" conf="{kind}"/>\n' for each in _EXCLUDED)
    return _DESCRIPTION.format(
        kind=kind, organisation=organisation, artifact=artifact, version=version, excluded=excluded
    )


def make_settings(kind: str, jars: Sequence[Path], folder: Path) -> Mapping[str, str]:
    """The settings of a session that writes tables of a format. Those of Iceberg are in a folder; files need none."""
    if kind not in RELEASES:
        return {}
    warehouse = {f"spark.sql.catalog.{CATALOG}.warehouse": str(folder)} if kind == "iceberg" else {}
    return {"spark.jars": ",".join(map(str, jars))} | _SETTINGS[kind] | warehouse
