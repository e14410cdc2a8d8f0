"""The hash family in plain Python, for the oracles."""

import mmh3

MASK = (1 << 64) - 1


def key_hash(key):
    data = key if isinstance(key, bytes) else key.to_bytes(8, "little", signed=True) if isinstance(key, int) else key
    return mmh3.mmh3_x64_128_uintdigest(data if isinstance(data, bytes) else data.encode()) & MASK


def function(seed, index=0):
    return ((seed << 32) + index) & MASK


def mix(key, number):
    z = (key + 0x9E3779B97F4A7C15 * number) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def below(mixed, n):
    return (mixed >> 32) * n >> 32


def home(key, workers, seed=0):
    return below(mix(key_hash(key), function(seed)), workers)


def draw(key, count, workers, seed=0):
    return draw_by_hash(key_hash(key), count, workers, seed)


def draw_by_hash(digest, count, workers, seed=0):
    """Each hash function picks among the workers that those before it left; the first left takes the picked's place."""
    left = list(range(workers))
    drawn = []
    for i in range(min(count, workers)):
        j = i + below(mix(digest, function(seed, i)), workers - i)
        left[i], left[j] = left[j], left[i]
        drawn.append(left[i])
    return drawn
