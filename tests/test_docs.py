"""The Markdown pages: links and anchors lead somewhere, and the map of folders is the list of folders."""

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_AWAY = {".venv", ".unskew", "out", "build", "dist", ".git"}
PAGES = sorted(page for page in ROOT.rglob("*.md") if not _AWAY & set(page.relative_to(ROOT).parts))


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    return re.sub(r"(?m)^ {4}.*$", "", text)


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    broken = []
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_the_map_of_folders_is_the_list_of_folders():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*)/`", text[text.index("## The folders") :]))
    there = [folder for folder in ROOT.iterdir() if folder.name[0] != "." and folder.name not in _AWAY]
    folders = {folder.name for folder in there if any(folder.glob("**/*.py"))}
    packages = {f"apps/{folder.name}" for folder in (ROOT / "apps").iterdir() if (folder / "__init__.py").exists()}
    missing = (folders - {"src", "apps"} | packages) - named
    assert not missing, "docs/architecture.md doesn't say what is in these"
    assert not [name for name in named if not (ROOT / name).is_dir() and not list(ROOT.glob(f"*/{name}"))]
