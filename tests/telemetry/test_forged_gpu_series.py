"""A pod that publishes series under DCGM's names about the GPUs of others: where `dcgm_job` is set, nobody believes it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings as configured

from cluster import prometheus
from cluster.client import connect
from cluster.preflight import ClusterFacts
from foundation import clock
from foundation.models import PlatformSettings
from inference.enforced_query import Border, enforced
from inference.promql import Subject, gpu_utilization
from telemetry.gpu_series import gpu_series
from telemetry.preflight import gpu_metrics_labelled
from telemetry.ranges import in_steps
from tests.factories.teams import api_client, make_user
from tests.telemetry.gpu_bed import UTIL

pytestmark = pytest.mark.django_db
OURS = {"job": "nvidia-dcgm-exporter"}
FORGED = {"job": "kubernetes-pods", "namespace": "team-other", "pod": "theirs-0"}
SETTINGS = "/api/v1/settings/"
FACTS = ClusterFacts(connect("/nonexistent/kubeconfig"))


@pytest.fixture
def forged(world, cards):
    """A run whose card is busy, of which a pod of another team says that it is idle."""
    run, pod = world.run(gpus=1)
    cards.plant(pod, labels=OURS, **{UTIL: 90.0})
    cards.plant(pod, labels=FORGED, gpu=1, **{UTIL: 0.0})
    cards.serve()
    return run, pod


def believe(job: str) -> None:
    PlatformSettings.objects.update_or_create(pk=1, defaults={"dcgm_job": job})


def shown(run) -> set[float]:
    now = clock.now()
    begin, step, slots = in_steps(now - timedelta(minutes=60), now)
    series = gpu_series(run, begin=begin, step=step, slots=slots, now=now)
    (figures,) = [each for each in series.figures if each.metric.name == "utilization"]
    return {value for values in figures.of_cards.values() for value in values if value is not None}


def asked(query: str) -> list[float]:
    found = prometheus.query(configured.PROMETHEUS_URL or "", query, token=configured.PROMETHEUS_TOKEN)
    return [element.value for element in found]


def test_what_a_pod_publishes_of_anothers_card_is_not_shown(forged):
    run, _ = forged
    assert shown(run) == {90.0, 0.0}, "believed while nobody says which job is the exporter's"
    believe("dcgm-exporter|nvidia-dcgm-exporter")
    assert shown(run) == {90.0}


def test_a_scaler_goes_by_the_exporter_alone(forged):
    _, pod = forged
    name = pod.name.rsplit("-", 2)[0]
    subject = Subject("e", pod.namespace, name, "custom", False, True, "nvidia-dcgm-exporter")
    own = gpu_utilization(subject)
    assert own.count('job=~"nvidia-dcgm-exporter"') == 2
    assert asked("sum(" + enforced(UTIL, Border(pod.namespace)) + ")") == [90.0]
    assert asked(enforced(f"min({UTIL})", Border(pod.namespace))) == [0.0]
    assert asked(enforced(f"min({UTIL})", Border(pod.namespace, dcgm_job="nvidia-dcgm-exporter"))) == [90.0]


def test_preflight_warns_of_several_jobs_and_of_a_job_that_is_none(forged):
    found = gpu_metrics_labelled(FACTS)
    assert found.status == "warn"
    assert "2 jobs (kubernetes-pods, nvidia-dcgm-exporter)" in found.detail
    assert "dcgm_job" in found.fix
    believe("nvidia-dcgm-exporter")
    assert "MIG slices have none" in gpu_metrics_labelled(FACTS).detail, "what else there is to say"
    believe("dcgm")
    found = gpu_metrics_labelled(FACTS)
    assert (found.status, "other jobs alone" in found.detail) == ("fail", True)


def test_a_name_of_a_job_is_no_expression():
    admin = api_client(make_user("root", platform_admin=True))
    for wrong in ('x"} or {a="', "a|", ".*", "a b", "(a"):
        answer = admin.patch(SETTINGS, {"dcgm_job": wrong})
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "invalid_jobs"), wrong
    assert admin.patch(SETTINGS, {"dcgm_job": "gpu.dcgm|b"}).json()["dcgm_job"] == "gpu.dcgm|b"
    assert Border("t", dcgm_job="gpu.dcgm|b").demanded(UTIL)[1] == 'job=~"gpu[.]dcgm|b"'
    assert admin.patch(SETTINGS, {"dcgm_job": ""}).status_code == 200
