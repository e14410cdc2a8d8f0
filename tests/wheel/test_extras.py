"""What an installer chooses for the extras beside each Spark: uv resolves them, and installs nothing."""

import re
from pathlib import Path

import pytest
from packaging.version import Version

from tests.wheel.environments import ROOT, uv

# A Spark, and the protobuf that generated the code of its transformWithState (StateMessage_pb2.py). The code refuses an
# older one.
GENERATED_BY = {"4.0": "5.28.3", "4.1": "6.33.0", "4.2": "6.33.5", "4.3": "6.33.5"}


def resolve(tmp_path: Path, extra: str, spark: str, *more: str) -> tuple[dict[str, Version], str]:
    """Package → version as uv chooses them with a pyspark of this series, none if it can't; and what uv said.

    pyspark has no wheel. uv would fetch 450 MB to read what it requires, which is py4j. So uv is told.
    """
    config, constraint = tmp_path / "uv.toml", tmp_path / "constraint.txt"
    config.write_text('[[dependency-metadata]]\nname = "pyspark"\nrequires-dist = ["py4j"]\n')
    constraint.write_text(f"pyspark=={spark}.*\n")
    done = uv(
        *("pip", "compile", "--quiet", "--config-file", config, "--no-header", "--no-annotate", *more),
        *("--extra", extra, "--constraint", constraint, "--no-emit-package", "unskew", ROOT / "pyproject.toml"),
    )
    pins = re.findall(r"^(\S+)==(\S+)$", done.stdout, re.MULTILINE)
    return {name: Version(version) for name, version in pins}, done.stderr


@pytest.mark.parametrize("resolution", ["highest", "lowest-direct"])
@pytest.mark.parametrize("series", ["4.0", "4.3"])
def test_the_extra_spark_fits_the_oldest_and_the_newest_spark(series, resolution, tmp_path):
    chosen, said = resolve(tmp_path, "spark", series, "--resolution", resolution)
    assert {"numba", "orjson", "pandas", "protobuf", "pyspark"} <= chosen.keys(), said
    assert f"{chosen['pyspark'].major}.{chosen['pyspark'].minor}" == series
    assert chosen["protobuf"] >= Version(GENERATED_BY[series])
    assert chosen["pandas"] < Version("3")


def test_the_extra_watch_leaves_the_spark_that_is_there(tmp_path):
    chosen, said = resolve(tmp_path, "watch", "4.1")
    assert {"matplotlib", "prometheus-client", "rich"} <= chosen.keys(), said
    assert "pyspark" not in chosen


def test_the_extra_keyed_brings_no_spark_and_leaves_a_runtime_of_spark_4_0_its_protobuf(tmp_path):
    chosen, said = resolve(tmp_path, "keyed", "4.0", "--resolution", "lowest-direct")
    assert {"orjson", "pandas"} <= chosen.keys(), said
    assert "pyspark" not in chosen
    assert chosen["protobuf"] == Version(GENERATED_BY["4.0"])


def test_the_command_comes_with_the_spark_of_its_connector_alone(tmp_path):
    chosen, said = resolve(tmp_path, "app", "4.2")
    assert chosen["pyspark"] == Version("4.2.0"), said
    chosen, said = resolve(tmp_path, "app", "4.1")
    assert not chosen
    assert "pyspark==4.2.0" in said
