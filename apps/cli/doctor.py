"""`unskew doctor`: check what the project needs on this machine, and say how to get it."""

import json
import os
import platform
import shutil
import sys
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from unskew.apps.cli.cluster_checks import Check, CheckResult, list_cluster_checks
from unskew.apps.cli.option_groups import BootstrapOption, JsonOption, KafkaConfigOption
from unskew.deploy.installation import jars
from unskew.deploy.installation.machine import (
    DISK_GB,
    MEMORY_GB,
    available_cores,
    existing_parent,
    find_java,
    memory_gb,
    require_python,
)
from unskew.deploy.installation.packages import missing_packages, other_versions, read_lock
from unskew.deploy.servers import stack
from unskew.deploy.servers.embedded_broker import find_broker
from unskew.directories import data_directory, jars_directory
from unskew.errors import UsageError, UserError
from unskew.kafka.connection import BOOTSTRAP_VARIABLE, Connection
from unskew.kafka.topics import list_topics
from unskew.loopback import free_port


def doctor(
    bootstrap_servers: BootstrapOption = None,
    kafka_config: KafkaConfigOption = None,
    as_json: JsonOption = False,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Check what a production run needs instead; changes nothing.")
    ] = False,
    topic: Annotated[str | None, typer.Option(help="With --cluster: the topic of the messages.")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="With --cluster: where the checkpoint will be.")] = None,
) -> None:
    """Check all that the project needs, and say how to get what is missing. Exit code 1: something is missing.

    Example: unskew doctor --cluster --topic clicks --checkpoint s3a://bucket/clicks
    """
    checks: dict[str, Check] = {"unskew": _check_version, "Python": _check_python, "packages": _check_packages}
    if cluster:
        checks |= list_cluster_checks(Connection.of(bootstrap_servers, kafka_config), topic, checkpoint)
    elif topic is not None or checkpoint is not None:
        raise UsageError(f"{'--topic' if topic is not None else '--checkpoint'} is for --cluster; give that, too")
    else:
        checks |= {
            "Java": _check_java,
            "JVM jars": _check_jars,
            "directory": _check_directory,
            "disk": _check_disk,
            "memory": _check_memory,
            "cores": _check_cores,
            "ports": _check_ports,
            "Kafka": lambda: _check_broker(bootstrap_servers, kafka_config),
            "stack": _check_stack,
        }
    findings = {subject: check() for subject, check in checks.items()}
    if as_json:
        print(json.dumps([{"subject": subject, **asdict(finding)} for subject, finding in findings.items()], indent=2))
    else:
        table = Table("", "", "found", "what to do", box=None, pad_edge=False)
        for subject, finding in findings.items():
            table.add_row("ok" if finding.fine else "[red]NO[/red]", subject, finding.found, finding.advice)
        Console(width=None if sys.stdout.isatty() else 160).print(table)
    if not all(finding.fine for finding in findings.values()):
        raise typer.Exit(1)


def _check_version() -> CheckResult:
    return CheckResult(metadata.version("unskew"))


def _check_python() -> CheckResult:
    found = f"{platform.python_version()}, {sys.executable}"
    try:
        require_python()
    except UserError as error:
        return CheckResult(found, fine=False, advice=str(error))
    return CheckResult(found)


def _check_packages() -> CheckResult:
    if missing := missing_packages():
        return CheckResult(f"missing: {', '.join(missing)}", fine=False, advice="make setup")
    if other := other_versions():
        return CheckResult(f"not the pinned versions: {', '.join(other)}", advice="make setup, if something fails")
    return CheckResult(f"all {len(read_lock()) or ''} are installed".replace("  ", " "))


def _check_java() -> CheckResult:
    try:
        java = find_java()
    except UserError as error:
        return CheckResult("none that will do", fine=False, advice=str(error))
    home = os.environ.get("JAVA_HOME")
    other = home is not None and java.launcher != Path(home) / "bin" / "java"
    advice = f"JAVA_HOME is {home}, where no Java 17 or 21 runs: unset it, or let it name one" if other else ""
    return CheckResult(f"{java.version}, {java.launcher}", advice=advice)


def _check_jars() -> CheckResult:
    where = jars_directory()
    if jars.has_all_jars():
        return CheckResult(f"in {where}")
    return CheckResult("not fetched yet", fine=False, advice="make setup (55 MB, once; needs the network)")


def _check_directory() -> CheckResult:
    where = data_directory()
    if os.access(existing_parent(where), os.W_OK):
        return CheckResult(str(where))
    advice = "set UNSKEW_HOME to a directory that you may write to"
    return CheckResult(f"{where} isn't writable", fine=False, advice=advice)


def _check_disk() -> CheckResult:
    free = shutil.disk_usage(existing_parent(data_directory())).free / 1e9
    advice = f"make room: {DISK_GB} GB are needed, or set UNSKEW_HOME to another disk" if free < DISK_GB else ""
    return CheckResult(f"{free:.0f} GB free", not advice, advice)


def _check_memory() -> CheckResult:
    available = memory_gb()
    if available is None:
        return CheckResult("unknown here", advice=f"{MEMORY_GB} GB should be available")
    advice = f"end other programs: {MEMORY_GB} GB are needed" if available < MEMORY_GB else ""
    return CheckResult(f"{available:.1f} GB available", not advice, advice)


def _check_cores() -> CheckResult:
    cores = available_cores()
    return CheckResult(str(cores), advice="" if cores > 1 else "works, slowly: two are the least that's pleasant")


def _check_ports() -> CheckResult:
    try:
        port = free_port()
    except UserError as error:
        return CheckResult("none to be had", fine=False, advice=str(error))
    return CheckResult(f"free on 127.0.0.1, {port} for one")


def _check_broker(bootstrap_servers: str | None, config_file: Path | None) -> CheckResult:
    if not (bootstrap_servers or config_file or os.environ.get(BOOTSTRAP_VARIABLE) or find_broker()):
        return CheckResult("not running", advice="unskew kafka start, or --bootstrap-servers")
    try:
        connection = Connection.of(bootstrap_servers, config_file)
        count = len(list_topics(connection))
    except UserError as error:
        return CheckResult("not reached", fine=False, advice=str(error))
    return CheckResult(f"{connection.bootstrap_servers}, {count} topics")


def _check_stack() -> CheckResult:
    servers = [server for part in stack.PARTS if (server := stack.find_server(part))]
    if not servers:
        return CheckResult("not running", advice="unskew stack start, to watch a topology")
    return CheckResult(", ".join(f"{server.name} {server.url}" for server in servers))
