"""Settings of a topology that isn't started: nobody asks its broker."""

from pathlib import Path

from unskew.apps.settings import Settings
from unskew.kafka.connection import Connection


def settings(**changes) -> Settings:
    given = {
        "mode": "LOCAL",
        "source_type": "COUNTRY_SKEW_R80",
        "grouping": "KEY",
        "topic": "country-skew-80",
        "sources": 5,
        "workers": 10,
        "speed": "x1",
        "connection": Connection("localhost:9092"),
        "checkpoint": str(Path("checkpoint")),
    }
    return Settings(**(given | changes))
