"""The topology of a run.

``dataflow`` puts together source, splitter, router and a stage of the workers (``counting`` or ``keyed``).
``aggregator`` and ``observer`` sum up closed windows, and ``sink`` publishes them.
"""
