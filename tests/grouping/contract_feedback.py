"""The part of the contract with feedback: workers report, the controller plans, the sources adopt."""

import numpy as np

from tests.grouping.skewed import Stream, skewed
from unskew.grouping import encode


def with_feedback(make):
    """Workers report, the controller plans, the sources adopt; and all three can be saved in between and go on."""
    if make(10).controller() is not None:
        assert _fed_back(make, restarts=False) == _fed_back(make, restarts=True)


def _fed_back(make, *, restarts, interval=500):
    stream = skewed(8000)
    sources = [make(10).at_source(source) for source in range(2)]
    monitors = [sources[0].monitor() for _ in range(10)]
    controller = sources[0].controller()
    answers = []
    for start in range(0, len(stream), interval):
        part = stream.part(start, start + interval)
        queues = np.zeros(10)
        for number, source in enumerate(sources):
            share = Stream(part.keys[number::2], part.times[number::2], part.costs[number::2])
            chosen = source.route(share.keys, times=share.times, costs=share.costs)
            assert 0 <= chosen.min() <= chosen.max() < 10
            answers += chosen.tolist()
            queues += np.bincount(chosen, minlength=10)
            for worker in set(chosen.tolist()) if monitors[0] else ():
                mine = chosen == worker
                monitors[worker].observe(encode(np.array(share.keys)[mine]), share.costs[mine])
        plan = controller.plan(_reports(monitors), queues, _reports(sources))
        if plan is not None:
            for source in sources:
                source.adopt(plan)
        if restarts:
            sources = [_copy(source, make(10).at_source(n)) for n, source in enumerate(sources)]
            monitors = [monitor and _copy(monitor, make(10).monitor()) for monitor in monitors]
            controller = _copy(controller, make(10).controller())
    return answers, [source.save() for source in sources], controller.save()


def _reports(reporters):
    return {number: report for number, one in enumerate(reporters) if one and (report := one.report()) is not None}


def _copy(stateful, new):
    new.load(stateful.save())
    return new
