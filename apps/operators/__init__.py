"""Keyed operators: user code with a state per key, and the ready-made ones."""

from unskew.apps.operators.distinct import Distinct
from unskew.apps.operators.distinct_count import DistinctCount
from unskew.apps.operators.histogram import Histogram
from unskew.apps.operators.interface import KeyedOperator, MergeableOperator, Now, Summary
from unskew.apps.operators.interval_join import IntervalJoin
from unskew.apps.operators.kll_quantiles import KllQuantiles
from unskew.apps.operators.latest import Enriched, Latest
from unskew.apps.operators.naive_bayes import NaiveBayes
from unskew.apps.operators.per_key import PerKey
from unskew.apps.operators.quantiles import Quantiles
from unskew.apps.operators.sessions import Sessions
from unskew.apps.operators.statistics import Statistics
from unskew.apps.operators.top_k import TopK

__all__ = [
    "Distinct",
    "DistinctCount",
    "Enriched",
    "Histogram",
    "IntervalJoin",
    "KeyedOperator",
    "KllQuantiles",
    "Latest",
    "MergeableOperator",
    "NaiveBayes",
    "Now",
    "PerKey",
    "Quantiles",
    "Sessions",
    "Statistics",
    "Summary",
    "TopK",
]
