"""Workers that remember: states per key, where the grouping has put the key.

From the inside out: ``store`` is a map of blobs, ``buckets`` says which of them a key is in, ``table`` has the states
in them, ``calls`` calls the user's work, ``keeper`` lets states begin, change, meet and end; ``worker`` and ``home``
are what a group of Spark's ``transformWithState`` does in a batch, ``operators`` are those groups, ``plan`` is the
dataflow.
"""
