"""The look at all cards once a minute, which writes idle holds and alerts; and changes of rules."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import QuerySet

from cluster.names import DEFAULT_CLUSTER
from foundation import leases
from foundation.errors import Invalid
from foundation.http.etag import Versions, check_version
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import Team
from telemetry import signals
from telemetry.gpu_queries import (
    PodLabels,
    memory_now,
    memory_percent,
    memory_total_now,
    temperature,
    utilization_over,
)
from telemetry.gpu_series import GpuCard, card_of
from telemetry.models import Alert, AlertRule, GpuLook, IdleHold
from telemetry.prometheus_reading import MeasuredValue, PrometheusReader, UnknownError
from telemetry.queries import row_of, rule_in_force, rules_in_force, version_of_rule
from telemetry.rules import IDLE, MEMORY, TEMPERATURE, GpuRule, milder_of
from workloads.kinds import kinds
from workloads.models import PodRecord, Workload

LOOK_SECONDS: Final = 20.0
"""All questions of one look together."""
KEPT: Final = timedelta(days=90)
"""How long an alert is kept that has closed."""
_FUNCTIONS: Final = {"highest": "max", "average": "avg", "lowest": "min"}


@dataclass(frozen=True, slots=True)
class _Found:
    """A card of a pod of ours of which a rule holds."""

    pod: PodRecord
    card: GpuCard
    value: float


def look_at_gpus(*, now: datetime) -> None:
    """Ask Prometheus about all cards and write what follows. What is not answered leaves the rows as they are."""
    rules = [rule for rule in rules_in_force() if rule.enabled]
    try:
        reader = PrometheusReader(budget_seconds=LOOK_SECONDS)
        by = reader.labels()
        answers = {rule.name: reader.now(_query(rule, by)) for rule in rules}
        memory = {
            name: _by_card(reader.now(query(by)), by)
            for name, query in (("used", memory_now), ("total", memory_total_now))
        }
    except UnknownError as error:
        with transaction.atomic():
            leases.check()
            _looked(now, unknown_because=str(error))
        return
    pods = _pods_there()
    found = {rule.name: list(_found(rule, answers[rule.name], by, pods)) for rule in rules}
    with transaction.atomic():
        leases.check()
        _looked(now)
        _write_holds(next((r for r in rules if r.name == IDLE), None), found.get(IDLE, []), memory, now)
        _write_alerts(rules, found, now)
        Alert.objects.filter(closed_at__lt=now - KEPT).delete()


def _query(rule: GpuRule, by: PodLabels) -> str:
    function, window = _FUNCTIONS[rule.measure], rule.window_seconds
    if rule.metric == MEMORY:
        return memory_percent(by, window_seconds=window, function=function)
    if rule.metric == TEMPERATURE:
        return temperature(by, window_seconds=window, function=function)
    return utilization_over(by, window_seconds=window, function=function)


def _pods_there() -> dict[tuple[str, str], PodRecord]:
    rows = PodRecord.objects.of(DEFAULT_CLUSTER).filter(gone_at=None, finished_at=None, units__gt=0)
    return {(pod.namespace, pod.name): pod for pod in rows.select_related("workload__team")}


def _found(
    rule: GpuRule,
    values: Iterable[MeasuredValue],
    by: PodLabels,
    pods: Mapping[tuple[str, str], PodRecord],
) -> Iterable[_Found]:
    for each in values:
        pod = pods.get((each.labels.get(by.namespace, ""), each.labels.get(by.pod, "")))
        if pod is None or not math.isfinite(each.value) or not rule.holds(each.value):
            continue
        if rule.is_about(kind=pod.workload.kind, team=pod.workload.team.slug):
            yield _Found(pod, card_of(each.labels, by), each.value)


def _by_card(values: Iterable[MeasuredValue], by: PodLabels) -> dict[tuple[str, GpuCard], float]:
    return {(each.labels.get(by.namespace, ""), card_of(each.labels, by)): each.value for each in values}


def _looked(now: datetime, *, unknown_because: str = "") -> None:
    answered = {} if unknown_because else {"answered_at": now}
    GpuLook.objects.update_or_create(
        pk=GpuLook.SINGLETON_PK,
        defaults={"looked_at": now, "unknown_because": unknown_because, **answered},
    )


def _write_holds(
    rule: GpuRule | None,
    found: Iterable[_Found],
    memory: Mapping[str, Mapping[tuple[str, GpuCard], float]],
    now: datetime,
) -> None:
    """Those that are still idle keep since when; the others go."""
    known = {(row.pod_id, row.gpu, row.slice, row.uuid): row for row in IdleHold.objects.all()}
    measured = Counter((namespace, card.pod) for namespace, card in memory["used"])
    kept = []
    for each in found if rule else ():
        key = (each.pod.pk, each.card.gpu, each.card.slice, each.card.uuid)
        began = now - timedelta(seconds=rule.window_seconds if rule else 0)
        row = known.get(key) or IdleHold(
            pod=each.pod,
            gpu=each.card.gpu,
            slice=each.card.slice,
            uuid=each.card.uuid,
            since=max(began, each.pod.started_at or began),
        )
        row.workload, row.team = each.pod.workload, each.pod.workload.team
        row.node = each.pod.node_name or each.card.node
        row.utilization, row.seen_at = each.value, now
        place = (each.pod.namespace, each.card)
        row.memory_used_mib = memory["used"].get(place)
        row.memory_total_mib = memory["total"].get(place)
        row.of_cards = measured[each.pod.namespace, each.pod.name]
        row.save()
        kept.append(row.pk)
    IdleHold.objects.exclude(pk__in=kept).delete()


def _write_alerts(rules: Iterable[GpuRule], found: Mapping[str, list[_Found]], now: datetime) -> None:
    by_workload: dict[int, dict[str, list[_Found]]] = defaultdict(lambda: defaultdict(list))
    workloads: dict[int, Workload] = {}
    for name, cards in found.items():
        for each in cards:
            workloads[each.pod.workload_id] = each.pod.workload
            by_workload[each.pod.workload_id][name].append(each)
    still = {(alert.rule, alert.workload_id): alert for alert in _open_alerts()}
    for key, by_rule in by_workload.items():
        silent = milder_of(by_rule)
        for rule in rules:
            if rule.name in by_rule and rule.name not in silent:
                _hold(rule, workloads[key], by_rule[rule.name], still.pop((rule.name, key), None), now)
    for alert in still.values():
        alert.closed_at = now
        alert.save(update_fields=["closed_at"])
        signals.alert_closed.send(sender=Alert, alert=alert)


def _open_alerts() -> QuerySet[Alert]:
    """With what is told of one that closes."""
    return Alert.objects.filter(closed_at=None).select_related("workload__team")


def _hold(rule: GpuRule, workload: Workload, cards: list[_Found], alert: Alert | None, now: datetime) -> None:
    values = [each.value for each in cards]
    worst = max(values) if rule.metric in {MEMORY, TEMPERATURE} else min(values)
    said = {
        "cards": len(cards),
        "value": worst,
        "threshold": rule.threshold,
        "message": rule.message(value=worst, cards=len(cards)),
        "seen_at": now,
    }
    if alert is not None:
        Alert.objects.filter(pk=alert.pk).update(**said)
        return
    opened = Alert.objects.create(
        rule=rule.name, workload=workload, team=workload.team, opened_at=now, **said
    )
    signals.alert_opened.send(sender=Alert, alert=opened)


@transaction.atomic
def change_rule(
    *,
    name: str,
    changes: Mapping[str, Any],
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> GpuRule:
    """The rule with `changes`, which name some of `rules.CHANGEABLE`.

    Raises Invalid for a team or a kind that is not there, PreconditionFailed for a rule of another version than is expected.
    """
    row = _locked_rule(name, now)
    rule = rule_in_force(name)
    check_version(expected=expected_versions, current=version_of_rule(rule))
    _check_scope(changes)
    before = {field: _plain(getattr(rule, field)) for field in changes}
    after = {field: _plain(value) for field, value in changes.items()}
    if before == after:
        return rule
    for field, value in after.items():
        setattr(row, field, value)
    row.updated_at = now
    row.save()
    record_audit(
        actor=actor,
        action="alert-rule.update",
        target_kind="alert-rule",
        target_id=name,
        target_name=name,
        before=before,
        after=after,
        now=now,
    )
    return rule_in_force(name)


def _locked_rule(name: str, now: datetime) -> AlertRule:
    """Its row, made where it was never changed: changes of one rule come one after the other."""
    made = row_of(rule_in_force(name))
    made.updated_at = now
    AlertRule.objects.bulk_create([made], ignore_conflicts=True)
    return AlertRule.objects.select_for_update(no_key=True).get(name=name)


def _check_scope(changes: Mapping[str, Any]) -> None:
    asked = set(changes.get("teams", ()))
    there = set(Team.objects.filter(slug__in=asked).values_list("slug", flat=True))
    if unknown := sorted(asked - there):
        raise Invalid.of_field("teams", f"There is no team {unknown[0]}.", code="unknown_team")
    names = {kind.name for kind in kinds()}
    if strange := sorted(set(changes.get("kinds", ())) - names):
        message = f"There is no kind {strange[0]}; there are: {', '.join(sorted(names))}."
        raise Invalid.of_field("kinds", message, code="unknown_kind")


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, (list, tuple)) else value
