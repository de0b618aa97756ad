"""The table, row by row: each planted as rows of what API servers answer, and the first finding has the row's name."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from diagnosis.judge import RULES
from foundation import clock
from tests.diagnosis.planted import NOW, Planted, workload_in
from tests.diagnosis.rows import ROWS, answer, mounting, nobody_looks, plant_in, up_again
from tests.factories.teams import api_client
from tests.pod_samples import container, failed, pending, pod, running, waiting
from tests.tables import every_row, undone
from workloads.models import Workload

pytestmark = pytest.mark.django_db


ONE_OF_EACH = list({name.split()[0]: name for name in reversed(ROWS)}.values())


def test_what_is_planted_gets_the_name_of_its_row(workloads):
    with every_row() as row:
        for name in ROWS:
            with row(name), undone():
                assert plant_in(workloads, name).ids()[:1] == [name.split()[0]]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(ONE_OF_EACH[::4], id="some rows"),
        pytest.param(
            [name for name in ROWS if name not in ONE_OF_EACH[::4]], id="the others", marks=pytest.mark.matrix
        ),
    ],
)
def test_rest_and_the_page_give_what_is_planted_the_name_of_its_row(names, workloads, client):
    with every_row() as row:
        for name in names:
            with row(name), undone():
                told_by_rest_and_the_page(plant_in(workloads, name).workload, name, client)


def told_by_rest_and_the_page(run: Workload, name: str, client: Client) -> None:
    row = name.split(maxsplit=1)[0]
    client.force_login(run.owner)
    with clock.freeze(NOW):
        address = run.own_kind.resource_of(run.public_id)
        answer = api_client(run.owner).get(f"{address}diagnosis/").json()
        page = client.get(reverse("console:why", args=[run.public_id])).content.decode()
    assert [finding["id"] for finding in answer["findings"]][:1] == [row], answer
    assert answer["verdict"] == answer["findings"][0]
    for finding in answer["findings"]:
        assert all(finding[field] for field in ("message", "title", "next_step", "evidence"))
        assert all(proof["object"] and proof["field"] for proof in finding["evidence"])
    verdict = re.search(r'id="why-title">(.*?)</h2>.*?table of causes[^>]*>(\w+)</span>', page, re.DOTALL)
    assert verdict is not None
    assert (html.unescape(verdict[1]), verdict[2]) == (answer["verdict"]["title"], row)


def test_a_claim_that_gets_no_volume_says_why_beside_the_scheduler():
    it = Planted(workload_in("Admitted")).claim("data", "Pending")
    it.pods(mounting("0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims."))
    it.said("ProvisioningFailed", 'storageclass "fast" not found', kind="PersistentVolumeClaim", name="data")
    assert it.ids() == ["S7", "C8"]
    assert 'storageclass "fast" not found' in it.findings()[1].words


def test_every_row_is_planted():
    assert {rule.id for rule in RULES} - {"C8"} == {name.split()[0] for name in ROWS}


def test_no_two_rows_have_one_id_or_one_title():
    assert len({rule.id for rule in RULES}) == len({rule.title for rule in RULES}) == len(RULES)


# --- the words of it


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("S1 never", "asks for 4 GPUs, and the largest node that is meant for it has 2"),
        ("S3", "asks for 128 cpu; the largest node that is meant for it has 64 in all"),
        ("F1", "it asks for 4 GPUs, and 2 of 8 are left"),
    ],
)
def test_the_numbers_stand_in_the_sentence(name, said, workloads):
    assert said in plant_in(workloads, name).findings()[0].words


def test_the_taint_is_named_from_the_nodes_as_the_scheduler_does_not(workloads):
    assert plant_in(workloads, "S4").findings()[0].words == (
        "The scheduler counts 4 nodes with a taint that keeps pod a-1-x7k2p away. Of those that the portal sees for it now: "
        "dedicated=research:NoSchedule (on n)."
    )


def test_the_labels_are_counted_on_the_nodes(workloads):
    assert "gpu in a100: 0 nodes" in plant_in(workloads, "S5").findings()[0].words


def test_what_the_registry_says_decides_what_to_do():
    it = Planted(workload_in("Starting"))
    it.pods(pending(waiting("ErrImagePull", "failed to authorize: 401 Unauthorized")))
    (finding,) = it.findings()
    assert "image_pull_secrets" in finding.next_step


def test_a_line_of_the_log_is_evidence_with_its_time(workloads):
    found = plant_in(workloads, "T5").findings()[0]
    assert found.evidence[0].field == "log"
    assert found.line == found.evidence[0].at is not None
    assert found.pod == "a-1-x7k2p"


# --- one cause among several pods


def test_the_pod_that_failed_first_is_the_cause_and_not_those_that_lost_it():
    first = failed(137, "OOMKilled", name="w-0")
    later = failed(1, name="w-1")
    later["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = "2026-11-01T10:30:20Z"
    it = (
        Planted(workload_in("Failed"))
        .pods(later, first)
        .wrote("NCCL error: remote process exited", pod="w-1")
    )
    assert it.ids() == ["T1"]
    assert it.findings()[0].pod == "w-0"


def test_pods_of_one_fate_are_told_once():
    it = Planted(workload_in("Starting"))
    it.pods(*(pending(waiting("ErrImagePull", "not found"), name=f"w-{index}") for index in range(4)))
    (finding,) = it.findings()
    assert finding.words.endswith("The same is true of 3 more of its 4 pods.")


def test_after_the_pod_is_gone_the_cause_is_still_known():
    it = Planted(workload_in("Failed")).pods(failed(137, "OOMKilled"))
    it.pods(failed(137, "OOMKilled"), gone=True)
    assert it.ids() == ["T1"]


# --- nothing is named where nothing is wrong


@pytest.mark.parametrize("phase", ["Succeeded", "Cancelled", "Suspended"])
def test_what_ended_as_wished_has_no_findings(phase):
    assert Planted(workload_in(phase)).pods(failed(143)).ids() == []


def test_what_was_said_before_it_ran_is_of_the_past():
    it = Planted(workload_in("Running")).pods(pod("Running", containers=(container(running()),)))
    it.said("FailedScheduling", answer("4 Insufficient nvidia.com/gpu"))
    it.said("FailedMount", "timed out waiting for the condition")
    it.said("Unhealthy", "Startup probe failed: connection refused", count=9)
    assert it.ids() == []


@pytest.mark.parametrize(("restarts", "minutes"), [(1, 0), (2, 0), (9, 15)])
def test_a_restart_that_was_got_over_is_of_the_past(restarts, minutes):
    it = Planted(workload_in("Running", kind="endpoint")).pods(up_again(restarts))
    assert it.ids(now=NOW + timedelta(minutes=minutes)) == []


def test_a_scheduler_has_a_minute_before_it_is_missed():
    it = Planted(workload_in("Admitted"))
    item = nobody_looks()
    item["metadata"]["creationTimestamp"] = NOW.isoformat()
    assert it.pods(item).ids() == []


def test_the_case_is_read_in_a_bounded_number_of_queries(django_assert_max_num_queries):
    it = Planted(workload_in("Failed")).node("a100-0").object("Job")
    it.pods(*(failed(1, name=f"w-{index}") for index in range(20)))
    with django_assert_max_num_queries(8):
        assert it.case().pods
