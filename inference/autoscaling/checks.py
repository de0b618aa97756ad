"""What only this platform can say about a request to scale: which scalers it has, and what Prometheus answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from django.conf import settings

from controller.hints import Hint
from foundation.errors import FieldProblem, Invalid
from foundation.http import rates
from foundation.models import PlatformSettings
from inference.autoscaling.platform import border_of, engine, prometheus_url
from inference.autoscaling.scalers import AUTOSCALER, KEDA, needs_prometheus
from inference.enforced_query import QueryRefusedError, enforced
from inference.promql import guessed_type
from inference.specs import EndpointSpec
from teams.models import Team, User
from telemetry.metric_queries import QueryAnswer, try_query
from workloads.models import ResourceFlavor
from workloads.placement import Sharing


def check_scaling(
    spec: EndpointSpec, team: Team, user: User | None, *, known: EndpointSpec | None = None
) -> str:
    """Why a query could not be tried; nothing where it was, or where there is none. Raises Invalid, naming the field, for what
    cannot be scaled here, RateLimited where `user` tries too many queries.

    A query is asked of Prometheus as it would run, held to the namespace of the team, so not inside a transaction;
    `known` is the spec that runs, whose query is not asked again.
    """
    if not spec.scales or spec.scaling is None:
        return ""
    problems, doubt = list(_engine_problems(spec)), ""
    if not problems and spec.scaling.query and (known is None or known.scaling != spec.scaling):
        if user is not None:
            rates.check(rates.Kind.EXPENSIVE, f"user:{user.pk}")
        answer = _tried(spec, team)
        doubt = answer.doubt
        if answer.fault:
            problems.append(FieldProblem(field="scaling.query", code=answer.code, message=answer.fault))
    if problems:
        raise Invalid.of_problems(problems)
    return doubt


def _engine_problems(spec: EndpointSpec) -> Iterator[FieldProblem]:
    if spec.scaling is None or engine() != AUTOSCALER:
        return
    named = KEDA in PlatformSettings.current().optional_kinds
    why = "the cluster does not serve it" if named else "the setting optional_kinds does not name it"
    if not spec.scaling.row.by_autoscaler:
        message = (
            f"Scaling by {spec.scaling.trigger} needs KEDA, which is not offered here: {why}. The cluster's own "
            "autoscaler scales by cpu alone."
        )
        yield FieldProblem(field="scaling.trigger", code="needs_keda", message=message)
    if spec.scale_to_zero:
        message = (
            f"Scaling to zero needs KEDA, which is not offered here: {why}. The cluster's own autoscaler keeps at "
            "least one replica."
        )
        yield FieldProblem(field="scale_to_zero", code="needs_keda", message=message)


def _tried(spec: EndpointSpec, team: Team) -> QueryAnswer:
    written = (spec.scaling and spec.scaling.query) or ""
    try:
        query = enforced(written, border_of(team.namespace_name))
    except QueryRefusedError as error:
        return QueryAnswer(code="bad_query", fault=f"This query is refused: {error}")
    answer = try_query(settings.PROMETHEUS_URL or "", query)
    if answer.code == "no_series":
        seen = f" It sees series of namespace {team.namespace_name} alone."
        return replace(answer, fault=answer.fault + seen)
    return answer


def scaling_hints(spec: EndpointSpec, *, doubt: str) -> Iterator[Hint]:
    """What is allowed and seldom meant; `doubt` is what `check_scaling` gave."""
    scaling = spec.scaling
    if scaling is None:
        return
    if not spec.scales:
        message = "It always runs min_replicas, as max_replicas is the same: nothing scales it."
        yield Hint("scaling", "without_effect", message)
        return
    if engine() == AUTOSCALER:
        message = "KEDA is not offered here: the cluster's own autoscaler scales it, by cpu alone and never to zero."
        yield Hint("scaling.trigger", "autoscaler_only", message)
    elif needs_prometheus(spec) and not prometheus_url():
        message = (
            "The portal knows no Prometheus for the scaler to ask (PORTAL_PROMETHEUS_URL, scaler_prometheus_url): "
            "until an admin names one, the endpoint does not follow its load."
        )
        yield Hint("scaling.trigger", "no_prometheus", message)
    elif scaling.query and doubt:
        yield Hint("scaling.query", "query_not_tried", doubt)
    if scaling.query and scaling.metric_type is None:
        metric_type = guessed_type(scaling.query)
        meaning = "divided by the replicas before" if metric_type == "average-value" else "as a whole"
        message = (
            f"The query's value is compared with the threshold {meaning} (metric_type {metric_type}, by its outermost "
            "function). Give metric_type if that is wrong."
        )
        yield Hint("scaling.metric_type", "metric_type_guessed", message)
    if scaling.row.of_whole_card and _is_time_sliced(spec):
        message = f"{scaling.row.of_gpus} of a shared card is that of the whole card, its neighbours on it included."
        yield Hint("scaling.trigger", "whole_card", message)


def _is_time_sliced(spec: EndpointSpec) -> bool:
    flavor = ResourceFlavor.objects.filter(name=spec.flavor).first()
    return flavor is not None and Sharing(flavor.sharing) in {Sharing.TIME_SLICING, Sharing.MPS}
