"""Keyed works: what a worker remembers of each of its keys, and the results that it makes of this."""

from unskew.works.distinct import Distinct
from unskew.works.distinct_count import DistinctCount
from unskew.works.interface import Folded, KeyedWork, Now, Summary
from unskew.works.kll_quantiles import KllQuantiles
from unskew.works.latest import Enriched, Latest
from unskew.works.naive_bayes import NaiveBayes
from unskew.works.per_key import PerKey
from unskew.works.quantiles import Quantiles
from unskew.works.running import Running
from unskew.works.sessions import Sessions
from unskew.works.top_k import TopK

__all__ = [
    "Distinct",
    "DistinctCount",
    "Enriched",
    "Folded",
    "KeyedWork",
    "KllQuantiles",
    "Latest",
    "NaiveBayes",
    "Now",
    "PerKey",
    "Quantiles",
    "Running",
    "Sessions",
    "Summary",
    "TopK",
]

if __name__ != "unskew.works":  # a second copy of every module would come of it
    raise ImportError(f"{__name__} is imported as unskew.works")
