"""Counters of frequent keys in plain Python."""


def plain_counters(keys, room):
    """Misra-Gries: a counter for a new key; when there's no room, take the median off all and drop those at 0."""
    counters, counted, taken_off = {}, [], 0
    for key in keys:
        if key not in counters and len(counters) == room:
            median = sorted(counters.values())[room // 2]
            taken_off += median
            counters = {k: c - median for k, c in counters.items() if c > median}
        counters[key] = counters.get(key, 0) + 1
        counted.append(counters[key])
    return counters, counted, taken_off
