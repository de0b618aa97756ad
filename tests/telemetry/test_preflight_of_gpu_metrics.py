"""Preflight says which label names the pod of a GPU, on a server that evaluates its queries over planted series."""

from __future__ import annotations

import time

import pytest

from cluster.client import connect
from cluster.preflight import ClusterFacts
from devcluster.prometheus.storage import NAME
from foundation.models import PlatformSettings
from telemetry.preflight import gpu_metrics_labelled
from tests.factories.catalogue import make_flavor
from tests.factories.submitted import make_pod, make_run
from tests.factories.teams import make_member, make_team
from tests.planted_metrics import planted_metrics

# Its Prometheus is asked, and no API server.
FACTS = ClusterFacts(connect("/nonexistent/kubeconfig"))
pytestmark = pytest.mark.django_db
EXPORTER = {"namespace": "gpu-operator", "pod": "dcgm-exporter-x7k2p"}
WHOLE, SLICE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


@pytest.fixture
def planted(settings):
    """What Prometheus has: planted[labels] before it is asked."""
    with planted_metrics() as (settings.PROMETHEUS_URL, storage):
        yield lambda name, **labels: storage.append(
            {NAME: name, **labels}, int(time.time() * 1000) - 1000, 1.0
        )


@pytest.fixture
def pod():
    """One of the portal's that exists now."""
    team = make_team()
    return make_pod(make_run(team, make_member(team=team).user))


def found():
    check = gpu_metrics_labelled(FACTS)
    return check.status, check.detail, check.fix


def labelled(how):
    PlatformSettings.objects.update_or_create(pk=PlatformSettings.current().pk, defaults={"dcgm_labels": how})


@pytest.mark.parametrize("how", ["exported", "plain"])
def test_a_busy_gpu_tells_the_label_and_the_other_setting_is_wrong(planted, pod, how):
    own = {"namespace": pod.namespace, "pod": pod.name}
    exported = EXPORTER | {f"exported_{label}": text for label, text in own.items()}
    planted(WHOLE, gpu="0", **(exported if how == "exported" else own))
    planted(WHOLE, gpu="1", **EXPORTER)
    labelled(how)
    assert found()[0] == "ok"
    other = {"exported": "plain", "plain": "exported"}[how]
    labelled(other)
    status, detail, fix = found()
    assert status == "fail"
    assert f"is in `{'exported_pod' if how == 'exported' else 'pod'}`" in detail
    assert f"dcgm_labels says {other}" in detail
    assert f"dcgm_labels to {how}" in fix


@pytest.mark.parametrize("how", ["exported", "plain"])
def test_idle_gpus_name_the_exporters_pod_which_says_nothing(planted, pod, how):
    planted(WHOLE, gpu="0", **EXPORTER)
    planted(WHOLE, gpu="1", **EXPORTER, exported_pod="")
    labelled(how)
    assert found()[0] == "ok"
    assert "as soon as a GPU is in use" in found()[1]


def test_a_pod_of_the_same_name_elsewhere_is_not_taken_for_the_portals(planted, pod):
    planted(WHOLE, gpu="0", namespace="elsewhere", pod=pod.name)
    assert "as soon as a GPU is in use" in found()[1]


def test_slices_need_a_metric_of_their_own(planted):
    planted(WHOLE, gpu="0", **EXPORTER)
    assert found()[0] == "ok"
    make_flavor("a100-mig-1g.10gb", resource="nvidia.com/mig-1g.10gb", product=None, sharing="mig")
    status, detail, fix = found()
    assert (status, SLICE in detail, SLICE in fix) == ("warn", True, True)
    planted(SLICE, gpu="0", GPU_I_ID="1", **EXPORTER)
    assert found()[0] == "ok"


def test_no_dcgm_no_prometheus_and_one_that_does_not_answer(planted, settings):
    status, detail, fix = found()
    assert (status, "gpu-utilization" in detail, "dcgm-exporter" in fix) == ("warn", True, True)
    settings.PROMETHEUS_URL = "http://127.0.0.1:1"
    assert found()[0] == "warn"
    settings.PROMETHEUS_URL = None
    assert found()[0] == "warn"
