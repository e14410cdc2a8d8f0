"""The project's Markdown pages, and the blocks of code that stand on them."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Folders of what is made here; hidden ones, too, have nothing of the project.
AWAY = {"out", "build", "dist"}
#: All pages, by their path from the project's root.
PAGES = {
    str(page.relative_to(ROOT)): page
    for page in sorted(ROOT.rglob("*.md"))
    if not any(part in AWAY or part[0] == "." for part in page.relative_to(ROOT).parts)
}
_BLOCK = re.compile(
    r"""(?msx)
    ^```(?P<language>\w*|\{[^\n]*)\n (?P<fenced>.*?) ^```\n
    | (?:(?<=\n\n)|\A) (?P<indented>(?:\ {4}[^\n]*\n (?:\n(?=\ {4}))*)+)
    """
)


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    #: The page's path from the project's root.
    page: str
    #: Where the block begins.
    line: int
    #: ``sh``, ``python``, ``text``, …; where the page names none, ``sh`` if it begins with a command, else ``text``.
    language: str
    #: What stands in it.
    code: str
    #: What the page shows as its output: the ``text`` block that follows, with at most a sentence between.
    output: str | None = None

    def __str__(self) -> str:
        """The block's place."""
        return f"{self.page}:{self.line}"


_COMMAND = re.compile(r"(\$ )?(unskew|make|python|pip|export|source|docker|git|zcat|\.venv/bin/\w+) ")


def blocks(name: str) -> list[Block]:
    """The page's blocks in their order, each with the output that the page shows for it."""
    text = PAGES[name].read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in _BLOCK.finditer(text):
        code = match["fenced"] or re.sub(r"(?m)^ {4}", "", match["indented"] or "")
        language = match["language"] or ("sh" if _COMMAND.match(code) else "text")
        output = None
        if code.startswith("$ "):  # a terminal's text: the command behind the prompt, and what it prints
            code, _, output = code.removeprefix("$ ").partition("\n")
        between = text[end : match.start()]
        if language == "text" and found and found[-1].output is None and len(between) < 200 and "\n#" not in between:
            found[-1] = replace(found[-1], output=code)
        else:
            found.append(Block(name, text.count("\n", 0, match.start()) + 1, language, code, output))
        end = match.end()
    return found


def logical(code: str) -> list[str]:
    """Lines of shell code, those that a backslash continues as one, without comments."""
    joined = re.sub(r"(?m)\s+#.*$|^#.*$", "", code.replace("\\\n", " "))
    return [line.strip() for line in joined.splitlines() if line.strip()]


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return _BLOCK.sub("\n", page.read_text(encoding="utf-8"))
