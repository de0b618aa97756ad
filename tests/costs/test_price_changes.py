"""No change of a price rewrites the past: random changes between random uses, on the ledger."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import count, pairwise

import pytest

from costs.ledger.services import record_usage, settle_due
from costs.models import LedgerEntry, Price
from costs.prices.preview import preview_price
from costs.prices.services import set_price
from foundation.errors import Conflict
from tests.effort import drawn, seeds
from tests.factories.catalogue import SETUP, make_flavor
from tests.factories.workloads import make_workload
from workloads.models import PodRecord

pytestmark = pytest.mark.django_db

T0 = datetime(2026, 10, 1, 12, tzinfo=UTC)
numbers = count(1)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


def price(micro, moment):
    values = {"card": "a100-40gb", "capacity_type": "on-demand", "micro_usd_per_card_hour": micro}
    return set_price(**values, valid_from=moment, reason="test", actor=SETUP, now=moment)


def posted():
    return {
        (entry.pk, entry.price_id, entry.started_at, entry.ended_at, entry.amount_micro_usd)
        for entry in LedgerEntry.objects.filter(account__startswith="team:")
    }


def as_previewed(micro, moment):
    """Set the price if the preview says that it can be; both agree on that."""
    values = {"card": "a100-40gb", "capacity_type": "on-demand", "micro_usd_per_card_hour": micro}
    found = preview_price(**values, valid_from=moment)
    if found.refused:
        with pytest.raises(Conflict) as refused:
            price(micro, moment)
        assert refused.value.errors == found.refused
    else:
        price(micro, moment)


@pytest.mark.parametrize("seed", seeds(usual=1, matrix=4, soak=300))
def test_what_is_posted_stays_and_what_comes_costs_the_price_of_its_own_time(seed):
    rng = random.Random(seed)
    flavor = make_flavor(fraction=rng.choice([Fraction(1), Fraction(2, 7), Fraction(1, 4)]))
    run = make_workload(flavor=flavor, units=2)
    price(rng.randint(1, 9_000_000), at(0))
    now, pods = 0, []
    for _ in range(drawn(usual=12, soak=40)):
        now += rng.randint(60, 20_000)
        before = posted()
        for _ in range(rng.randint(1, 3)):
            as_previewed(rng.randint(0, 9_000_000), at(now + rng.randint(-30_000, 30_000)))
        assert posted() == before, "a change of a price posts nothing and takes nothing back"
        if pods and rng.random() < 0.4:
            pod = pods.pop()
            pod.finished_at = at(now)
            pod.save()
            record_usage(pod, now=at(now))
        else:
            name = f"changing-{next(numbers)}"
            pod = PodRecord.objects.create(
                uid=name, namespace="ns", name=name, workload=run, attempt=1, resource_version="1", node_name="a100-0",
                created_at=at(now), scheduled_at=at(now), units=rng.randint(1, 2),
            )  # fmt: skip
            record_usage(pod, now=at(now))
            pods.append(pod)
        settle_due(now=at(now))
        assert before <= posted(), "no line that was there is another now"
    versions = {each.pk: each for each in Price.objects.all()}
    exact, charged = Fraction(0), 0
    ends = defaultdict(list)
    for entry in LedgerEntry.objects.filter(account__startswith="team:").order_by("id"):
        version = versions[entry.price_id]
        assert version.valid_from <= entry.started_at
        assert version.valid_until is None or entry.ended_at <= version.valid_until
        seconds = int((entry.ended_at - entry.started_at).total_seconds())
        exact += entry.units * flavor.gpu_fraction * seconds * version.micro_usd_per_card_hour / 3600
        charged += entry.amount_micro_usd
        ends[entry.pod_uid].append((entry.started_at, entry.ended_at))
    assert 0 <= exact - charged < 1
    for spans in ends.values():
        assert all(first[1] == second[0] for first, second in pairwise(spans))
