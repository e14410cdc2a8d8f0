"""What quotas say, as dictionaries."""

from unskew.grouping.planned.counts import bucket_homes


def parts_of(quotas):
    """Key → the workers that have a part of its stretch at a source, in their order."""
    bounds = zip(quotas.keys.tolist(), quotas.firsts, quotas.firsts[1:], strict=False)
    return {key: quotas.workers[first:end].tolist() for key, first, end in bounds}


def goes_to(planner, counts, all_quotas):
    """Bucket, or key that is counted alone → all workers that it goes to; at home where there is no quota."""
    there = {}
    for own, quotas in zip(counts, all_quotas, strict=True):
        parts = parts_of(quotas)
        for key, home in zip(own.keys.tolist(), bucket_homes(planner._buckets(own.keys)).tolist(), strict=True):
            there.setdefault(key, set()).update(parts.get(key, [home]))
    return there
