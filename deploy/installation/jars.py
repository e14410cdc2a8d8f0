"""The JVM archives: Spark's Kafka connector and the embedded broker, fetched once by the Ivy that pyspark ships.

`ivy.xml` beside this file says which, `s3a.xml` which more there are for checkpoints on S3; `maven_mirror.py` says
from where.
"""

import hashlib
import importlib.util
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unskew.deploy.home import home
from unskew.deploy.installation.exclusive import exclusive
from unskew.deploy.installation.java import find_java
from unskew.deploy.installation.maven_mirror import ivy_settings
from unskew.deploy.installation.steps import Progress, followed
from unskew.errors import EnvironmentFault

_DESCRIPTION = Path(__file__).with_name("ivy.xml")
_ABOUT = (50, "about 55 MB")  # archives to download, for the progress line only
_S3A = _DESCRIPTION.with_name("s3a.xml")
_ABOUT_S3A = (40, "about 14 MB")


def connector_jars() -> list[Path]:
    """The archives of Spark's Kafka source and sink, for `spark.jars`; fetched first if they aren't here yet."""
    return described_jars(_DESCRIPTION, "connector", "the JVM jars", *_ABOUT)


def broker_jars() -> list[Path]:
    """The class path of the embedded broker; fetched first if they aren't here yet."""
    return described_jars(_DESCRIPTION, "broker", "the JVM jars", *_ABOUT)


def s3a_jars() -> list[Path]:
    """What Spark needs for `s3a://…`, for `spark.jars`; fetched first if it isn't here yet."""
    return described_jars(_S3A, "s3a", "what Spark needs for s3a://", *_ABOUT_S3A)


def fetched() -> bool:
    """Whether the archives are here, so that no network is needed."""
    return _target().is_dir()


def pyspark_home() -> Path:
    """Where pip put Spark.

    Raises
    ------
    EnvironmentFault
        If pyspark isn't installed in this environment.
    """
    spec = importlib.util.find_spec("pyspark")  # importing it would take a second
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentFault(f"pyspark is not installed for {sys.executable}; run `make setup`")
    return Path(spec.submodule_search_locations[0])


def described_jars(description: Path, configuration: str, what: str, about: int, size: str) -> list[Path]:
    """The archives of one configuration of an Ivy file; all of the file's are fetched first if they aren't here yet.

    Parameters
    ----------
    description, configuration
        The file, and the name in it.
    what, about, size
        For the progress line: what is fetched, how many archives, and how large they are together.

    Raises
    ------
    EnvironmentFault
        If they can't be fetched, or there is no room for them.
    """
    target = _target(description)
    if not target.is_dir():
        _fetch(description, target, Progress(f"fetching {what}, once", about, size))
    return sorted((target / configuration).glob("*.jar"))


def described(description: Path | None = None) -> str:
    """What tells these archives from those of other versions."""
    return hashlib.sha256((description or _DESCRIPTION).read_bytes()).hexdigest()[:12]


def _target(description: Path | None = None) -> Path:
    # A directory per description: a new version of ours fetches anew, and one that exists is complete.
    return home() / "jars" / described(description)


def _fetch(description: Path, target: Path, progress: Progress) -> None:
    java, ivy = find_java(), _ivy()
    with _writable_jars(target.parent) as directory, exclusive(directory / "fetch.lock"):
        if target.is_dir():  # another process was faster
            return
        cache = directory / "ivy-cache"  # survives an interruption, so that the next attempt goes on from there
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=directory) as temporary:
            settings = ivy_settings(Path(temporary))
            command = [
                java.launcher,
                "-Dsun.net.client.defaultConnectTimeout=20000",
                "-Dsun.net.client.defaultReadTimeout=60000",
                f"-Divy.default.ivy.user.dir={cache}",
                *("-jar", ivy, "-ivy", description, "-cache", cache),
                *(("-settings", settings) if settings else ()),
                *("-types", "jar", "bundle"),
                *("-retrieve", f"{temporary}/jars/[conf]/[artifact]-[revision].[ext]"),
            ]
            log = directory / "fetch.log"
            log.unlink(missing_ok=True)
            with progress:
                failed = followed(command, log, progress, lambda line: "[SUCCESSFUL ]" in line)
            if failed:
                raise EnvironmentFault(_explain(log))
            (Path(temporary) / "jars").rename(target)
        shutil.rmtree(cache, ignore_errors=True)


@contextmanager
def _writable_jars(directory: Path) -> Iterator[Path]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write the JVM jars to {directory}: {error.strerror or error}; "
            "make room or access there, or set UNSKEW_HOME to another directory"
        ) from error


def _ivy() -> Path:
    found = sorted((pyspark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise EnvironmentFault(f"there is no ivy-*.jar in {pyspark_home() / 'jars'}; reinstall pyspark: `make setup`")
    return found[-1]


def _explain(log: Path) -> str:
    text = log.read_text(errors="replace")
    if "No space left on device" in text:
        return f"no space is left for the JVM jars in {log.parent}; make room, or set UNSKEW_HOME to another directory"
    if failed := re.search(r"Server access error at url \S+?//([^/\s]+)\S* \((?:[\w.]+: )?(.+)\)", text):
        reason = f"{failed[1]}: {failed[2]}"
    elif unknown := re.search(r"Host (\S+) not found", text):
        reason = f"{unknown[1]}: unknown host"
    elif missing := re.findall(r":: (\S+#\S+): not found", text):
        reason = f"not found: {', '.join(missing[:3])}"
    else:
        reason = "Ivy failed"
    return (
        f"cannot fetch the JVM jars ({reason}; see {log}). The network is needed this one time: a mirror is taken "
        "from ~/.m2/settings.xml or an Ivy settings file named by UNSKEW_IVYSETTINGS, a proxy from "
        "JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'; then run the command again"
    )
