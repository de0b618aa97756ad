"""A queue in time: an event simulator of its own that asks `plan()` at every event and lets runs last as long as
they really do. It shares no code with the estimates.
"""

from __future__ import annotations

from dataclasses import replace

from policy.judge import plan
from policy.pool_snapshot import Block, Holder
from tests.quotas.pure_world import accounts_of, snapshot, waiter


class RealQueue:
    """`lasts(run)` says how many seconds a run really needs; never more than its time limit."""

    def __init__(self, limits, sizes, lasts, rules, teams=()):
        self.limits, self.sizes, self.lasts, self.rules = limits, sizes, lasts, rules
        self.use = {node.name: 0 for node in limits if node.nominal is not None}
        self.now = 0
        self.waiting = {}
        self.running = {}
        self.started = {}
        self.needs = {}
        self.evictions = []
        self.still = self._still(teams)

    def submit(self, run):
        self.waiting[run.id] = run
        self.needs.setdefault(run.id, min(self.lasts(run), run.seconds))

    def adopt(self, holder, since):
        """One that runs already when the story begins."""
        needs = min(self.lasts(holder), holder.ends_in)
        self.running[holder.id] = {
            "run": None, "holder": holder, "since": since, "ends": needs, "limit": holder.ends_in, "leaves": None,
        }  # fmt: skip

    def take_in(self, facts):
        """All who hold and all who wait in the snapshot."""
        for each in facts.holders:
            self.adopt(each, -each.age_seconds)
        for each in facts.waiters:
            self.submit(each)

    def run_out(self, now_epoch):
        """Until nothing is left that could end."""
        while True:
            self.step(now_epoch)
            if (time := self.next_time()) is None:
                return
            self.advance(time)

    def free(self):
        left = dict(self.sizes)
        for each in self.running.values():
            for node, units in each["holder"].placed:
                left[node] -= units
        return left

    def _still(self, teams):
        """What is the same at every event: it is asked for by the ten thousand."""
        return snapshot(
            self.limits,
            nodes=self.sizes,
            rules=self.rules,
            teams=[each for each in teams if each.slug in self.use],
        )

    def snapshot(self, now_epoch):
        holders = tuple(self._holder(each) for each in self.running.values())
        free = self.free()
        return replace(
            self.still, now=now_epoch + self.now, holders=holders, accounts=accounts_of(self.limits, holders),
            waiters=tuple(self.waiting.values()),
            teams=tuple(replace(each, use=each.use + self.use[each.slug]) for each in self.still.teams),
            blocks=tuple(Block(name, size, free[name]) for name, size in self.sizes.items()),
        )  # fmt: skip

    def _holder(self, each):
        age = self.now - each["since"]
        left = each["limit"] - self.now
        lost = each["holder"].lost_seconds + self.now if each["run"] is None else age
        return replace(
            each["holder"], age_seconds=age, lost_seconds=lost, ends_in=max(0, left),
            expected_in=max(0, left), leaving=each["leaves"] is not None,
        )  # fmt: skip

    def step(self, now_epoch):
        """A pass now; then on to the next time at which something ends. False when nothing will."""
        facts = self.snapshot(now_epoch)
        answer = plan(facts)
        for name in answer.admitted:
            self._start(self.waiting.pop(name))
        for name in answer.order:
            for victim in answer.verdicts[name].victims:
                self.evictions.append((self.now, victim, name))
                self.running[victim.id]["leaves"] = self.now + self.rules.grace_seconds
        return answer

    def _start(self, run):
        free = self.free()
        placed = []
        for _ in range(run.pods):
            node = min((name for name in free if free[name] >= run.units_each), key=lambda n: (free[n], n))
            free[node] -= run.units_each
            placed.append((node, run.units_each))
        self.started.setdefault(run.id, self.now)
        holder = Holder(
            run.id, run.team, run.owner, run.noun, run.units, run.units_each, run.priority, run.preemptible,
            0, 0, run.seconds, run.seconds, placed=tuple(placed),
        )  # fmt: skip
        self.running[run.id] = {
            "run": run, "holder": holder, "since": self.now, "ends": self.now + max(1, self.needs[run.id]),
            "limit": self.now + run.seconds, "leaves": None,
        }  # fmt: skip

    def next_time(self):
        """When something ends, leaves, or has had its minimum run time."""
        times = []
        for each in self.running.values():
            times.append(each["ends"] if each["leaves"] is None else min(each["ends"], each["leaves"]))
            mature = each["since"] + self.rules.minimum_run_seconds
            if each["holder"].preemptible and mature > self.now:
                times.append(mature)
        return min(times, default=None)

    def advance(self, time):
        for each in self.running.values():
            self.use[each["holder"].team] += each["holder"].units * (time - self.now)
        self.now = time
        for name, each in list(self.running.items()):
            if each["ends"] <= time:
                del self.running[name]
            elif each["leaves"] is not None and each["leaves"] <= time:
                del self.running[name]
                self._requeue(name, each)

    def _requeue(self, name, each):
        run = each["run"]
        if run is None:
            holder = each["holder"]
            run = waiter(
                name, holder.team, holder.units, holder.units // holder.units_each, owner=holder.owner,
                priority=holder.priority, preemptible=True, queued_at=0,
            )  # fmt: skip
        left = each["limit"] - self.now
        self.needs[name] = max(1, each["ends"] - self.now)
        if left > 0:
            self.waiting[name] = replace(run, seconds=left, expected_seconds=left)
