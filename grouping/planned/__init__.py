"""Planned routing: batches are counted before routing, so balance is exact and keys keep their replicas."""

from unskew.grouping.planned.counts import SourceCounts
from unskew.grouping.planned.interface import BatchGrouping
from unskew.grouping.planned.planned import Planned
from unskew.grouping.planned.quotas import Quotas

__all__ = ["BatchGrouping", "Planned", "Quotas", "SourceCounts"]
