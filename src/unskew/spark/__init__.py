"""Substitutes for what some versions of Spark lack, and what all rooms need to know of a micro-batch."""
