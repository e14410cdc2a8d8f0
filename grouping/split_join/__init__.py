"""A join of two streams that splits hot keys: rows of one side are divided, rows of the other copied.

A row of a split key's *split* side goes to one of the key's places (workers), and a row of the other side to all. So
each pair of rows meets at exactly one worker. ``plan`` has the routing table, ``controller`` makes the plans.
"""
