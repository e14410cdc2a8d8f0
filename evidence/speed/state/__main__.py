"""States per key: what they cost, and what the groupings are for.

    python -m evidence.speed.state [--part keys|sessions|schemes] [the part's own options]

Without a part all of them run, one after the other; `--part NAME --help` says more.
"""

import argparse
import sys

from evidence.speed.state import keys, schemes, sessions

PARTS = {"keys": keys.main, "sessions": sessions.main, "schemes": schemes.main}


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "--part" and sys.argv[2] in PARTS:
        PARTS[sys.argv[2]](sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=list(PARTS), help="must come first; the part's own options come after it")
    parser.parse_args()
    for part in PARTS.values():
        part([])


if __name__ == "__main__":
    main()
