"""What a run should have asked for: the card says what the planted series say, and its draft asks for it."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

import pytest

from foundation import clock
from telemetry.models import GpuSummary
from telemetry.right_size import FlavorOption, UsedGpus, advise
from telemetry.summaries import write_summaries
from telemetry.tasks import look_at_all_gpus
from tests.factories.catalogue import make_flavor, make_price, make_quota
from tests.factories.teams import api_client
from tests.telemetry.gpu_bed import ENGINE, FREE, USED, UTIL
from tests.telemetry.test_waste import browser
from workloads.models import ResourceFlavor, Workload
from workloads.services import transition
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db


def ended(run, *, minutes_ago=5, ran=60):
    """The run has succeeded so many minutes ago, after it ran for so long."""
    end = clock.now().replace(microsecond=0) - timedelta(minutes=minutes_ago)
    Workload.objects.filter(pk=run.pk).update(started_at=end - timedelta(minutes=ran))
    run.refresh_from_db()
    transition(
        run, to=Phase.SUCCEEDED, reason=Reason.COMPLETED, message="", actor="tests", now=end, finished_at=end
    )
    run.pods.update(finished_at=end)
    return run


def card(user, run):
    return api_client(user).get(f"/api/v1/training-runs/{run.public_id}/right-size/").json()


def test_gpus_that_did_nothing_are_left_out_of_the_draft(world, cards):
    run, pod = world.run("wide", gpus=4, minutes=65)
    for gpu in range(4):
        cards.plant(pod, gpu=gpu, minutes=65, until=5, **({} if gpu == 0 else {UTIL: 0.0}))
    cards.serve()
    assert card(world.ana, run)["unknown_because"] == "It has not ended yet."
    ended(run)
    assert card(world.ana, run)["unknown_because"] == "Nothing is known of what its GPUs did."
    write_summaries(now=clock.now())
    said = card(world.ana, run)
    assert (said["changes"], said["confidence"]) == ({"gpus_per_replica": 1}, "high")
    assert said["message"] == "Only 1 of 4 GPUs did anything."
    assert said["saving"]["usd"] == "6.000000"
    assert said["average_utilization"] == 90.0
    assert said["peak_memory"] == 20_000 << 20
    assert api_client(world.oto).get(f"/api/v1/training-runs/{run.public_id}/right-size/").status_code == 404
    page = browser(world.ana).get(f"/runs/{run.public_id}/?tab=gpus").content.decode()
    assert "Only 1 of 4 GPUs did anything." in page
    assert f"/runs/new/?from={run.public_id}&amp;right_size=1" in page
    form = browser(world.ana).get(f"/runs/new/?from={run.public_id}&right_size=1").context["form"]
    assert str(form["gpus"].value()) == "1"
    plain = browser(world.ana).get(f"/runs/new/?from={run.public_id}").context["form"]
    assert str(plain["gpus"].value()) == "4"


def test_a_card_too_large_is_a_slice_of_the_same_card_the_next_time(world, cards):
    slices = make_flavor(
        "half", resource="nvidia.com/mig-3g.20gb", product=None, sharing="mig", fraction=Fraction(3, 7)
    )
    ResourceFlavor.objects.filter(pk=slices.pk).update(card=world.whole.card, memory_gib=20)
    make_quota(world.vision, slices, 8)
    run, pod = world.run("small", gpus=1, minutes=65)
    cards.plant(pod, minutes=65, until=5, **{UTIL: 30.0, USED: 9_000.0, FREE: 31_000.0})
    cards.serve()
    ended(run)
    write_summaries(now=clock.now())
    said = card(world.ana, run)
    assert (said["changes"], said["confidence"]) == ({"flavor": "half"}, "medium")
    assert said["saving"]["amount_micro_usd"] == 1_142_857
    form = browser(world.ana).get(f"/runs/new/?from={run.public_id}&right_size=1").context["form"]
    assert form["flavor"].value() == "half"


def test_a_slice_is_summed_up_by_its_engine_and_what_is_half_measured_is_less_sure(world, cards):
    make_price(world.slices.card, micro_usd=1_000_000)
    run, pod = world.run("sliced", gpus=1, flavor=world.slices, minutes=65)
    labels = {"GPU_I_ID": "3", "GPU_I_PROFILE": "1g.10gb"}
    cards.plant(pod, minutes=40, until=5, labels=labels, **{UTIL: None, ENGINE: 0.8})
    cards.serve()
    ended(run)
    write_summaries(now=clock.now())
    said = card(world.ana, run)
    assert (said["changes"], said["confidence"]) == ({}, "medium")
    assert said["message"].startswith("It used what it asked for: 80 % on average")


def test_what_prometheus_has_not_said_is_asked_again_and_what_it_does_not_know_is_not(world, cards, settings):
    run, _ = world.run("unknown", gpus=1, minutes=65)
    ended(run)
    settings.PROMETHEUS_URL = None
    write_summaries(now=clock.now())
    assert not GpuSummary.objects.exists()
    cards.serve()
    write_summaries(now=clock.now())
    assert GpuSummary.objects.get().cards == 0
    assert card(world.ana, run)["unknown_because"] == "Nothing is known of what its GPUs did."


WHOLE = FlavorOption(
    name="a100", card="a100", fraction=Fraction(1), memory_gib=40, rate_per_hour=Fraction(2_000_000)
)
PARTS = (
    FlavorOption(name="3g", card="a100", fraction=Fraction(3, 7), memory_gib=20, rate_per_hour=Fraction(900_000)),
    FlavorOption(name="1g", card="a100", fraction=Fraction(1, 7), memory_gib=5, rate_per_hour=Fraction(300_000)),
    FlavorOption(name="t4", card="t4", fraction=Fraction(1), memory_gib=16, rate_per_hour=Fraction(100_000)),
    FlavorOption(name="shared", card="a100", fraction=Fraction(1, 4), memory_gib=40, rate_per_hour=Fraction(1), shared=True),
)  # fmt: skip


@pytest.mark.parametrize(
    ("average", "memory_gib", "flavor"),
    [(5, 3, "1g"), (5, 5, "3g"), (20, 3, "3g"), (40, 3, None), (60, 3, None), (5, 17, None)],
)
def test_the_smallest_part_that_holds_its_memory_and_its_work(average, memory_gib, flavor):
    used = UsedGpus(
        units_each=1, pods=1, seconds=7200, used_each=1, average=average,
        peak_memory_mib=memory_gib * 1024, coverage=1.0,
    )  # fmt: skip
    assert advise(used, WHOLE, PARTS).changes.get("flavor") == flavor


def test_a_saving_is_rounded_once_however_long_the_run_was(world, cards):
    part = make_flavor(
        "half", resource="nvidia.com/mig-3g.20gb", product=None, sharing="mig", fraction=Fraction(3, 7)
    )
    ResourceFlavor.objects.filter(pk=part.pk).update(card=world.whole.card, memory_gib=20)
    make_quota(world.vision, part, 8)
    run, pod = world.run("small", gpus=1, minutes=425)
    cards.plant(pod, minutes=425, until=5, **{UTIL: 30.0, USED: 9_000.0, FREE: 31_000.0})
    cards.serve()
    ended(run, ran=420)
    write_summaries(now=clock.now())
    # Four sevenths of two dollars an hour for seven hours; an hour alone is $1.142857142…
    assert card(world.ana, run)["saving"]["amount_micro_usd"] == 8_000_000


@pytest.mark.django_db(transaction=True)
def test_the_look_of_every_minute_writes_them(world, cards):
    run, pod = world.run("wide", gpus=1, minutes=65)
    cards.plant(pod, minutes=65, until=5)
    cards.serve()
    ended(run)
    look_at_all_gpus.apply()
    assert GpuSummary.objects.get().workload_id == run.pk
