"""W workers with first-in-first-out queues, event by event in plain Python."""

from collections import deque


def fifo(assigned, arrivals, services, workers):
    """When each tuple finishes."""
    free = [0.0] * workers
    finishes = []
    for worker, arrival, service in zip(assigned, arrivals, services, strict=True):
        free[worker] = max(free[worker], arrival) + service
        finishes.append(free[worker])
    return finishes


def waiting(assigned, arrivals, services, finishes, worker, now):
    """Tuples there by now that haven't begun by now."""
    there = [i for i, w in enumerate(assigned) if w == worker and arrivals[i] <= now and finishes[i] > now]
    return max(0, len(there) - 1)


def forwarding(codes, arrivals, service_of, route, owners_at, workers, changes):
    """(worker, finish) of each tuple and the number of forwardings, when ``changes`` are the times of new owners.

    ``owners_at(number of changes so far)`` is each key's owner then; ``route`` likewise for tuples on arrival.
    """
    queues = [deque() for _ in range(workers)]
    running = [None] * workers  # (end, tuple)
    done, forwarded = {}, 0
    events = sorted([(t, 1, i) for i, t in enumerate(arrivals)] + [(t, 2, -1) for t in changes])
    version = 0

    def begin(worker, now):
        nonlocal forwarded
        while queues[worker] and running[worker] is None:
            i = queues[worker].popleft()
            owner = owners_at(version)[codes[i]]
            if owner != worker:
                forwarded += 1
                queues[owner].append(i)
                if running[owner] is None:
                    begin(owner, now)
                continue
            running[worker] = (now + service_of(i, worker), i)

    while events or any(running):
        first_end = min((r[0], w) for w, r in enumerate(running) if r) if any(running) else (float("inf"), -1)
        if events and events[0][0] < first_end[0]:
            now, kind, i = events.pop(0)
            if kind == 2:
                version += 1
            else:
                worker = route(version)[codes[i]]
                queues[worker].append(i)
                begin(worker, now)
        else:
            now, worker = first_end
            done[running[worker][1]] = (worker, now)
            running[worker] = None
            begin(worker, now)
    return [done[i] for i in range(len(codes))], forwarded
