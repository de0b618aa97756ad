"""What the tables of alerts and idle holds may hold is kept by the database itself."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from foundation import clock
from telemetry.models import Alert, AlertRule, GpuLook, GpuSummary, IdleHold

pytestmark = pytest.mark.django_db


def breaks(name, change):
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        change()


def alert(run, **values):
    now = clock.now()
    usual = {"rule": "idle", "cards": 1, "value": 0, "threshold": 10, "message": "", "opened_at": now}
    return Alert.objects.create(workload=run, team=run.team, seen_at=now, **(usual | values))


def test_a_rule_has_one_open_alert_of_a_workload_and_any_number_that_have_closed(world):
    run, _ = world.run("one")
    alert(run)
    alert(run, rule="hot")
    alert(run, closed_at=clock.now())
    alert(run, closed_at=clock.now())
    breaks("alert_one_open", lambda: alert(run))
    breaks("alert_one_open", lambda: Alert.objects.update(closed_at=None))


def test_a_card_of_a_pod_is_held_idle_once(world):
    _, pod = world.run("one")
    now = clock.now()
    card = {"pod": pod, "gpu": "0", "slice": "", "uuid": "GPU-1", "workload": pod.workload}
    card |= {"team": world.vision, "utilization": 0, "since": now, "seen_at": now}
    IdleHold.objects.create(**card)
    IdleHold.objects.create(**card | {"gpu": "1"})
    breaks("idle_hold_of_card", lambda: IdleHold.objects.create(**card))
    breaks("idle_hold_of_card", lambda: IdleHold.objects.update(gpu="0"))


def test_there_is_one_last_look(world):
    GpuLook.objects.create(looked_at=clock.now())
    breaks("gpu_look_single_row", lambda: GpuLook.objects.create(pk=2, looked_at=clock.now()))


def test_a_rule_is_changed_in_one_row(world):
    values = {"name": "hot", "threshold": 80, "window_minutes": 5, "updated_at": clock.now()}
    AlertRule.objects.create(**values)
    breaks("name", lambda: AlertRule.objects.create(**values))
    breaks("window_minutes_check", lambda: AlertRule.objects.update(window_minutes=-1))


@pytest.mark.parametrize("column", ["seconds", "cards", "used_each"])
def test_what_is_counted_in_a_summary_is_not_negative(world, column):
    run, _ = world.run("one")
    values = {"seconds": 1, "cards": 1, "used_each": 1}
    usual = {"written_at": clock.now(), "average_utilization": 0, "peak_memory_mib": 0, "coverage": 1}
    breaks(
        f"{column}_check",
        lambda: GpuSummary.objects.create(workload=run, **usual, **(values | {column: -1})),
    )


def test_a_workload_has_one_summary(world):
    run, _ = world.run("one")
    values = {"written_at": clock.now(), "average_utilization": 0, "peak_memory_mib": 0, "coverage": 1}
    values |= {"seconds": 1, "cards": 1, "used_each": 1}
    GpuSummary.objects.create(workload=run, **values)
    breaks("gpusummary_pkey", lambda: GpuSummary.objects.bulk_create([GpuSummary(workload=run, **values)]))
