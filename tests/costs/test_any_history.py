"""Whatever was observed, however late, often, mixed up or never: the ledger is what a plain sum over every second says.

The sum is written here, second by second, and shares nothing with the portal but the facts that both are told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import accumulate
from random import Random

import pytest
from django.db import connection, transaction

from costs.ledger import check, idle, lost_work
from costs.ledger.services import record_usages, settle_due
from costs.models import IdleSpan, LedgerEntry, LostWork, PricedCard, SupplyMark
from costs.prices.services import set_price
from tests.effort import drawn, seeds
from tests.factories.catalogue import SETUP, make_flavor
from tests.factories.workloads import make_workload
from workloads.models import Attempt, NodeInterval, PodRecord, WatchCursor
from workloads.observations import PodSeen, mark_pods_missing, record_pods

pytestmark = pytest.mark.django_db

T0 = datetime(2026, 10, 1, 20, 17, tzinfo=UTC)
HOURS = 10
END = HOURS * 3600
EVENTS_OF_A_WORLD = drawn(usual=400, soak=10_000)
GPU = "nvidia.com/gpu"
UNPRICED_AT_FIRST = "shared"
"""The card that gets its first price while pods run on it."""


def at(second):
    return T0 + timedelta(seconds=second)


def balance():
    """What a commit asks, in a test that is one transaction: asked at its end of all lines at once, it would take minutes."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def text(second):
    return at(second).isoformat().replace("+00:00", "Z")


@dataclass
class Pod:
    """What is true of a pod, and what the portal was told of its end."""

    uid: str
    lane: str
    node: str
    workload: object
    attempt: int
    units: int
    start: int
    ran: int
    end: int
    deleted: int | None
    told_end: int | None = None
    told_deletion: int | None = None
    missed: int | None = None
    seen: int | None = None

    @property
    def last(self):
        """The second before which its interval ends, by what was told; None: it runs on."""
        if self.told_end is not None:
            return self.told_end
        if self.missed is None:
            return None
        return self.missed if self.told_deletion is None else min(self.missed, self.told_deletion)

    @property
    def sure(self):
        """Until when the team pays."""
        if self.told_end is not None or self.missed is None:
            return self.last
        if self.told_deletion is not None and self.told_deletion <= self.missed:
            return self.last
        return min(self.last, max(self.start, self.seen))

    def manifest(self, version, state):
        """Of one of its states: 0 scheduled, 1 running, 2 asked to leave, 3 ended."""
        metadata = {
            "uid": self.uid, "name": self.uid, "namespace": "ns", "resourceVersion": str(version),
            "creationTimestamp": text(self.start - 1), "labels": {"mlportal.dev/attempt": str(self.attempt)},
        }  # fmt: skip
        if state >= 2 and self.deleted is not None:
            metadata["deletionTimestamp"] = text(self.deleted)
        container = {"name": "main"}
        if state in {1, 2}:
            container["state"] = {"running": {"startedAt": text(self.ran)}}
        if state == 3:
            container["state"] = {
                "terminated": {"startedAt": text(self.ran), "finishedAt": text(self.end), "exitCode": 0}
            }
        return {
            "metadata": metadata,
            "spec": {
                "nodeName": self.node,
                "containers": [{"name": "main", "resources": {"limits": {GPU: str(self.units)}}}],
            },
            "status": {
                "phase": ("Pending", "Running", "Running", "Succeeded")[state],
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": text(self.start)}
                ],
                "containerStatuses": [container] if state else [],
            },
        }


@dataclass
class World:
    seed: int
    random: Random = field(init=False)
    events: int = 0

    def __post_init__(self):
        self.random = Random(self.seed)
        self.fractions = {"whole": Fraction(1), "sliced": Fraction(1, 7), "shared": Fraction(1, 4)}
        self.prices = {lane: [] for lane in self.fractions}
        self.nodes = []
        self.pods = []
        self.actions = []
        self.down = self.down_times()
        self.runs = {}
        for lane, fraction in self.fractions.items():
            flavor = make_flavor(lane, fraction=fraction)
            self.runs[lane] = [make_workload(flavor=flavor, units=1) for _ in range(4)]
            if lane != UNPRICED_AT_FIRST:
                self.price(lane, -3600)

    def down_times(self):
        starts = sorted(self.random.sample(range(3600, END - 7200, 600), 3))
        return [(start, start + self.random.randrange(120, 1500)) for start in starts]

    def up(self, second):
        """The first second from then on in which the portal runs."""
        for start, end in self.down:
            if start <= second < end:
                second = end
        return second

    def price(self, lane, second):
        amount = self.random.randrange(1_000_000, 9_000_000)
        set_price(
            card=lane, capacity_type="on-demand", micro_usd_per_card_hour=amount, valid_from=at(second),
            reason="test", actor=SETUP, now=at(second),
        )  # fmt: skip
        self.prices[lane].append((second, amount))

    def price_at(self, lane, second):
        return [0, *(amount for start, amount in self.prices[lane] if start <= second)][-1]

    def prices_until(self, lane):
        """For every second the sum of the prices of those before it."""
        return list(accumulate((self.price_at(lane, second) for second in range(END)), initial=0))

    # --- what is to happen

    def plan(self):
        for lane, fraction in self.fractions.items():
            for number in range(3):
                self.plan_node(lane, fraction, f"{lane}-{number}")
        for second in range(600, END, 1800):
            self.actions.append((self.up(second), 3, lambda now: settle_due(now=at(now))))
        for second in range(900, END, 1500):
            self.actions.append((self.up(second), 3, lambda now: idle.sweep(now=at(now))))
        for lane in self.fractions:
            for second in self.random.sample(range(3600, END), 2):
                self.actions.append((self.up(second), 4, lambda now, lane=lane: self.price(lane, now + 30)))
        self.actions.append((self.up(2700), 4, lambda now: self.price(UNPRICED_AT_FIRST, now)))
        while self.events < EVENTS_OF_A_WORLD:
            self.plan_pod()
        for start, end in self.down:
            self.actions.append((end, 0, lambda now, start=start: self.miss(start, now)))

    def plan_node(self, lane, fraction, name):
        cards, second = self.random.choice([2, 4]), self.random.randrange(1200)
        while second < END:
            until = min(END, second + self.random.randrange(1800, 4 * 3600))
            units = int(cards / fraction)
            offered = fraction * self.random.choice([units, units, units - 1])
            certain = self.random.random() < 0.9
            self.nodes.append((lane, name, cards, offered, certain, second, until))
            values = {
                "node_uid": f"{name} since {second}", "node_name": name, "card": lane, "capacity_type": "on-demand", "cards": cards,
                "offered_numerator": offered.numerator, "offered_denominator": offered.denominator,
                "certain": certain, "started_at": at(second),
            }  # fmt: skip
            heard = self.up(second + self.random.choice([0, 0, 0, 5000]))
            ended = self.up(until + self.random.choice([0, 0, 3000]))
            if heard < ended:
                self.actions.append(
                    (heard, 1, lambda _, values=values: NodeInterval.objects.create(**values))
                )
                self.actions.append(
                    (ended, 0, lambda _, values=values, until=until: self.end_node(values, until))
                )
            else:
                late = values | {"ended_at": at(until)}
                self.actions.append((heard, 1, lambda _, values=late: NodeInterval.objects.create(**values)))
            # Another node of the same name, of which may be heard before the end of this one.
            second = until + self.random.choice([0, 0, 600])

    def end_node(self, values, until):
        NodeInterval.objects.filter(node_uid=values["node_uid"]).update(ended_at=at(until))

    def plan_pod(self):
        lane = self.random.choice(list(self.fractions))
        start = self.random.randrange(END - 600)
        ran = start + self.random.randrange(60)
        end = min(END - 1, ran + self.random.choice([5, 60, 900, 5400, 9000]) + self.random.randrange(300))
        preempted = self.random.random() < 0.3
        number = len(self.pods) + 1
        pod = Pod(
            f"pod-{self.seed}-{number}", lane, f"{lane}-{self.random.randrange(3)}",
            self.random.choice(self.runs[lane]), number, self.random.choice([1, 1, 2]), start, ran, max(end, ran),
            max(ran, end - self.random.randrange(1, 40)) if preempted else None,
        )  # fmt: skip
        self.pods.append(pod)
        states = [(start, 0), (ran, 1), (pod.end, 3)]
        if pod.deleted is not None:
            states.append((pod.deleted, 2))
        lost = any(first <= pod.end < last for first, last in self.down)
        for moment, state in sorted(states):
            if any(first <= moment < last for first, last in self.down) and (lost or state != 3):
                continue
            for _ in range(self.random.choice([1, 2, 2, 3])):
                late = self.random.choice([0, 0, 1, 30, 400, 5000])
                self.deliver(pod, moment + late, state, moment)
        if not lost and self.random.random() < 0.7:
            self.deliver(pod, pod.end + self.random.choice([1, 20, 2000]), 3, pod.end, gone=True)

    def deliver(self, pod, second, state, moment, *, gone=False):
        self.events += 1
        second = self.up(second)
        # The portal's clock is not the cluster's.
        self.actions.append((second, 2, (pod, state, 10 + moment * 4 + state + gone, gone)))

    # --- what happens

    def run(self):
        self.plan()
        heard = []
        for second, _, action in sorted(self.actions, key=lambda each: each[:2]):
            if callable(action):
                self.hear(heard)
                WatchCursor.objects.update_or_create(kind="Pod", defaults={"seen_at": at(second)})
                action(second)
                balance()
                continue
            heard.append((second, action))
            if len(heard) == 300:
                self.hear(heard)
        self.hear(heard)

    def hear(self, heard):
        """Tell the portal, in as few batches as may be: each pod stands once in one."""
        batches = defaultdict(list)
        times = Counter()
        for second, action in heard:
            times[action[0].uid] += 1
            batches[times[action[0].uid], action[3]].append((second, action))
        if heard:
            WatchCursor.objects.update_or_create(kind="Pod", defaults={"seen_at": at(heard[-1][0])})
        for batch in batches.values():
            self.tell(batch, heard[-1][0])
        heard.clear()

    def tell(self, batch, now):
        seen = [PodSeen(pod.manifest(version, state), pod.workload) for _, (pod, state, version, _) in batch]
        skew = timedelta(milliseconds=self.random.randrange(1000))
        gone = batch[0][1][3]
        with transaction.atomic():
            record_usages(record_pods(seen, cluster="default", now=at(now) + skew, gone=gone), now=at(now))
        for _, (pod, state, _, _) in batch:
            if state == 3:
                pod.told_end = pod.end
            if state >= 2 and pod.deleted is not None:
                pod.told_deletion = pod.deleted
            if gone and pod.missed is None:
                pod.missed, pod.seen = now, now
        balance()

    def miss(self, seen, now):
        """The portal comes back: what it last saw running and the cluster does not have any more is missed."""
        WatchCursor.objects.update_or_create(kind="Pod", defaults={"seen_at": at(seen)})
        lost = {pod.uid: pod for pod in self.pods if seen <= pod.end < now and pod.missed is None}
        rows = PodRecord.objects.filter(uid__in=lost, gone_at__isnull=True).select_related("workload__flavor")
        with transaction.atomic():
            gone = mark_pods_missing(list(rows), as_of=str(10 + now * 4), now=at(now))
            record_usages(gone, now=at(now))
        for row in gone:
            lost[row.uid].missed, lost[row.uid].seen = now, seen

    def close(self):
        """All that is still under way is told, settled and counted; then nothing more comes."""
        later = END + 2 * 86_400
        left = [pod for pod in self.pods if pod.last is None]
        self.hear([(later, (pod, 3, 10 + END * 4 + 9, False)) for pod in left])
        settle_due(now=at(later))
        balance()
        self.preempt()
        for second in range(4):
            idle.sweep(now=at(later + second))
        lost_work.credit_due(now=at(later))
        balance()

    def preempt(self):
        """Every tenth pod was an attempt that lost all since it ran."""
        self.attempts = {}
        for pod in self.pods[::10]:
            attempt = Attempt.objects.create(
                workload=pod.workload, number=pod.attempt, object_name="x", phase="Failed", reason="Preempted",
                lost_seconds=max(0, pod.end - pod.ran), created_at=at(pod.start), started_at=at(pod.ran),
                ended_at=at(pod.end),
            )  # fmt: skip
            lost_work.note(attempt)
            self.attempts[attempt.pk] = pod

    # --- the plain sum

    def per_second(self, lane):
        """For every node and second the parts of cards, in 28ths: held, offered, there, and whether anybody watched."""
        held = {f"{lane}-{number}": [0] * END for number in range(3)}
        there = {name: [(0, 0, True)] * END for name in held}
        for pod in self.pods:
            if pod.lane == lane and self.known(pod):
                part = int(pod.units * self.fractions[lane] * 28)
                seconds = held[pod.node]
                for second in range(pod.start, min(END, pod.last)):
                    seconds[second] += part
        for of, name, cards, offered, certain, start, end in self.nodes:
            if of == lane:
                there[name][start:end] = [(int(offered * 28), cards * 28, certain)] * (end - start)
        return held, there

    def known(self, pod):
        return pod.last is not None and pod.uid in self.recorded


def whole_sum(world, lane):
    """Micro-USD x 28 x 3600 of each kind, in each clock hour of each node, and of the nodes."""
    held, there = world.per_second(lane)
    began = min(start for *_, start, _ in world.nodes)
    kinds, nodes = Counter(), 0
    prices = [world.price_at(lane, second) for second in range(END)]
    hours = [at(second).replace(minute=0, second=0) for second in range(END)]
    for name in held:
        for second in range(began, END):
            offered, cards, certain = there[name][second]
            use, price, hour = held[name][second], prices[second], hours[second]
            nodes += cards * price
            if cards or use:
                kinds[name, hour, "idle" if certain else "uncertain"] += max(0, offered - use) * price
                kinds[name, hour, "stranded" if certain else "uncertain"] += (
                    max(0, cards - max(offered, use)) * price
                )
                kinds[name, hour, "overheld"] += max(0, use - cards) * price
    return +kinds, nodes


def amounts_by_pod():
    """By UID: seconds x units x price of its lines, and what each sort of account paid."""
    weights, payers, lines = Counter(), defaultdict(Counter), Counter()
    for entry in LedgerEntry.objects.exclude(pod_uid="").select_related("price"):
        sort = entry.account.partition(":")[0]
        payers[entry.pod_uid][sort] += entry.amount_micro_usd
        lines[entry.pod_uid] += 1
        if sort == "supply":
            sign = 1 if entry.amount_micro_usd < 0 else -1
            seconds = int((entry.ended_at - entry.started_at).total_seconds())
            weights[entry.pod_uid] += sign * seconds * entry.units * entry.price.micro_usd_per_card_hour
    return weights, payers, lines


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", seeds(usual=1, matrix=3, soak=100))
def test_the_ledger_is_the_sum_over_every_second(seed):
    world = World(seed)
    world.run()
    world.recorded = set(PodRecord.objects.values_list("uid", flat=True))
    world.close()
    world.recorded = set(PodRecord.objects.values_list("uid", flat=True))
    assert not SupplyMark.objects.exists()
    weights, payers, lines = amounts_by_pod()
    until = {lane: world.prices_until(lane) for lane in world.fractions}
    for pod in world.pods:
        if not world.known(pod):
            assert weights[pod.uid] == 0
            continue
        prices = until[pod.lane]
        assert weights[pod.uid] == pod.units * (prices[pod.last] - prices[pod.start]), pod
        # Who pays for which second: each line rounds once.
        paid = prices[max(pod.start, pod.sure)] - prices[pod.start]
        sure = pod.units * world.fractions[pod.lane] * paid / 3600
        assert abs(payers[pod.uid]["team"] - sure) <= lines[pod.uid], pod
    for lane in world.fractions:
        kinds, nodes = whole_sum(world, lane)
        spans = Counter()
        for row in IdleSpan.objects.filter(priced__card=lane).select_related("price"):
            hour = row.started_at.replace(minute=0, second=0)
            spans[row.node_name, hour, row.kind] += row.card_seconds * row.price.micro_usd_per_card_hour * 28
        assert spans == kinds
        posted = LedgerEntry.objects.filter(price__priced__card=lane).exclude(account__startswith="supply:")
        before = sum_before(world, lane)
        total = sum(posted.values_list("amount_micro_usd", flat=True))
        assert total + PricedCard.objects.get(card=lane).carry == Fraction(nodes, 28 * 3600) + before
    check_credits(world)
    assert check.check_all(now=at(END + 3 * 86_400)) == []


def sum_before(world, lane):
    """What pods held before the history of nodes began."""
    began = min(start for *_, start, _ in world.nodes)
    total = Fraction(0)
    for pod in world.pods:
        if pod.lane == lane and world.known(pod):
            seconds = range(pod.start, min(began, pod.last))
            total += (
                pod.units * world.fractions[lane] * sum(world.price_at(lane, second) for second in seconds)
            )
    return total / 3600


def check_credits(world):
    """Lost work is what the team paid for in the last seconds, an hour at the most."""
    credited = 0
    for work in LostWork.objects.filter(attempt__in=world.attempts):
        pod = world.attempts[work.attempt_id]
        if not world.known(pod):
            continue
        first = max(pod.start, pod.ran, pod.end - 3600)
        seconds = range(first, min(pod.end, pod.sure))
        exact = (
            pod.units
            * world.fractions[pod.lane]
            * sum(world.price_at(pod.lane, each) for each in seconds)
            / 3600
        )
        assert abs(work.credited_micro_usd - exact) < 4, pod
        credited += work.credited_micro_usd
    posted = LedgerEntry.objects.filter(account__startswith="lost:").values_list(
        "amount_micro_usd", flat=True
    )
    assert credited == sum(posted)
    assert credited
