"""The Java options of the driver: the user's are added to ours and win over them."""

import pytest

from unskew.apps.driver import jvm_options
from unskew.apps.driver.jvm_options import DEFAULTS, EXTRA, MEMORY, add_java_options

pytestmark = pytest.mark.ci

SERIAL, OURS = "-XX:+UseSerialGC", ["-Dours=1"]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr(jvm_options, "available_cores", lambda: 2)
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)


def options(conf=None, *, local=True):
    return add_java_options(conf or {}, OURS, local=local)[DEFAULTS].split()


def test_few_cores_get_the_small_collector_and_a_late_compiler(monkeypatch):
    assert options()[0] == "-Dours=1"
    assert options()[-1] == SERIAL
    assert "-XX:Tier4InvocationThreshold=50000" in options()
    assert options(local=False) == OURS, "a driver of a cluster runs no tasks"
    monkeypatch.setattr(jvm_options, "available_cores", lambda: 8)
    assert options() == OURS


def test_the_users_options_stay_and_come_last():
    given = {EXTRA: "-Xss4m", DEFAULTS: "-Dtheirs=1", "spark.other": "x"}
    joined = add_java_options(given, OURS, local=True)
    assert {**joined, DEFAULTS: ""} == {**given, DEFAULTS: ""}
    assert joined[DEFAULTS].split()[-1] == "-Dtheirs=1"


def test_who_chooses_a_collector_or_a_memory_gets_none_of_ours(monkeypatch):
    for conf in ({EXTRA: "-XX:+UseG1GC"}, {DEFAULTS: "-XX:+UseZGC"}, {MEMORY: "16g"}):
        assert SERIAL not in options(conf)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseParallelGC")
    assert SERIAL not in options()


def test_the_jvm_has_both(spark):
    runtime = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    arguments = list(runtime.getInputArguments())
    assert "-Dof.the.user=kept" in arguments
    assert any(each.startswith("-Dunskew.log=") for each in arguments)
