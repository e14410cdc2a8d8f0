"""CONSISTENT_HASH in plain Python, straight from the paper's section 4.2."""

from bisect import bisect_left

from tests.grouping.plain_hashing import function, key_hash, mix


class PlainRing:
    def __init__(self, tokens, seed=0):
        self.seed = seed
        self.tokens = {node: [f"{node}-{j}" for j in range(count)] for node, count in enumerate(tokens)}

    def place(self, text):
        return mix(key_hash(text), function(self.seed))

    def key_lookup(self, key):
        ring = sorted((self.place(token), node) for node, tokens in self.tokens.items() for token in tokens)
        at = bisect_left(ring, (self.place(key), -1))
        return ring[at % len(ring)][1]

    def halve(self, node):
        kept = len(self.tokens[node]) - len(self.tokens[node]) // 2
        self.tokens[node] = self.tokens[node][:kept]

    def double(self, relieved):
        for node, tokens in self.tokens.items():
            if node != relieved:
                tokens += [f"{node}-{j}" for j in range(len(tokens), 2 * len(tokens))]
