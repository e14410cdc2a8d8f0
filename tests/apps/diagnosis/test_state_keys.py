"""The hottest keys of a stream's states, by Spark's state reader."""

import json
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.commands import unskew
from unskew.apps.diagnosis.state_keys import _list_stores, find_hot_states
from unskew.apps.driver import session


def test_each_store_has_its_options():
    row = {"operatorId": 1, "operatorName": "stateStoreSave", "stateStoreName": "default", "operatorProperties": ""}
    assert [*_list_stores(row)] == [("default", {"operatorId": "1", "storeName": "default"})]
    join = row | {"operatorName": "symmetricHashJoin", "stateStoreName": "left-keyToNumValues"}
    assert [options.get("joinSide") for _, options in _list_stores(join)] == ["left", "right"]
    variables = {"stateVariables": [{"stateName": "counts"}, {"stateName": "$procTimers"}]}
    own = row | {"operatorName": "transformWithState", "operatorProperties": json.dumps(variables)}
    assert [*_list_stores(own)] == [("counts", {"operatorId": "1", "stateVarName": "counts"})]


@pytest.mark.nightly(group="sparks")
def test_the_hot_key_of_a_count_and_of_a_join_come_first(spark, tmp_path, monkeypatch):
    users = ["hot"] * 80 + [f"user {n}" for n in range(20)]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"user": users, "id": range(100)}), tmp_path / "in" / "0.parquet")
    rows = spark.readStream.schema("user string, id long").parquet(str(tmp_path / "in"))
    joined = rows.alias("a").join(rows.where("id < 80").alias("b"), "user").select("user", "a.id")
    for name, frame, mode in (("count", rows.groupBy("user").count(), "update"), ("join", joined, "append")):
        writer = frame.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / name)).start().awaitTermination()

    [count] = find_hot_states(spark, str(tmp_path / "count"), 2)
    assert (count.keys, sum(count.partitions.values())) == (21, 21)
    assert (count.hottest[0].key, count.hottest[0].entries, count.hottest[0].number) == ('{"user":"hot"}', 1, 80.0)
    left, right = find_hot_states(spark, str(tmp_path / "join"), 2)
    assert [(store.store, store.keys, store.hottest[0].entries) for store in (left, right)] == [
        ("left", 21, 80),
        ("right", 1, 80),
    ]

    monkeypatch.setattr(session, "keep_session", lambda *_: nullcontext())  # the tests' Spark goes on
    shown = unskew("diagnose", "--checkpoint", tmp_path / "count", "--top", "1")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "21 keys in" in " ".join(shown.stdout.split())
    assert "hot" in shown.stdout
    [store] = json.loads(unskew("diagnose", "--checkpoint", tmp_path / "count", "--json").stdout)
    assert store["hottest"][0]["number"] == 80.0
