"""Outputs of a run: what it may report of them, where they lie, how one gets and deploys them."""

from __future__ import annotations

import json
import shlex

import pytest
from django.test import Client

from foundation import clock
from foundation.number_words import size_words
from jobs.models import RunOutput
from jobs.outputs import services
from jobs.outputs.places import OutputPlace, fetched_from_claim, fetching_pod, local_name, place_of
from jobs.specs import TrainingRunSpec
from tests.api.bench import RUNS, problem
from tests.factories.submitted import make_attempt, make_pod, make_run, move, run_body
from workloads.services import end_attempt
from workloads.states import Phase

pytestmark = pytest.mark.django_db
OUTPUT = {"path": "/models/best model.pt", "size_bytes": 3_565_158, "metrics": {"accuracy": 0.97}}
VOLUMES = [{"claim": "models", "path": "/models"}]


class Reporting:
    def __init__(self, bench, **spec):
        self.bench = bench
        self.run = make_run(bench.team, bench.user, **spec)
        self.attempt, self.token = make_attempt(self.run)
        move(self.run, Phase.RUNNING)
        self.url = f"{RUNS}{self.run.public_id}/outputs/"

    def report(self, body=OUTPUT, **changes):
        text = body if isinstance(body, str) else json.dumps(body | changes)
        headers = {"Authorization": f"Bearer {self.token}"}
        return Client().post(self.url, text, content_type="application/json", headers=headers)

    def listed(self):
        return self.bench.client.get(self.url).json()["results"]


@pytest.fixture
def reporting(bench):
    return Reporting(bench, volumes=VOLUMES)


def test_a_run_reports_what_it_wrote_and_people_read_it(reporting):
    made = reporting.report()
    assert made.status_code == 201, made.content
    (listed,) = reporting.listed()
    assert listed == made.json()
    assert {name: listed[name] for name in OUTPUT} == OUTPUT
    assert (listed["attempt"], listed["claim"], listed["claim_path"]) == (1, "models", "best model.pt")
    assert "kubectl cp" in listed["fetch"]


def test_the_same_path_again_replaces_what_was_said_of_it(reporting):
    reporting.report()
    reporting.report(size_bytes=5, metrics={})
    (listed,) = reporting.listed()
    assert (listed["size_bytes"], listed["metrics"]) == (5, {})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"path": "models/best.pt"}, "path"),
        ({"path": "/models/../etc/passwd"}, "path"),
        ({"path": "/models//best.pt"}, "path"),
        ({"path": "/models/"}, "path"),
        ({"path": "/models/a\nb"}, "path"),
        ({"path": "/" + "m" * 600}, "path"),
        ({"path": None}, "path"),
        ({"size_bytes": -1}, "size_bytes"),
        ({"size_bytes": True}, "size_bytes"),
        ({"size_bytes": 1.5}, "size_bytes"),
        ({"metrics": {"loss": "low"}}, "metrics.loss"),
        ({"metrics": {str(number): 1 for number in range(17)}}, "metrics"),
        ({"metrics": {"x" * 101: 1}}, "metrics"),
        ({"owner": "somebody"}, "owner"),
    ],
)
def test_what_will_not_do_is_refused_at_its_field(reporting, changes, field):
    problem(reporting.report(**changes), 422, field)
    assert not RunOutput.objects.exists()


def test_what_no_row_could_hold_is_malformed(reporting):
    assert reporting.report(path="/models/a\u0000b").status_code == 400
    assert reporting.report(size_bytes=2**63).status_code == 400
    assert not RunOutput.objects.exists()


def test_numbers_that_are_none_are_refused(reporting):
    for number in ("NaN", "Infinity", "1e999"):
        text = json.dumps(OUTPUT).replace("0.97", number)
        assert reporting.report(text).status_code in {400, 422}, number
    assert not RunOutput.objects.exists()


def test_a_run_reports_so_many_and_no_more_but_those_it_has_again(reporting, monkeypatch):
    monkeypatch.setattr(services, "OUTPUTS_MAX", 2)
    assert [reporting.report(path=f"/models/{name}").status_code for name in "ab"] == [201, 201]
    refused = reporting.report(path="/models/c")
    problem(refused, 422, "path")
    assert refused.json()["errors"][0]["code"] == "too_many_outputs"
    assert reporting.report(path="/models/a", size_bytes=9).status_code == 201
    assert RunOutput.objects.count() == 2


def test_nobody_else_reports_and_strangers_see_nothing(reporting, bench):
    other = Reporting(bench)
    headers = {"Authorization": f"Bearer {other.token}"}
    sent = {"content_type": "application/json", "headers": headers}
    assert Client().post(reporting.url, json.dumps(OUTPUT), **sent).status_code == 404
    problem(bench.client.post(reporting.url, OUTPUT, format="json"), 403, code="run_token_only")
    end_attempt(
        reporting.attempt, phase=Phase.FAILED, reason="Error", message="", exit_code=1, ended_at=clock.now()
    )
    assert reporting.report().status_code == 401
    assert not RunOutput.objects.exists()


def test_what_lies_in_no_volume_can_be_fetched_while_its_pod_runs(reporting):
    reporting.report(path="/tmp/trace.json")  # noqa: S108 - a path in a pod
    (listed,) = reporting.listed()
    assert (listed["claim"], listed["fetch"]) == (None, "")
    make_pod(reporting.run, name="train-0")
    (listed,) = reporting.listed()
    assert listed["fetch"].endswith("train-0:/tmp/trace.json ./trace.json")
    move(reporting.run, Phase.SUCCEEDED)
    (listed,) = reporting.listed()
    assert listed["fetch"] == ""


def spec_of(**values):
    return TrainingRunSpec.from_json(run_body(**values))


def test_the_nearest_mount_holds_a_path_and_a_name_alike_does_not():
    spec = spec_of(volumes=[{"claim": "data", "path": "/data"}, {"claim": "models", "path": "/data/models"}])
    assert place_of("/data/models/a/b.pt", spec) == OutputPlace("models", "/data/models", "a/b.pt")
    assert place_of("/data/models", spec) == OutputPlace("models", "/data/models", "")
    assert place_of("/data/modelsx/b.pt", spec) == OutputPlace("data", "/data", "modelsx/b.pt")
    assert place_of("/database/b.pt", spec) is None


def test_what_lies_in_code_or_a_config_map_inside_a_claim_is_not_in_the_claim():
    spec = spec_of(
        volumes=VOLUMES,
        source={"files": {"train.py": "pass"}, "path": "/models/code"},
        config_maps=[{"name": "settings", "path": "/models/settings"}],
    )
    assert place_of("/models/code/best.pt", spec) is None
    assert place_of("/models/settings/best.pt", spec) is None
    assert place_of("/models/codex/best.pt", spec) == OutputPlace("models", "/models", "codex/best.pt")


def test_who_fetches_is_the_user_who_wrote(bench):
    reporting = Reporting(bench, volumes=VOLUMES, run_as_user=4242)
    reporting.report()
    (listed,) = reporting.listed()
    pod = json.loads(shlex.split(listed["fetch"].splitlines()[0])[1])
    assert pod["spec"]["securityContext"]["runAsUser"] == 4242


def test_no_shell_does_what_a_path_says():
    nasty = "a'; rm -rf ~; echo $(id) `id` \" &"
    place = OutputPlace("models", "/models", nasty)
    text = fetched_from_claim(place, namespace="team-a", name="fetch-a", user=1000)
    made, waited, copied, deleted = (shlex.split(line) for line in text.splitlines())
    assert copied == ["kubectl", "cp", "-n", "team-a", f"fetch-a:/claim/{nasty}", local_name(nasty)]
    assert made[:1] + made[2:] == ["echo", "|", "kubectl", "create", "-n", "team-a", "-f", "-"]
    assert json.loads(made[1]) == fetching_pod("models", name="fetch-a", user=1000)
    assert (waited[-1], deleted[-1]) == ("pod/fetch-a", "fetch-a")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/models/best.pt", "./best.pt"),
        ("/models/pod:x", "./pod_x"),
        ("/models/-rf *", "./-rf__"),
        ("/models/`id`;$HOME", "./_id___HOME"),
        ("/", "./output"),
    ],
)
def test_the_name_on_ones_own_machine_has_no_character_that_means_something(path, name):
    assert local_name(path) == name


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (3_565_158, "3.4 MiB"),
        (2**20 - 1, "1.0 MiB"), (2**40, "1.0 TiB"), (2**63 - 1, "8.0 EiB"),
    ],
)  # fmt: skip
def test_sizes_are_said_in_the_largest_unit_that_they_fill(size, words):
    assert size_words(size) == words
