"""Spark's Python workers: where what they import comes from."""

import sys
from importlib.util import cache_from_source
from pathlib import Path

import pyspark
import pytest

from unskew.apps.run.daemon import installed

PACKAGES = Path(pyspark.__file__).parents[1]


def found(batches):
    import sys

    import pyarrow as pa

    for _ in batches:
        files = [module.__file__ for name in ("numpy", "pandas", "pyspark") if (module := sys.modules.get(name))]
        yield pa.record_batch({"file": files})


@pytest.mark.spark
def test_what_they_import_is_there_and_compiled_already(spark):
    files = [row["file"] for row in spark.range(1, numPartitions=1).mapInArrow(found, "file string").collect()]
    assert sorted(files) == [str(PACKAGES / name / "__init__.py") for name in ("numpy", "pandas", "pyspark")]
    assert all(Path(cache_from_source(file)).is_file() for file in files)


def test_archives_of_another_pyspark_are_left_on_the_path(tmp_path, monkeypatch):
    elsewhere = tmp_path / "pyspark" / "python" / "lib" / "pyspark.zip"
    here = PACKAGES / "pyspark" / "python" / "lib" / "pyspark.zip"
    assert installed(str(here))
    assert not installed(str(elsewhere))
    assert not installed(str(PACKAGES))
    monkeypatch.setattr(sys, "path", [str(elsewhere), str(tmp_path)])
    assert not installed(str(elsewhere))  # on the path, and not there
    assert not installed(str(here))
