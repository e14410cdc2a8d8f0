"""Lookups for ``balanced_lookup``."""

from unskew.apps.operators.lookup_sources import PostgresLookup, TableLookup

__all__ = ["PostgresLookup", "TableLookup"]
