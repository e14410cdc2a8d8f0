"""What the routing table paper says of its figures 13 to 16, and what comes out here."""

import numpy as np

from reproduction.mixed.claims import Claim
from reproduction.mixed.live import STREAMS, THETAS, F, course, scaled_out
from reproduction.page import Report, Sizing
from reproduction.stage import Stage


def claims(settings: Sizing, stage: Stage) -> Report:
    """One row for each."""
    rows = [*_fluctuation(settings, stage), *_tolerance(settings, stage), *_scale_out(settings, stage)]
    title = "Mixed: what the paper says of its live figures, and what comes out"
    return Report(title, ("figure", "paper", "ours", "why they differ"), rows)


def _fluctuation(settings: Sizing, stage: Stage) -> list[Claim]:
    def rates(name: str) -> np.ndarray:
        return np.array([course(stage, settings, name, f).throughput for f in F])

    ideal, mixed, readj, storm = (rates(name) for name in ("SHUFFLE", "MIXED", "READJ", "KEY"))
    at = ", ".join(f"{f:g}" for f in F)
    return [
        Claim("13", "Ideal is the best always", f"f = {at}: Mixed has {_shares(mixed / ideal)} of its throughput"),
        Claim(
            "13",
            "Mixed is very close to it, whatever f",
            f"from {min(mixed / ideal):.0%} to {max(mixed / ideal):.0%}; Storm {_shares(storm / ideal)}",
            "after each change a batch has the old plan: one of four here, a small part of an interval there",
        ),
        Claim(
            "13",
            "Readj works well only with small f",
            f"{_shares(readj / mixed)} of Mixed's throughput",
            "it is planned by batches, in which READJ's time to plan doesn't count",
        ),
    ]


def _tolerance(settings: Sizing, stage: Stage) -> list[Claim]:
    found: list[Claim] = []
    for data, z in STREAMS.items():
        by = {
            name: np.array([course(stage, settings, name, 1.0, theta, z).throughput for theta in THETAS])
            for name in ("MIXED", "MINTABLE", "READJ")
        }
        storm, pkg = (course(stage, settings, name, 1.0, z=z) for name in ("KEY", "PARTIAL_KEY"))
        mixed = by["MIXED"]
        found += [
            Claim("14", f"{data}: Mixed is best with the strictest θmax", f"{THETAS}: {_rates(mixed)} tuples/s"),
            Claim(
                "14",
                f"{data}: about twice Storm's and Readj's with small θmax",
                f"{mixed[0] / storm.throughput:.2f} and {mixed[0] / by['READJ'][0]:.2f} times",
            ),
            Claim(
                "14",
                f"{data}: MinTable is slower, for it moves more",
                f"{_shares(by['MINTABLE'] / mixed)} of Mixed's",
                "counts move with no key here; what moving states costs: `python -m benchmarks.migration`",
            ),
        ]
        if data == "Social":
            less = 1 - course(stage, settings, "MIXED", 1.0, THETAS[0], z).completion / pkg.completion
            found.append(
                Claim(
                    "14",
                    "Social: 10 % more throughput than PKG, 40 % less latency",
                    f"{mixed[0] / pkg.throughput - 1:.0%} more, {less:.0%} less",
                    "merging the partial counts is part of a batch's fixed cost here, which is left out",
                )
            )
    return found


def _scale_out(settings: Sizing, stage: Stage) -> list[Claim]:
    mixed, readj = (scaled_out(stage, settings, name) for name in ("MIXED", "READJ"))
    storm = course(stage, settings, "KEY", 1.0).throughputs
    bound = [course(stage, settings, "MIXED", 1.0, theta).throughputs for theta in THETAS]
    return [
        Claim("15", "Mixed is balanced over the new worker much sooner than Readj (5 minutes)",
              f"from the third batch on {_gain(mixed)} and {_gain(readj)} times the throughput before",
              "READJ's time to plan is small with few keys"),
        Claim("16", "without balancing throughput is poor, Mixed's is best at any θmax",
              f"Mixed {_shares(np.array([each.mean() for each in bound]) / storm.mean())} of Storm's"),
    ]  # fmt: skip


def _gain(courses: list) -> str:
    before, after = (course.throughputs for course in courses)
    return f"{after[2:].mean() / before[1:].mean():.2f}"


def _shares(values: np.ndarray) -> str:
    return ", ".join(f"{value:.0%}" for value in values)


def _rates(values: np.ndarray) -> str:
    return ", ".join(f"{value:,.0f}" for value in values)
