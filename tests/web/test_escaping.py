from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from pages.endpoints.try_it import TriedAnswer
from tests.effort import spread
from workloads.models import Workload
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</textarea><svg onload=alert(1)>",
    "</pre><iframe srcdoc='<script>alert(1)</script>'>",
    "{{ 7|add:7 }}{% now 'Y' %}",
    "<c-table />",
    "javascript:alert(1)",
    "\x1b[31m<b>red</b>\x1b[0m",
    "\u202egnp.exe",
)
ALLOWED_SCRIPTS = re.compile(r"/static/(portal|vendor)/")


class Found(HTMLParser):
    """What a browser would act on."""

    def __init__(self) -> None:
        super().__init__()
        self.harm: list[str] = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in {"iframe", "object", "embed", "base", "style"}:
            self.harm.append(tag)
        if tag == "script" and not ALLOWED_SCRIPTS.match(values.get("src") or ""):
            self.harm.append(tag)
        for name, value in attrs:
            if (
                name.startswith(("on", "hx-on"))
                or name == "style"
                or (
                    (value or "").strip().lower().startswith("javascript:")
                    and name in {"href", "action", "src"}
                )
            ):
                self.harm.append(f"{tag} {name}={value}")

    def unclosed(self):
        return self.harm


def harm_in(response) -> list[str]:
    parser = Found()
    parser.feed(response.content.decode())
    return parser.harm


@pytest.fixture
def hostile(world):
    """Text of users, the cluster and programs, everywhere it may stand."""
    text = " ".join(PAYLOADS).replace("\x1b", "").replace("\u202e", "")
    run = world.run(
        "hostile",
        command=list(PAYLOADS),
        env=[{"name": "E", "value": text}],
        source={"files": {"a.py": text}},
        minutes_ago=30,
    )
    world.team.name = PAYLOADS[0][:100]
    world.team.save()
    pod = world.start(run, message=text)
    world.log(pod, *PAYLOADS)
    pod.message, pod.reason, pod.node_name = text, PAYLOADS[0], PAYLOADS[1]
    pod.save()
    run.events.update(message=text, source=PAYLOADS[1], actor=PAYLOADS[2])
    failed = world.run("failed", minutes_ago=30, gpus_per_replica=1)
    world.finish(failed, Phase.FAILED, Reason.APPLICATION_ERROR, text, after_minutes=3, exit_code=1)
    return run


@pytest.mark.parametrize(
    "tab", spread(["logs", "events", "pods", "cost", "manifests", "spec", "manifests&format=json"], usual=3)
)
def test_no_tab_of_a_run_lets_text_act(ana, hostile, tab):
    response = ana.get(f"/runs/{hostile.public_id}/?tab={tab}")
    assert response.status_code == 200
    assert harm_in(response) == []


@pytest.mark.parametrize(
    "path",
    spread(["/", "/runs/", "/teams/vision/", "/teams/", "/runs/new/", "/profile/", "/audit/"], usual=4),
)
def test_no_page_lets_text_act(ana, hostile, path):
    assert harm_in(ana.get(path, follow=True)) == []


def test_a_clone_of_it_lets_no_text_act(ana, hostile):
    response = ana.get(f"/runs/new/?from={hostile.public_id}")
    assert harm_in(response) == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in response.content.decode()


@pytest.mark.parametrize("payload", spread(PAYLOADS, usual=4))
def test_what_is_typed_wrong_comes_back_as_text(ana, world, payload):
    sent = dict.fromkeys(
        (
            "name",
            "image",
            "command",
            "env",
            "flavor",
            "gpus",
            "cpu",
            "memory",
            "shm",
            "volumes",
            "labels",
            "time_limit",
            "retries",
            "checkpoint_path",
            "checkpoint_claim",
            "file_name",
            "file_content",
            "token",
        ),
        payload,
    )
    for extra in ({}, {"action": "check"}):
        response = ana.post("/runs/new/", {**sent, "team": "vision", **extra})
        assert harm_in(response) == []
    assert harm_in(ana.post("/endpoints/new/", {**sent, "team": payload})) == []
    assert not Workload.objects.exists()


@pytest.mark.parametrize("parameter", spread(["name", "phase", "team", "cursor", "tab", "next"], usual=3))
def test_what_stands_in_the_address_comes_back_as_text(ana, world, parameter):
    for payload in PAYLOADS:
        assert harm_in(ana.get("/runs/", {parameter: payload})) == [], payload


def test_the_answer_of_an_endpoint_is_text(ana, made, monkeypatch):
    answer = TriedAnswer(status=200, headers=(("X-<b>", PAYLOADS[0]),), body="\n".join(PAYLOADS))
    monkeypatch.setattr("pages.endpoints.try_it._ask", lambda *_: answer)
    url = f"/endpoints/{made['digits'].public_id}/try/"
    for headers in ({}, {"HX-Request": "true", "HX-Target": "answer"}):
        response = ana.post(url, {"method": "POST", "path": "/", "body": "{}"}, headers=headers)
        assert response.status_code == 200
        assert harm_in(response) == []
        assert "&lt;script&gt;alert(1)" in response.content.decode()
