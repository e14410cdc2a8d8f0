"""Beside the engines that people would pick instead: the same topic, the same result, on one machine.

``python -m evidence.engines`` has the contestants (``contestants``) do the jobs (``jobs``), each in an environment of
its own (``environments``), and holds what they write to a plain count of the topic. Each engine's folder has its
program.
"""
