"""The image, built and run for real: by buildah and podman, on a base of Debian's packages, with no registry of images.

It takes a quarter of an hour, most of it the build, and fetches a gigabyte: so it is for the night.

    apt-get install buildah debootstrap podman runc catatonit
    make nightly GROUP=image
"""

import json
import os
import re
import shutil
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pages import ROOT
from tests.waiting import awaited

_PROGRAMS = ("buildah", "debootstrap", "podman")
_LACKING = [name for name in _PROGRAMS if shutil.which(name) is None]
_BASE, _IMAGE = "localhost/unskew-base", "localhost/unskew-test"
_KAFKA = "127.0.0.1:9092"
_RECORDS = 20_000
#: Certificates that this machine trusts besides Debian's, as behind a proxy that replaces others.
_CERTIFICATES = sorted(Path("/usr/local/share/ca-certificates").glob("**/*.crt"))

pytestmark = [
    pytest.mark.nightly(group="image"),
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.takes(1000),
    pytest.mark.xdist_group("image"),
    pytest.mark.skipif(bool(_LACKING), reason=f"apt-get install {' '.join(_LACKING)}"),
    pytest.mark.skipif(os.geteuid() != 0, reason="buildah, debootstrap and podman are run as root"),
]


def run(*command: object, **how: Any) -> str:
    """What a command prints that ends well."""
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def make_base(folder: Path) -> None:
    """A base with Debian's Python in the place of the official image's, imported under a name of its own."""
    included = "ca-certificates,python3,python3-venv"
    run("debootstrap", "--variant=minbase", f"--include={included}", "bookworm", folder)
    run("chroot", folder, "python3", "-m", "venv", "/usr/local")  # `python` and `pip` are there in the image, too
    with subprocess.Popen(["tar", "--create", "--directory", folder, "."], stdout=subprocess.PIPE) as packed:
        run("podman", "import", "-", _BASE, stdin=packed.stdout)
    assert packed.returncode == 0


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> str:
    """The image of this checkout. The base and the layers that haven't changed are those of the last time."""
    folder = tmp_path_factory.mktemp("image")
    if f"{_BASE}:" not in run("podman", "images", "--format", "{{.Repository}}:{{.Tag}}"):
        make_base(folder / "base")
    more = []
    if _CERTIFICATES:
        (folder / "ca.pem").write_text("".join(path.read_text() for path in _CERTIFICATES))
        more = ["--secret", f"id=ca,src={folder / 'ca.pem'}"]
    run(
        *("buildah", "bud", "--from", _BASE, "--pull-never", "--layers", "--isolation", "chroot", "--network", "host"),
        *(*more, "--file", "deploy/Dockerfile", "--ignorefile", "deploy/Dockerfile.dockerignore", "--tag", _IMAGE, "."),
    )
    return _IMAGE


class Container:
    """A container of the image, whose files can't be written.

    Its network is that of another container, or a loopback interface of its own.
    """

    def __init__(self, image: str, *arguments: object, beside: "Container | None" = None, user: str = "") -> None:
        self.name = f"unskew-{uuid.uuid4().hex[:8]}"
        options = ["--network", f"container:{beside.name}" if beside else "none"]
        options += ["--env", f"KAFKA_BOOTSTRAP_SERVERS={_KAFKA}"] if beside else []
        options += ["--read-only", "--tmpfs", "/opt/unskew/home", "--tmpfs", "/data"]
        options += ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=32768:32768"]
        options += ["--user", user] if user else []
        self._command = ["podman", "--runtime", "runc", "run", "--name", self.name, *options]
        self._arguments = [image, *arguments]

    def run(self) -> str:
        """What it prints until its end, which is a good one."""
        return run(*self._command, *self._arguments)

    def start(self) -> None:
        run(*self._command, "--detach", *self._arguments)

    def execute(self, *command: object) -> tuple[int, str]:
        """The exit code and the output of a command that is run beside the container's own, in the same files."""
        whole = ["podman", "exec", self.name, *map(str, command)]
        done = subprocess.run(whole, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def log(self) -> str:
        return run("podman", "logs", self.name)

    def running(self) -> bool:
        return run("podman", "inspect", "--format", "{{.State.Running}}", self.name).strip() == "true"

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal, and wait for the exit code."""
        run("podman", "kill", "--signal", number.name, self.name)
        awaited(lambda: not self.running(), f"the end of {self.name}")
        return int(run("podman", "inspect", "--format", "{{.State.ExitCode}}", self.name))


@pytest.fixture
def container(image) -> Iterator[Callable[..., Container]]:
    """Makes containers of the image, removed after the test."""
    made: list[Container] = []

    def make(*arguments: object, **how: Any) -> Container:
        made.append(Container(image, *arguments, **how))
        return made[-1]

    yield make
    for each in reversed(made):
        run("podman", "rm", "--force", "--ignore", "--time", "0", each.name)


@pytest.mark.parametrize("user", ["", "12345:0"], ids=["its user", "another user"])
def test_nothing_is_missing(container, user):
    """OpenShift runs containers as any user, of group 0."""
    said = container("doctor", user=user).run()
    assert "in /opt/unskew/jars" in said
    assert "NO" not in said


def test_its_user_is_a_number_without_rights(image):
    assert run("podman", "inspect", "--format", "{{.Config.User}}", image).strip() == "10001"


def test_sigterm_ends_a_command_as_a_shell_has_it(container):
    producer = container("produce", "COUNTRY_SKEW_R80", "--dry-run", "--loop")
    producer.start()
    awaited(lambda: "COUNTRY_SKEW_R80" in producer.log(), "it goes on", every=1)  # a line each five seconds
    assert producer.end() == 143, producer.log()
    assert "distinct keys" in producer.log()


@pytest.mark.kafka
@pytest.mark.spark
def test_a_topology_from_the_broker_to_its_results(container):
    broker = container("kafka", "start", "--foreground", "--port", "9092")
    broker.start()
    awaited(lambda: "Kafka is ready" in broker.log() or not broker.running(), "the broker", every=1)
    sending = ("--topic", "stream", "--partitions", 2, "--records", _RECORDS)
    container("produce", "COUNTRY_SKEW_R80", *sending, beside=broker).run()

    what = ("LOCAL", "COUNTRY_SKEW_R80", "DYNAMIC_KEY", "stream", 2, 4, "x0", "--window", 5)
    how = ("--checkpoint", "/data/checkpoint", "--metrics", "prometheus://127.0.0.1:9464")
    topology = container("topology", *what, *how, beside=broker)
    topology.start()
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    _, *check = services["topology"]["healthcheck"]["test"]

    def healthy() -> bool:
        assert topology.running(), topology.log()
        return topology.execute(*(part.replace("$$", "$") for part in check))[0] == 0

    awaited(healthy, "its health", every=2)

    def counted() -> bool:
        assert topology.running(), topology.log()
        _, said = broker.execute("unskew", "results", "stream-s2-w4-dkg-aggregator", "--json", "--window", "all")
        counts = [json.loads(line)["fields"]["count"] for line in said.splitlines() if line.startswith("{")]
        assert sum(counts) <= _RECORDS
        return sum(counts) == _RECORDS

    awaited(counted, "all are counted", every=5)
    assert topology.end() == 0, topology.log()
    assert re.search(r"stopped after \d+ batches; start it again", " ".join(topology.log().split()))
    assert broker.end() == 0, broker.log()
