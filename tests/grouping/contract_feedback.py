"""The part of the contract with feedback: workers report, the controller plans, the sources adopt."""

import numpy as np

from tests.grouping.skewed import Stream, skewed
from unskew.grouping import encode_keys
from unskew.grouping.feedback import Plan

WORKERS = 10


def with_feedback(make):
    """Workers report, the controller plans, the sources adopt.

    All of them may be saved and go on elsewhere between any two steps, a plan may travel as bytes and be adopted again
    and again, and a source may lose its state where keys have one owner: nothing changes.
    """
    if make(WORKERS).controller() is not None:
        plain = World(make).run()
        assert RestartedWorld(make).run() == plain
        assert ReplayingWorld(make).run() == plain
        if make(WORKERS).migrates_keys:
            assert ForgetfulWorld(make).run() == plain


class World:
    """Two sources, their workers and the controller."""

    def __init__(self, make, workers=WORKERS):
        self.make, self.workers = make, workers
        self.sources = [make(workers).at_source(source) for source in range(2)]
        self.monitors = [self.sources[0].monitor() for _ in range(workers)]
        self.controller = self.sources[0].controller()
        self.answers, self.plans = [], []

    def run(self, stream=None, interval=500):
        stream = skewed(8000) if stream is None else stream
        for start in range(0, len(stream), interval):
            queues = self.route(stream.part(start, start + interval))
            self.step()
            reports, of_sources = _reports(self.monitors), _reports(self.sources)
            self.step()
            plan = self.controller.plan(reports, queues, of_sources)
            self.step()
            if plan is not None:
                self.plans.append(plan)
                self.adopt(plan)
            self.step()
        return self.answers, [plan.save() for plan in self.plans], [each.save() for each in self.sources]

    def route(self, part):
        queues = np.zeros(self.workers)
        for number in range(len(self.sources)):
            share = Stream(part.keys[number::2], part.times[number::2], part.costs[number::2])
            chosen = self.sources[number].route(share.keys, times=share.times, costs=share.costs)
            assert 0 <= chosen.min() <= chosen.max() < self.workers
            self.answers += chosen.tolist()
            queues += np.bincount(chosen, minlength=self.workers)
            self.step()
            for worker in set(chosen.tolist()) if self.monitors[0] else ():
                mine = chosen == worker
                self.monitors[worker].observe(encode_keys(np.array(share.keys)[mine]), share.costs[mine])
        return queues

    def adopt(self, plan):
        for source in self.sources:
            assert source.adopt(plan)

    def step(self):
        """What happens between two steps."""


class RestartedWorld(World):
    """Routers, monitors and controller are new between any two steps, and load what their predecessors saved."""

    def step(self):
        self.sources = [_copy(old, self.make(WORKERS).at_source(n)) for n, old in enumerate(self.sources)]
        self.monitors = [old and _copy(old, self.make(WORKERS).monitor()) for old in self.monitors]
        self.controller = _copy(self.controller, self.make(WORKERS).controller())


class ReplayingWorld(World):
    """Between any two steps the newest plan, and the one before it, are adopted once more."""

    def adopt(self, plan):
        super().adopt(Plan.read(plan.save()))

    def step(self):
        for plan in self.plans[:-3:-1]:
            for source in self.sources:
                if source.plan:
                    before = source.save()
                    assert not source.adopt(Plan.read(plan.save()))
                    assert source.save() == before


class ForgetfulWorld(World):
    """Between any two steps one of the sources has lost its state, and has nothing but the newest plan."""

    turn = 0

    def step(self):
        self.turn += 1
        lost = self.make(WORKERS).at_source(self.turn % 2)
        if self.plans:
            assert lost.adopt(self.plans[-1])
        self.sources[self.turn % 2] = lost


def _reports(reporters):
    return {number: report for number, one in enumerate(reporters) if one and (report := one.report()) is not None}


def _copy(stateful, new):
    new.load(stateful.save())
    return new
