"""A machine so busy that the Python which plans a keyed batch comes too late for Spark: the batch is planned again."""

import sys

import pytest

from tests.apps.conftest import count_by_key, countries, publish
from unskew.operators import Statistics

pytestmark = [pytest.mark.nightly(group="keyed"), pytest.mark.spark, pytest.mark.kafka]

# Spark waits for 10 s.
LATE = """#!/bin/sh
case "$*" in *transform_with_state_driver_worker*)
    if [ ! -e "{flag}" ]; then touch "{flag}"; exec sleep 12; fi;;
esac
exec "{python}" "$@"
"""


def test_a_batch_is_planned_again(spark, settings, drain, connection, topic, tmp_path, monkeypatch):
    script, flag = tmp_path / "python", tmp_path / "late"
    script.write_text(LATE.format(flag=flag, python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(script))
    publish(connection, topic, 2, countries([f"Country {i % 7}" for i in range(100)]))
    run = settings("KEY", work=Statistics("offset"))
    drain(run)
    assert flag.exists()
    assert count_by_key(run) == {f"Country {i}": 100 // 7 + (i < 100 % 7) for i in range(7)}
