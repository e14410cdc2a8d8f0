"""Substitutes for what some Spark versions lack, and functions about micro-batches."""
