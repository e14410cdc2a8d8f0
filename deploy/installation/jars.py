"""Fetches the JVM archives of Spark's Kafka connector and the embedded broker with pyspark's Ivy.

`ivy.xml` next to this file lists them; `s3a.xml`, `gs.xml` and `abfs.xml` list those for checkpoints on stores of these
schemes. Ivy fetches them from the repository in its settings file `$UNSKEW_IVYSETTINGS`, or from the mirror in the
user's `~/.m2/settings.xml`, or else from its default. Archives whose hash isn't that in `jars.sha256` aren't used,
whether a server sent them or they changed on disk. As a program (`make lock`) this module writes that file.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import quoteattr

from unskew.deploy.installation.machine import find_java
from unskew.deploy.installation.steps import ProgressBar, exclusive_lock, run_with_progress
from unskew.deploy.installation.timestamp_patch import patch_jar
from unskew.directories import jars_directory
from unskew.errors import EnvironmentFault

#: The Ivy file, and the prefix of the archive with Spark's Kafka source.
DESCRIPTION = Path(__file__).with_name("ivy.xml")
SOURCE = "spark-sql-kafka-"
_ABOUT = (50, "about 55 MB")  # archives to download, for the progress bar only
_ABOUT_CONNECTOR = (10, "about 10 MB")
#: Scheme of a store → the size of its archives, as `_ABOUT`. Its Ivy file and configuration have the scheme's name.
_STORES = {"s3a": (40, "about 14 MB"), "gs": (1, "about 40 MB"), "abfs": (3, "about 1.4 MB")}
_DEPENDENCIES = "dependencies/dependency"
_SUMS = DESCRIPTION.with_name("jars.sha256")


def connector_jars() -> list[Path]:
    """The archives of Spark's Kafka source and sink, for `spark.jars`, after fetching missing ones.

    They match the installed pyspark: a connector works only with its Spark version. Only the pinned version has hashes.

    Raises ``EnvironmentFault`` if they can't be fetched (`resolve_jars`), or don't exist for that version.
    """
    pinned, installed = _pinned_version(), _pyspark_version()
    if pinned in (None, installed):
        found = resolve_jars(DESCRIPTION, "connector", "the JVM jars", *_ABOUT, _SUMS)
    else:
        try:
            found = fetch_connector(installed)
        except EnvironmentFault as fault:
            raise EnvironmentFault(
                f"pyspark {installed} is installed, and its Kafka connector can't be had: {fault}. If there is none of "
                f"this version: install pyspark=={pinned}, which unskew is made with"
            ) from fault
    return [patch_jar(jar) if jar.name.startswith(SOURCE) else jar for jar in found]


def fetch_connector(version: str) -> list[Path]:
    """The archives of the Kafka connector of any Spark version, after fetching missing ones, without hashes.

    Raises ``EnvironmentFault`` if they can't be fetched (`resolve_jars`).
    """
    return resolve_jars(
        _write_description(version), "connector", f"Spark {version}'s Kafka connector", *_ABOUT_CONNECTOR
    )


def broker_jars() -> list[Path]:
    """The class path of the embedded broker, after fetching missing archives."""
    return resolve_jars(DESCRIPTION, "broker", "the JVM jars", *_ABOUT, _SUMS)


def store_jars(scheme: str) -> list[Path]:
    """The archives that Spark needs for a store, for `spark.jars`; none if Spark supports it already.

    Missing ones are fetched first.
    """
    scheme = "abfs" if scheme == "abfss" else scheme
    if scheme not in _STORES:
        return []
    description = DESCRIPTION.with_name(f"{scheme}.xml")
    return resolve_jars(description, scheme, f"what Spark needs for {scheme}://", *_STORES[scheme], _SUMS)


def has_all_jars() -> bool:
    """Whether all archives are present, so that no network is needed."""
    return _archives_directory().is_dir()


def pyspark_home() -> Path:
    """The directory of pip's Spark.

    Raises ``EnvironmentFault`` if pyspark isn't installed in this environment.
    """
    spec = importlib.util.find_spec("pyspark")  # importing it would take a second
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentFault(f"pyspark is not installed for {sys.executable}; run `make setup`")
    return Path(spec.submodule_search_locations[0])


def _pinned_version() -> str | None:
    """The version of the connector that `ivy.xml` names."""
    root = ET.fromstring(DESCRIPTION.read_bytes())  # noqa: S314  our own file
    return next((row.get("rev") for row in root.iterfind(_DEPENDENCIES) if _is_source(row)), None)


def _pyspark_version() -> str:
    """The version of the installed pyspark, without a vendor's suffix."""
    source = (pyspark_home() / "version.py").read_text()  # vendors' pyspark may have no package metadata
    [installed] = re.findall(r"""^__version__.*?=\s*["']([^"']+)["']""", source, re.MULTILINE)
    return installed.partition("+")[0]


def _is_source(dependency: ET.Element) -> bool:
    return dependency.get("name", "").startswith(SOURCE)


def _write_description(version: str) -> Path:
    """Write, once, an Ivy file like ours with only the connector of another Spark version."""
    root = ET.fromstring(DESCRIPTION.read_bytes())  # noqa: S314  our own file
    for parent in root.iterfind("dependencies"):
        for row in parent.findall("dependency"):
            if _is_source(row):
                row.set("rev", version)
            else:
                parent.remove(row)
    content = ET.tostring(root)
    path = jars_directory() / f"spark-{version}.xml"
    with _writable_jars(path.parent):
        if not path.is_file() or path.read_bytes() != content:
            part = path.with_suffix(f".{os.getpid()}.part")
            part.write_bytes(content)
            part.replace(path)
    return path


def resolve_jars(
    description: Path, configuration: str, what: str, about: int, size: str, sums: Path | None = None
) -> list[Path]:
    """The archives of one configuration of an Ivy file. If any is missing, all of the file's are fetched first.

    The progress bar shows what is fetched, about how many archives, and their total size. `sums` is a file of the
    archives' hashes in the format of `sha256sum`, which each call checks. Without it, any archives of the right names
    are accepted.

    Raises ``EnvironmentFault`` if they can't be fetched, there is no disk space, or their hashes differ.
    """
    target = _archives_directory(description)
    if not target.is_dir():
        _fetch_archives(description, target, ProgressBar(f"fetching {what}, once", about, size), sums)
    elif wrong := _find_mismatch(target, configuration, sums):
        raise EnvironmentFault(f"{_describe_wrong_jar(target / wrong)}; remove {target}, and they are fetched anew")
    return sorted((target / configuration).glob("*.jar"))


def _hash_archives(target: Path, configuration: str) -> dict[str, str]:
    """Path below the directory → SHA-256, of the archives of a configuration."""
    found = sorted((target / configuration).glob("*.jar"))
    return {f"{configuration}/{jar.name}": hashlib.sha256(jar.read_bytes()).hexdigest() for jar in found}


def _find_mismatch(target: Path, configuration: str, sums: Path | None) -> str | None:
    """An archive with a wrong or no hash, or that is missing; None if all are right, or there are no hashes."""
    if sums is None:
        return None
    rows = (line.split() for line in sums.read_text().splitlines())
    wanted = {name: digest for digest, name in rows if name.startswith(f"{configuration}/")}
    found = _hash_archives(target, configuration)
    return next((name for name in sorted(wanted | found) if wanted.get(name) != found.get(name)), None)


def _describe_wrong_jar(jar: Path) -> str:
    return f"{jar} is not the archive that this version was made with (its SHA-256 is another)"


def description_hash(description: Path | None = None) -> str:
    """A hash of the Ivy file, which distinguishes its archives from other versions'."""
    return hashlib.sha256((description or DESCRIPTION).read_bytes()).hexdigest()[:12]


def _archives_directory(description: Path | None = None) -> Path:
    # One directory per content of the file, so that a new version fetches anew. Existing directories are complete.
    return jars_directory() / description_hash(description)


def _fetch_archives(description: Path, target: Path, progress: ProgressBar, sums: Path | None) -> None:
    java, ivy = find_java(), _find_ivy()
    with _writable_jars(target.parent) as directory, exclusive_lock(directory / "fetch.lock"):
        if target.is_dir():  # another process was faster
            return
        cache = directory / "ivy-cache"  # survives an interruption, for the next attempt
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
                failed = run_with_progress(command, log, progress, lambda line: "[SUCCESSFUL ]" in line)
            if failed:
                raise EnvironmentFault(_read_fault(log))
            new = Path(temporary) / "jars"
            for folder in new.iterdir():
                if wrong := _find_mismatch(new, folder.name, sums):
                    shutil.rmtree(cache, ignore_errors=True)
                    raise EnvironmentFault(
                        f"{_describe_wrong_jar(Path(wrong))}: ask who runs the server that it was fetched from"
                    )
            new.rename(target)
        shutil.rmtree(cache, ignore_errors=True)


@contextmanager
def _writable_jars(directory: Path) -> Iterator[Path]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield directory
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write the JVM jars to {directory}: {error.strerror or error}; "
            "make room or access there, or set UNSKEW_JARS to another directory"
        ) from error


def _find_ivy() -> Path:
    found = sorted((pyspark_home() / "jars").glob("ivy-*.jar"))
    if not found:
        raise EnvironmentFault(f"there is no ivy-*.jar in {pyspark_home() / 'jars'}; reinstall pyspark: `make setup`")
    return found[-1]


def ivy_settings(directory: Path) -> Path | None:
    """A settings file for Ivy, written into `directory` if necessary. None: Ivy's default applies.

    Raises ``EnvironmentFault`` if the user names a file that doesn't exist.
    """
    if named := os.environ.get("UNSKEW_IVYSETTINGS"):
        path = Path(named).expanduser()
        if not path.is_file():
            raise EnvironmentFault(f"UNSKEW_IVYSETTINGS names {path}, which is no file")
        return path
    mirror = _read_mirror(Path("~/.m2/settings.xml").expanduser())
    if mirror is None:
        return None
    path = directory / "ivysettings.xml"
    path.write_text(
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" m2compatible="true" root={quoteattr(mirror)}/></resolvers></ivysettings>\n'
    )
    return path


def _read_mirror(settings: Path) -> str | None:
    # Without a mirror's password, which a file of UNSKEW_IVYSETTINGS can have.
    try:
        mirrors = ET.parse(settings).getroot().iterfind("{*}mirrors/{*}mirror")  # noqa: S314  the user's own file
    except (OSError, ET.ParseError):
        return None
    for mirror in mirrors:
        of = {name.strip() for name in (mirror.findtext("{*}mirrorOf") or "").split(",")}
        if of & {"*", "external:*", "central"} and "!central" not in of:
            return (mirror.findtext("{*}url") or "").strip() or None
    return None


def _read_fault(log: Path) -> str:
    text = log.read_text(errors="replace")
    if "No space left on device" in text:
        return f"no space is left for the JVM jars in {log.parent}; make room, or set UNSKEW_JARS to another directory"
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


def lock_hashes() -> None:
    """Fetch all missing archives, and write all hashes to the file."""
    lines: list[str] = []
    stores = [(DESCRIPTION.with_name(f"{scheme}.xml"), scheme) for scheme in _STORES]
    for description, configuration in [(DESCRIPTION, "broker"), (DESCRIPTION, "connector"), *stores]:
        resolve_jars(description, configuration, "archives", *_ABOUT)
        hashes = _hash_archives(_archives_directory(description), configuration)
        lines += [f"{digest}  {name}\n" for name, digest in hashes.items()]
    _SUMS.write_text("".join(lines))
    print(f"wrote {len(lines)} hashes to {_SUMS}")


if __name__ == "__main__":
    lock_hashes()
