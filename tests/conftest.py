"""What tests of all areas share: a broker for each test process, and topic names that nobody else has."""

import os
import re
import secrets
import signal
import tempfile
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

from unskew.deploy.installation.steps import exclusive_lock
from unskew.deploy.servers.broker import Broker
from unskew.directories import data_directory
from unskew.grouping import compile_all
from unskew.grouping.kernel_cache import cache_home
from unskew.kafka import topics
from unskew.kafka.connection import Connection

pytest_plugins = ["tests.schedule"]


# A test's JVM lives for minutes: code that is soon compiled beats code that is fast. The cache for compiled code is
# enlarged: by default a JVM with one compiler has so little of it that it throws code away and compiles it again.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
# Spark generates no code where its JVM dies after a few batches: that is a fifth of the CPU up to the end of the first.
_INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
#: Spark's own defaults, for the sessions that many tests share.
GENERATED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
#: A Spark Connect server that a session starts listens at one port, so that tests with one share a process.
ONE_CONNECT = pytest.mark.xdist_group("connect")
if "SPARK_LOCAL_DIRS" not in os.environ:  # a Spark that is killed leaves files there: up to half a gigabyte
    _LOCAL = tempfile.TemporaryDirectory(prefix="spark-of-tests-", ignore_cleanup_errors=True)
    os.environ["SPARK_LOCAL_DIRS"] = _LOCAL.name
_TEMPORARY = f"-Djava.io.tmpdir={os.environ['SPARK_LOCAL_DIRS']}"
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{SHORT_LIVED} {_INTERPRETED} {_TEMPORARY}")
os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", SHORT_LIVED)
# Copies of the project, installed elsewhere or shipped to executors, find the kernels that are compiled here.
os.environ.setdefault("NUMBA_CACHE_DIR", cache_home())

# A shell that starts us in the background lets us ignore Ctrl-C, and so do the commands that tests start to interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", default="0", help="what tests draw at random: a number, or `random`")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its own option
def pytest_configure(config: pytest.Config) -> None:
    """The same examples in every run, unless a seed is given, and then more. No deadlines: a first call may compile."""
    if config.option.seed == "random":
        config.option.seed = str(secrets.randbelow(1 << 32))
    if not config.option.seed.isdecimal():
        raise pytest.UsageError(f"--seed is {config.option.seed!r}; valid: a number, or random")
    drawn = int(config.option.seed) != 0
    settings.register_profile("unskew", deadline=None, derandomize=not drawn, max_examples=100 if drawn else 20)
    settings.register_profile("fast", deadline=None, derandomize=not drawn, max_examples=20)
    settings.load_profile("unskew")
    if drawn and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = config.option.seed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say the seed at the end: with `-q` there is no header."""
    seed = terminalreporter.config.option.seed
    terminalreporter.write_line(f"seed: {seed} (repeat with --seed={seed})")


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """What a test draws from: 0, or what `--seed` says."""
    return int(pytestconfig.option.seed)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that doesn't answer is given up after a second, not after eight."""
    monkeypatch.setattr(topics, "_PATIENCE", 1.0)


@pytest.fixture(scope="session")
def kernels() -> None:
    """All kernels are compiled; one process does it for all, as it takes a minute when nothing is cached."""
    data_directory().mkdir(parents=True, exist_ok=True)
    with exclusive_lock(data_directory() / "kernels.lock"):
        compile_all()


@pytest.fixture(autouse=True)
def _compiled(request: pytest.FixtureRequest) -> None:
    """Compile the kernels before a test starts Spark, so that Spark's processes find them compiled."""
    if request.node.get_closest_marker("spark"):
        request.getfixturevalue("kernels")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker, shared by this process' tests: use `topic`, and start your own `Broker` to stop or kill it."""
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def connection(kafka: Broker) -> Connection:
    return Connection(kafka.bootstrap_servers)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of this test's own; the topic doesn't exist yet."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '-', request.node.name)[:60]}-{uuid.uuid4().hex[:8]}"
