"""A checkpointing run on spot capacity that is taken back, on a real control plane, from the report to the page."""

from __future__ import annotations

import base64
import json
import urllib.request
from contextlib import ExitStack
from datetime import timedelta

import pytest
from django.test import Client

from cluster.kinds import ObjectRef
from costs.models import UsageInterval
from foundation import clock
from foundation.number_words import span_words
from quotas.models import Claim
from teams.actors import Actor
from tenancy.volumes import create_volume
from tests.controller.conftest import REAL
from tests.controller.kinds_bed import KindsBed
from tests.factories.teams import api_client
from workloads.models import NodeRecord

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.cluster,
    pytest.mark.skipif(not REAL, reason="no PORTAL_TEST_KUBECONFIG"),
    pytest.mark.parametrize("client", ["real"], indirect=True),
]


class Pod:
    """What the program in a pod would find and do: its environment, its token, its reports."""

    def __init__(self, bed: KindsBed, manifest: dict) -> None:
        (container,) = manifest["spec"]["containers"]
        self.env = {each["name"]: each.get("value") for each in container["env"]}
        self.node = manifest["spec"]["nodeName"]
        self.manifest = manifest
        (token,) = [each for each in container["env"] if each["name"] == "PORTAL_RUN_TOKEN"]
        secret = token["valueFrom"]["secretKeyRef"]
        found = bed.client.get(ObjectRef("v1", "Secret", manifest["metadata"]["namespace"], secret["name"]))
        self.token = base64.b64decode(found["data"][secret["key"]]).decode()

    def save(self, step: int) -> str:
        """Report a checkpoint as docs/reference/run-environment.md says; its path."""
        path = f"{self.env['PORTAL_CHECKPOINT_DIR']}/{step}.pt"
        url = f"{self.env['PORTAL_URL']}/api/v1/training-runs/{self.env['PORTAL_RUN_ID']}/checkpoints/"
        request = urllib.request.Request(  # noqa: S310 (the live server)
            url,
            json.dumps({"step": step, "path": path}).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            assert answer.status == 201
        return path


@pytest.fixture
def bed(bench, client, live_server, settings):
    settings.INTERNAL_URL = live_server.url
    bed = KindsBed(bench)
    actor = Actor.of_user(bench.member)
    create_volume(
        client,
        team=bench.team,
        name="checkpoints",
        size="1Gi",
        access_mode="ReadWriteMany",
        storage_class=None,
        actor=actor,
        now=clock.now(),
    )
    volume = provide(bed, "checkpoints")
    yield bed
    bed.collect()
    bed.client._json("DELETE", f"/api/v1/persistentvolumes/{volume}")


def provide(bed: KindsBed, claim: str) -> str:
    """A volume for the claim: nothing in this cluster makes one by itself."""
    name = f"{bed.bench.team.namespace_name}-{claim}"
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": "/nowhere"},
            "claimRef": {"namespace": bed.bench.team.namespace_name, "name": claim},
        },
    }
    bed.client._json("POST", "/api/v1/persistentvolumes", body=volume)
    return name


@pytest.mark.parametrize("kind", ["job", "pytorchjob"])
@pytest.mark.parametrize("told", [True, False], ids=["drained first", "gone at once"])
def test_a_reclaimed_run_goes_on_from_its_last_checkpoint(bed, kind, told):
    """Without notice the pod goes about a minute later than its node; that minute is no work, hence not lost, nor paid."""
    checkpoint = {"path": "/checkpoints", "claim": "checkpoints", "interval_seconds": 60}
    run = bed.submit(kind=kind, capacity="spot", checkpoint=checkpoint, max_retries=0)
    bed.running(run)
    pod = Pod(bed, bed.pods(run)[0])
    assert "PORTAL_RESUME_FROM" not in pod.env
    pod.save(100)
    last = pod.save(200)
    reported = run.checkpoints.get(step=200).at
    bed.until(run, lambda run: clock.now() > reported + timedelta(seconds=2))

    with ExitStack() as reclaimed:
        if told:
            reclaimed.enter_context(bed.cordoned(pod.node))
            bed.evict(pod.manifest)
            bed.until(run, lambda run: run.attempts.get(number=1).ended_at is not None)
        reclaimed.enter_context(bed.gone(pod.node))
        bed.until(run, lambda run: run.phase == "Running" and run.attempt_number == 2, seconds=240)
        again = Pod(bed, bed.pods(run)[0])
        assert again.node.startswith("a100-spot-")
        assert again.node != pod.node
        assert again.env["PORTAL_RESUME_FROM"] == last
        assert again.token != pod.token
        again.save(300)
        bed.to_the_end(run)

    assert (run.phase, run.reason, run.retries_used, run.interruptions) == ("Succeeded", "Completed", 0, 1)
    first, second = run.attempts.all()
    assert (first.reason, second.resumed_from) == ("SpotReclaimed", last)
    assert first.lost_seconds == round((first.ended_at - reported).total_seconds())
    assert first.lost_seconds > 0
    usage = UsageInterval.objects.get(pod_uid=pod.manifest["metadata"]["uid"])
    # The operator of a PyTorchJob may replace the pod before the portal stops it. The attempt then ends with the replacement.
    replaced = run.pods.filter(attempt=1).count() > 1
    if replaced:
        assert (kind, told) == ("pytorchjob", False)
        assert usage.ended_at < first.ended_at
    else:
        assert usage.ended_at == first.ended_at.replace(microsecond=0)
    if not told:
        gone = NodeRecord.objects.get(name=pod.node, gone_at__isnull=False).gone_at
        assert usage.ended_at == gone.replace(microsecond=0)
        assert replaced or first.ended_at == gone
    assert second.lost_seconds == 0
    assert [claim.state for claim in Claim.objects.order_by("pk")] == ["released", "released"]
    shown_to_people(bed, run, first)


def shown_to_people(bed: KindsBed, run, first) -> None:
    """In REST and on the run's page."""
    member = bed.bench.member
    rest = api_client(member).get(f"/api/v1/training-runs/{run.public_id}/").json()
    assert [each["lost_seconds"] for each in rest["attempts"]] == [first.lost_seconds, 0]
    assert rest["attempts"][1]["resumed_from"] == "/checkpoints/200.pt"
    browser = Client()
    browser.force_login(member)
    html = browser.get(f"/runs/{run.public_id}/").content.decode()
    assert f'id="work-lost">{span_words(first.lost_seconds)}<' in html
    assert "/checkpoints/200.pt" in html
    assert "1 interruption, not counted" in html
