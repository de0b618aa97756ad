"""Commands on how many replicas an endpoint has: scale it, hold its scaler, let it go again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from controller import wakeups
from foundation.errors import Conflict, FieldProblem, Invalid
from foundation.http.etag import Versions, check_version
from inference.autoscaling.checks import check_scaling
from inference.autoscaling.sizes import claim_size
from inference.models import Endpoint, EndpointRevision, RevisionCause
from inference.revisions.services import supersede_unfinished
from inference.scaling_spec import scaling_problems
from inference.specs import KIND, EndpointSpec
from teams.actors import Actor
from teams.audit import record_audit
from teams.permissions import check_can_submit, check_open
from workloads.models import Workload
from workloads.services import change_generation


def scale_endpoint(
    *,
    endpoint: Endpoint,
    min_replicas: int | None,
    max_replicas: int | None,
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> Endpoint:
    """Other bounds for the number of replicas, as a revision that leaves its pods alone.

    What it claims grows at once, or nothing changes and Conflict says what the quota lacks; it shrinks as pods go.
    """
    workload = endpoint.workload
    check_can_submit(actor.user, workload.team)
    check_open(workload.team)
    old = endpoint.parsed
    least = old.min_replicas if min_replicas is None else min_replicas
    most = old.max_replicas if max_replicas is None else max_replicas
    spec = replace(old, min_replicas=least, max_replicas=most)
    _check_bounds(spec)
    check_scaling(spec, workload.team, actor.user, known=old)
    with transaction.atomic():
        fresh = _locked(workload)
        check_version(expected=expected_versions, current=fresh.generation)
        endpoint.refresh_from_db(fields=["revision"])
        current = endpoint.current
        if current.parsed != old:
            raise Conflict(f"Somebody else has changed {workload.name} just now; look again.", code="changed")
        if (old.min_replicas, old.max_replicas) == (least, most):
            return endpoint
        claim_size(fresh, spec, now=now)
        endpoint.revision += 1
        endpoint.save(update_fields=["revision"])
        endpoint.bound_hold(spec)
        supersede_unfinished(endpoint)
        EndpointRevision.objects.create(
            endpoint=endpoint,
            number=endpoint.revision,
            spec=spec.to_json(),
            actor=actor.label,
            created_at=now,
            cause=RevisionCause.SCALE.value,
            pods_of=current.pods_of,
            strategy=current.strategy,
        )
        change_generation(fresh, now=now)
        before = {"min_replicas": old.min_replicas, "max_replicas": old.max_replicas}
        after = {"min_replicas": least, "max_replicas": most}
        _audit(fresh, "scaled", actor, now, before=before, after=after)
        wakeups.wake_workload(fresh, now=now)
    return endpoint


def _check_bounds(spec: EndpointSpec) -> None:
    faults = scaling_problems(
        spec.scaling.to_json() if spec.scaling else None,
        runtime=spec.runtime,
        minimum=spec.min_replicas,
        maximum=spec.max_replicas,
        to_zero=spec.scale_to_zero,
        has_gpus=spec.gpus_per_replica > 0,
    )
    problems = [FieldProblem(field=path, code=fault.code, message=fault.message) for path, fault in faults]
    if problems:
        raise Invalid.of_problems(problems)


def pause_scaler(*, endpoint: Endpoint, replicas: int | None, actor: Actor, now: datetime) -> None:
    """Hold the number of replicas, at `replicas` or at whatever it is; Conflict where nothing scales it.

    A bound that is set below `replicas` later lowers that to it.
    """
    _steer(endpoint, paused=True, replicas=replicas, action="scaler-paused", actor=actor, now=now)


def _check_hold(endpoint: Endpoint, replicas: int | None) -> None:
    spec = endpoint.parsed
    if not spec.scales:
        message = (
            f"{endpoint.workload.name} always runs {spec.min_replicas} replicas: there is no scaler to pause."
        )
        raise Conflict(message, code="no_scaler")
    if replicas is not None and not 1 <= replicas <= spec.max_replicas:
        message = f"Between 1 and max_replicas, which is {spec.max_replicas}. To free all its GPUs, stop it."
        raise Invalid.of_field("replicas", message, code="out_of_range")


def resume_scaler(*, endpoint: Endpoint, actor: Actor, now: datetime) -> None:
    """Leave the number of replicas to its scaler again; nothing changes where it is not paused."""
    _steer(endpoint, paused=False, replicas=None, action="scaler-resumed", actor=actor, now=now)


def _steer(
    endpoint: Endpoint, *, paused: bool, replicas: int | None, action: str, actor: Actor, now: datetime
) -> None:
    workload = endpoint.workload
    check_can_submit(actor.user, workload.team)
    if not paused:
        check_open(workload.team)
    with transaction.atomic():
        fresh = _locked(workload)
        endpoint.refresh_from_db(fields=["revision", "scaler_paused", "paused_replicas"])
        if paused:
            _check_hold(endpoint, replicas)
        before = {"paused": endpoint.scaler_paused, "replicas": endpoint.paused_replicas}
        after = {"paused": paused, "replicas": replicas}
        if before == after:
            return
        endpoint.scaler_paused, endpoint.paused_replicas = paused, replicas
        endpoint.save(update_fields=["scaler_paused", "paused_replicas"])
        # Where it is an autoscaler, which cannot be paused, it is taken away or made again.
        change_generation(fresh, now=now)
        _audit(fresh, action, actor, now, before=before, after=after)
        wakeups.wake_workload(fresh, now=now)


def _locked(workload: Workload) -> Workload:
    rows = Workload.objects.select_for_update(no_key=True, of=("self",)).select_related("team", "flavor")
    fresh = rows.get(pk=workload.pk)
    if fresh.is_final:
        raise Conflict(f"{fresh.name} has ended.", code="ended")
    return fresh


def _audit(
    workload: Workload,
    action: str,
    actor: Actor,
    now: datetime,
    *,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    record_audit(
        actor=actor,
        action=f"{KIND}.{action}",
        target_kind=KIND,
        target_id=str(workload.public_id),
        target_name=workload.name,
        team=workload.team,
        before=before,
        after=after,
        now=now,
    )
