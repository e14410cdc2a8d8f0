"""Tables of Delta Lake and Iceberg: the same plan as that of files, and a batch that runs again is written once."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evidence.table_formats import RELEASES, describe_archives, fetch_archives, find_coordinates, make_settings
from tests.apps.library import table_program
from tests.apps.library.table_program import ROWS
from tests.apps.library.table_sessions import SPARKS, TableSession
from unskew.errors import EnvironmentFault

LIBRARY = Path(__file__).parents[3] / "docs" / "library.md"
#: Format, Spark.
SESSIONS = [
    pytest.param(("delta", SPARKS["delta"]), id="delta"),
    pytest.param(("iceberg", SPARKS["iceberg"]), id="iceberg"),
    pytest.param(("delta", "4.1.3"), id="delta-4.1"),
    pytest.param(("iceberg", "4.1.3"), id="iceberg-4.1"),
]


def test_the_page_names_the_archives_of_each_spark():
    rows = {line for line in LIBRARY.read_text().splitlines() if line.startswith("| 4.")}
    for spark in ("4.0", "4.1", "4.2", "4.3"):
        [row] = [row for row in rows if row.startswith(f"| {spark} |")]
        for kind, cell in zip(RELEASES, row.strip("| ").split(" | ")[1:], strict=True):
            coordinates = find_coordinates(kind, f"{spark}.0")
            assert cell.startswith(f"`{coordinates}`" if coordinates else "none"), row


def test_ivy_gets_the_formats_archive_alone():
    root = ET.fromstring(describe_archives("delta", "io.delta:delta-spark_4.2_2.13:4.4.0"))
    [wanted] = root.iter("dependency")
    assert wanted.attrib == {
        "org": "io.delta",
        "name": "delta-spark_4.2_2.13",
        "rev": "4.4.0",
        "conf": "delta->default",
    }
    with pytest.raises(EnvironmentFault, match=r"there is no iceberg for Spark 4.2.0; valid: 4.0, 4.1"):
        fetch_archives("iceberg", "4.2.0")


def test_a_session_gets_the_archives_and_a_catalog(tmp_path):
    settings = make_settings("iceberg", [Path("a.jar"), Path("b.jar")], tmp_path)
    assert settings["spark.jars"] == "a.jar,b.jar"
    assert settings["spark.sql.catalog.lake.warehouse"] == str(tmp_path)
    assert make_settings("parquet", [], tmp_path) == {}


@pytest.fixture(scope="module", params=SESSIONS)
def tables(request, tmp_path_factory) -> dict[str, Any]:
    """What a program has found in its tables; and the format's name."""
    kind, spark = request.param
    session = TableSession.of(kind, spark, tmp_path_factory.mktemp("wheel"))
    printed = session.run(table_program.__file__, tmp_path_factory.mktemp(kind))
    return json.loads(printed.splitlines()[-1]) | {"kind": kind}


# One test, so that one process starts the program.
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.takes(100)
@pytest.mark.nightly(group="sparks")
def test_tables_have_few_files_of_even_writers_and_each_batch_once(tables):
    for found in tables["bounds"]:
        report, workers, mean = found["report"], found["workers"], ROWS / found["workers"]
        assert found["equal"]
        assert report["partitions"] == found["partitions"]
        assert found["files"] <= report["files"] <= found["partitions"] + workers - 1, found
        assert len(found["loads"]) <= report["writers"] == workers
        # The table's own shuffle would give the largest partition to one writer.
        assert max(found["loads"]) <= 1.05 * mean + 5 * np.sqrt(mean), found
    assert tables["batches"] == [[ROWS, 1], [ROWS, 1], [2 * ROWS, 2], [3 * ROWS, 3], [3 * ROWS, 3]]
    assert tables["stream"] == {"attempts": [1, 2, 1], "once": True, "versions": 3}
    own = tables["own"]
    if tables["kind"] == "delta":
        assert own["nulls"] == ROWS * 2 // 3
        assert own["files"] <= own["report"]["files"] <= own["report"]["partitions"] + 2
        assert own["named"] == 3 * ROWS
    else:
        assert own["report"]["partitions"] == own["partitions"]
        assert own["columns"] == ["id", "text", "day"]
        assert own["few"] == 100
        assert (
            own["refused"] == "sort_by is given and format is 'iceberg'; valid: ALTER TABLE … WRITE LOCALLY ORDERED BY"
        )
