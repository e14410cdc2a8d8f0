"""Shorten a recording of the demo to twenty seconds, for the picture in the README.

    asciinema rec --cols 100 --rows 32 --command "unskew demo" demo.cast        # asciinema 2, from PyPI
    python docs/recording.py demo.cast short.cast
    npx svg-term-cli --in short.cast --out docs/demo.svg --window --no-cursor --padding 8

The recording ends with the table, which then stands for five seconds.
"""

import json
import sys
from pathlib import Path

SECONDS, FRAME, LAST = 17.0, 0.35, 5.0
#: What the demo prints after the table.
END = "saved out/demo/comparison.csv"


def shorten(recording: str) -> str:
    """A recording in asciinema's format 2 up to the table, with all that comes within a frame in one event."""
    head, *lines = recording.splitlines()
    events = [json.loads(line) for line in lines]
    end = next(time for time, _, text in events if END in text)
    frames: dict[int, str] = {}
    for time, _, text in events:
        if time < end:
            number = int(time / end * SECONDS / FRAME)
            frames[number] = frames.get(number, "") + text
    shown = [[round(number * FRAME, 2), "o", text] for number, text in sorted(frames.items())]
    shown.append([shown[-1][0] + LAST, "o", " "])
    return "\n".join([head, *map(json.dumps, shown)]) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(shorten(Path(sys.argv[1]).read_text(encoding="utf-8")), encoding="utf-8")
