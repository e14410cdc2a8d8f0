"""A join of two streams in which hot keys are split: rows of one side are divided, rows of the other are copied.

Of a split key, a row of its *split* side goes to one of the key's places, and a row of the other side to all of them.
So each pair of rows meets at exactly one worker. ``plan`` says who goes where, ``controller`` makes the plans.
"""
