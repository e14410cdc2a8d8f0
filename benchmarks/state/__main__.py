"""States per key: what they cost, and what the groupings are for.

    python -m benchmarks.state [--part keys|sessions|schemes] [the part's own options]

Without a part all of them, one after the other; `--part NAME --help` says more.
"""

import sys

from benchmarks.state import keys, schemes, sessions

PARTS = {"keys": keys.main, "sessions": sessions.main, "schemes": schemes.main}


def main() -> None:
    given = sys.argv[1:]
    if not given:
        for part in PARTS.values():
            part([])
        return
    if given[0] != "--part" or len(given) < 2 or given[1] not in PARTS:
        sys.exit(f"{' '.join(given)!r}; valid: --part NAME, one of {', '.join(PARTS)}, and its own options after it")
    PARTS[given[1]](given[2:])


if __name__ == "__main__":
    main()
