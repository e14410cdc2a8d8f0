"""All programs that measure, by the folder of the page that shows their figures.

python -m evidence              # what there is
python -m evidence NAME ...     # runs these, one after the other, as they are without options
python -m evidence all          # runs all except those that are marked with a star: three hours
python -m evidence.NAME --help  # what one measures, and its options
"""

import argparse
import ast
import subprocess
import sys
from pathlib import Path

_FOLDER = Path(__file__).parent
#: Those that ``all`` leaves out: a campaign of faults can take hours, other engines are 2 GB to fetch, and the papers
#: write pages. What lies in their folders is started by them, but for ``_OWN``.
ALONE = ("engines", "faults", "papers")
_OWN = ("engines.shufflebench", "faults.alerts")


def find_programs() -> dict[str, str]:
    """Each program's name, and the first line of its docstring: what it measures."""
    found: dict[str, str] = {}
    for file in sorted(_FOLDER.glob("*/**/*.py")):
        name = ".".join(file.relative_to(_FOLDER).with_suffix("").parts).removesuffix(".__main__")
        text = file.read_text(encoding="utf-8")
        is_inner = name.partition(".")[0] in ALONE and name not in (*ALONE, *_OWN)
        if '__name__ == "__main__"' in text and not is_inner:
            found[name] = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return found


def main() -> None:
    known = find_programs()
    lines = [f"{name:20}{'*' if name in ALONE else ' '} {measures}" for name, measures in known.items()]
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="\n".join(lines), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs to run, or all; none: list them")
    names = parser.parse_args().names
    if not names:
        print("\n".join(lines))
    if names == ["all"]:
        names = [name for name in known if name not in ALONE]
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"unknown program {unknown[0]!r}; valid: all, {', '.join(known)}")
    for name in names:
        print(f"── {name}: {known[name]}", flush=True)
        subprocess.run([sys.executable, "-m", f"evidence.{name}"], check=True)


if __name__ == "__main__":
    main()
