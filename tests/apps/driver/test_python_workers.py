"""Spark's Python workers: where what they import comes from."""

from importlib.util import cache_from_source
from pathlib import Path

import pyspark

PACKAGES = Path(pyspark.__file__).parents[1]


def found(batches):
    import sys

    import pyarrow as pa

    for _ in batches:
        files = [module.__file__ for name in ("numpy", "pandas", "pyspark") if (module := sys.modules.get(name))]
        yield pa.record_batch({"file": files})


def test_what_they_import_is_there_and_compiled_already(spark):
    files = [row["file"] for row in spark.range(1, numPartitions=1).mapInArrow(found, "file string").collect()]
    assert sorted(files) == [str(PACKAGES / name / "__init__.py") for name in ("numpy", "pandas", "pyspark")]
    assert all(Path(cache_from_source(file)).is_file() for file in files)
