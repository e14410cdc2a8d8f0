"""Figures 4 to 9 of the POSG paper, and the sweeps of n and μ that it leaves out."""

from reproduction.page import Report, Sizing
from reproduction.posg.sweeps import sweep
from reproduction.posg.trial import Stream


def figure_4(settings: Sizing) -> Report:
    """Frequency distributions."""
    points = {"uniform": None, **{f"Zipf-{z}": z for z in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)}}
    paper = {"uniform": "1.06", "Zipf-0.5": "1.06", "Zipf-1.0": "1.25"}
    return sweep(
        settings, "POSG, Figure 4: distribution of the items", "distribution",
        {label: (Stream(z=z), {}) for label, z in points.items()}, paper.get,
        "Paper, for Zipf-1.5 and above: POSG's worst is better than round robin's best; as full knowledge at Zipf-2.5.",
        "Here the more skewed the stream, the longer until a sketch is stable: cells that few tuples hit weigh as much",
        "in equation 1 as the others. At Zipf-2.0 most of 32,768 tuples are gone before all five have sent one.",
    )  # fmt: skip


def figure_5(settings: Sizing) -> Report:
    """Over-provisioning."""
    percents = (95, 98, 100, 102, 105, 107, 109, 115)
    paper = {"102": "1.26", "115": "1.07"} | {str(p): "≥ 1.15" for p in (100, 105, 107, 109)}
    return sweep(
        settings, "POSG, Figure 5: over-provisioning", "%",
        {str(p): (Stream(provisioning=p / 100), {}) for p in percents}, paper.get,
        "Paper: from 100 % to 109 % at least 1.15 on average; less below 98 %, where all queues grow.",
    )  # fmt: skip


def figure_6(settings: Sizing) -> Report:
    """Greatest execution time."""
    return sweep(
        settings, "POSG, Figure 6: greatest execution time", "w_max, ms",
        {str(w): (Stream(w_max=float(w)), {}) for w in (2, 8, 64, 256, 1024)}, lambda _: "1.19",
    )  # fmt: skip


def figure_7(settings: Sizing) -> Report:
    """Number of execution times."""
    return sweep(
        settings, "POSG, Figure 7: number of execution times", "w_n",
        {str(w): (Stream(w_n=w), {}) for w in (2, 4, 16, 64, 256, 1024)}, lambda _: "1.19",
    )  # fmt: skip


def figure_8(settings: Sizing) -> Report:
    """Instances."""
    return sweep(
        settings, "POSG, Figure 8: instances", "k",
        {str(k): (Stream(k=k), {}) for k in (1, 2, 3, 5, 7, 10)}, {"1": "1.00"}.get,
        "Paper: 1 for k = 1; 4 % more from 2 to 3 instances, 1 % more from 9 to 10.",
        "A sketch needs N tuples of its instance, so k = 10 leaves round robin after twice as many tuples as k = 5.",
    )  # fmt: skip


def figure_9(settings: Sizing) -> Report:
    """Precision."""
    return sweep(
        settings, "POSG, Figure 9: precision ε", "ε",
        {str(e): (Stream(), {"epsilon": e}) for e in (1.0, 0.5, 0.1, 0.05, 0.01, 0.001)}, lambda _: None,
        "Paper: a tenth of ε brings a 30 % better speed-up; from ε = 0.09 down no stream is slower than round robin.",
        "With more columns cells are hit by fewer tuples, and equation 1 takes longer to be satisfied.",
    )  # fmt: skip


def items(settings: Sizing) -> Report:
    """Distinct items."""
    return sweep(
        settings, "POSG: number of distinct items n", "n",
        {f"{n:,}": (Stream(n=n), {}) for n in (256, 1024, 4096, 16_384)},
        lambda label: "1.19" if label == "4,096" else None,
    )  # fmt: skip


def tolerance(settings: Sizing) -> Report:
    """Tolerance."""
    return sweep(
        settings, "POSG: tolerance μ", "μ",
        {str(mu): (Stream(), {"tolerance": mu}) for mu in (0.01, 0.05, 0.1, 0.2, 1.0)},
        lambda label: "1.19" if label == "0.05" else None,
        "μ = 1: every sketch is sent after two windows.",
    )  # fmt: skip


def window(settings: Sizing) -> Report:
    """Window size."""
    return sweep(
        settings, "POSG: window N", "N",
        {str(n): (Stream(), {"window": n}) for n in (128, 256, 512, 1024, 2048)},
        lambda label: "1.19" if label == "1024" else None,
        "Smaller windows leave round robin sooner, with coarser sketches.",
    )  # fmt: skip
