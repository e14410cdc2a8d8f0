"""The Markdown pages: links lead somewhere, commands and options exist, the map of folders is right."""

import re
import shlex
import unicodedata
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import typer

from tests.pages import AWAY, PAGES, ROOT, blocks, logical, prose
from unskew.apps.cli.field_options import list_parts
from unskew.apps.cli.main import app


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them: a heading that comes again gets a number."""
    seen: dict[str, int] = {}
    found = set()
    for title in re.findall(r"(?m)^#{1,6} (.+)$", prose(page)):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        kept = "".join(c for c in plain if c in " -_" or unicodedata.category(c)[0] in "LN")
        slug = kept.replace(" ", "-")
        found.add(slug if slug not in seen else f"{slug}-{seen[slug]}")
        seen[slug] = seen.get(slug, 0) + 1
    return found


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    page = PAGES[name]
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@cache
def of_tests() -> set[str]:
    """The paths of the tests' files, and the names of the tests."""
    files = [*(ROOT / "tests").rglob("*.py")]
    found = {name for file in files for name in re.findall(r"(?m)^def (test_\w+)", file.read_text(encoding="utf-8"))}
    return found | {file.relative_to(ROOT).as_posix() for file in files}


@pytest.mark.parametrize("name", PAGES)
def test_tests_that_are_named_are_there(name):
    named = re.findall(r"`(tests/[a-z_/]+\.py|test_[a-z0-9_]+)`", PAGES[name].read_text(encoding="utf-8"))
    assert not set(named) - of_tests()


def test_the_map_of_folders_is_the_list_of_folders():
    text = PAGES["docs/architecture.md"].read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*)/`", text[text.index("## The folders") :]))
    there = [folder for folder in ROOT.iterdir() if folder.name[0] != "." and folder.name not in AWAY]
    folders = {folder.name for folder in there if any(folder.glob("**/*.py"))}
    packages = {f"apps/{folder.name}" for folder in (ROOT / "apps").iterdir() if (folder / "__init__.py").exists()}
    missing = (folders - {"src", "apps"} | packages) - named
    assert not missing, "docs/architecture.md doesn't say what is in these"
    assert not [name for name in named if not (ROOT / name).is_dir() and not list(ROOT.glob(f"*/**/{name}/"))]


@cache
def options() -> dict[str, set[str]]:
    """Command, with its subcommand → its options."""

    def walk(command, path):
        yield path, {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
        for name, each in getattr(command, "commands", {}).items():
            yield from walk(each, f"{path} {name}".strip())

    return dict(walk(typer.main.get_command(app), ""))


def commands(name: str) -> list[str]:
    """The commands on a page: the lines of its shell blocks, and code within its sentences."""
    lines = [line for block in blocks(name) if block.language in {"sh", "console"} for line in logical(block.code)]
    return lines + re.findall(r"`((?:unskew|make|python -m) [^`]+)`", " ".join(prose(PAGES[name]).split()))


@pytest.mark.parametrize("name", PAGES)
def test_commands_and_options_exist(name):
    wrong = [(line, problem) for line in commands(name) for problem in problems(line)]
    assert not wrong


def _takes(code: str, flag: str) -> bool:
    """Does a program have this option, by argparse or by typer?"""
    return f'"{flag}"' in code or f"    {flag[2:]}: Annotated[" in code


def problems(line: str) -> list[str]:
    """What is wrong with a line of commands: one that there isn't, or an option that it doesn't have."""
    found = []
    for part in re.split(r"[;&|]+ ?", line):
        try:
            given = shlex.split(part)
        except ValueError:
            continue
        flags = {word.partition("=")[0] for word in given if re.match(r"--\w", word)}
        match given:
            case ["unskew" | ".venv/bin/unskew", *rest]:
                known = options()
                path = next((p for n in (2, 1) if (p := " ".join(rest[:n])) in known), None)
                if path is None:
                    found += [f"no command {rest[0]}"] * bool(rest and rest[0][0].islower())
                else:
                    found += [f"{path} has no {flag}" for flag in flags - known[path]]
                    names = {pair.partition("=")[0] for option, pair in pairwise(rest) if option == "-s"}
                    found += [f"{path} has no -s {name}" for name in names - set(list_parts("-s"))]
            case ["make", *targets]:
                made = (ROOT / "Makefile").read_text(encoding="utf-8")
                found += [f"no target {t}" for t in targets if t.islower() and not re.search(rf"(?m)^{t}:", made)]
            case ["python", "-m", module, *_] if module.startswith("evidence"):
                path = ROOT / module.replace(".", "/")
                files = [path.with_suffix(".py")] if path.with_suffix(".py").exists() else list(path.glob("*.py"))
                code = "".join(file.read_text(encoding="utf-8") for file in files)
                if "records_option(" in code:  # an option of several benchmarks
                    code += (ROOT / "evidence" / "speed" / "measuring.py").read_text(encoding="utf-8")
                found += [f"no {module}"] * (not files)
                found += [f"{module} has no {flag}" for flag in flags if files and not _takes(code, flag)]
    return found
