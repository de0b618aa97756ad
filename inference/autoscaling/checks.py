"""What only this platform can say about a request to scale: which scalers it has, and what Prometheus answers."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings

from controller.hints import Hint
from controller.metric_queries import QueryAnswer, try_query
from foundation.errors import FieldProblem, Invalid
from foundation.models import PlatformSettings
from inference.autoscaling.platform import engine, prometheus_url
from inference.autoscaling.scalers import AUTOSCALER, KEDA, needs_prometheus
from inference.promql import guessed_type
from inference.specs import EndpointSpec
from workloads.models import ResourceFlavor
from workloads.placement import Sharing


def check_scaling(spec: EndpointSpec, *, known: EndpointSpec | None = None) -> None:
    """Raises Invalid, naming the field, for what cannot be scaled here.

    A query is asked of Prometheus, so not inside a transaction; `known` is the spec that runs, whose query is not
    asked again.
    """
    if not spec.scales or spec.scaling is None:
        return
    problems = list(_engine_problems(spec))
    if not problems and spec.scaling.query and (known is None or known.scaling != spec.scaling):
        problems += _query_problems(_tried(spec))
    if problems:
        raise Invalid.of_problems(problems)


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


def _query_problems(answer: QueryAnswer) -> list[FieldProblem]:
    return (
        [FieldProblem(field="scaling.query", code=answer.code, message=answer.fault)] if answer.fault else []
    )


def _tried(spec: EndpointSpec) -> QueryAnswer:
    return try_query(settings.PROMETHEUS_URL or "", (spec.scaling and spec.scaling.query) or "")


def scaling_hints(spec: EndpointSpec) -> list[Hint]:
    """What is allowed and seldom meant. Asks Prometheus, so not inside a transaction."""
    return [*_hints(spec)] if spec.scaling is not None else []


def _hints(spec: EndpointSpec) -> Iterator[Hint]:
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
    elif scaling.query and (doubt := _tried(spec).doubt):
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
