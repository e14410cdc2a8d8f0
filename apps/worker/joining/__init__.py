"""The worker of a join of two streams: it keeps both sides' rows by key and time, and finds the pairs.

``row_table`` keeps the rows of a side, ``worker`` executes a batch, ``operator`` is Spark's.
"""
