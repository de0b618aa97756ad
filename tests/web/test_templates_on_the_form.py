"""A run that begins with a template: what the form fills in, shows as fixed, and refuses."""

from __future__ import annotations

import re

import pytest

from foundation import clock
from jobs.catalogue import set_template
from jobs.models import TrainingRun
from tests.factories.teams import ACTOR
from tests.web.browsing import chromium, either_way, findings, needs_chromium, open_page, session_of
from tests.web.test_forms import NEW, text
from workloads.models import NodeRecord, Workload

pytestmark = pytest.mark.django_db
RULES = {
    "name": "small",
    "title": "One GPU",
    "description": "For a first try.",
    "defaults": {
        "image": "example.org/train:1",
        "command": ["python", "train.py"],
        "flavor": "a100-40gb",
        "capacity": "on-demand",
        "gpus_per_replica": 1,
        "memory": "8Gi",
        "time_limit_seconds": 1800,
        "run_as_user": 1001,
    },
    "minimum": {"gpus_per_replica": 1},
    "maximum": {"gpus_per_replica": 2, "time_limit_seconds": 3600, "replicas": 1},
    "locked": ["image", "flavor", "capacity", "run_as_user"],
}


@pytest.fixture
def small(world):
    return set_template(**RULES, actor=ACTOR, now=clock.now())[0]


def control(html: str, name: str) -> str:
    return re.search(rf'<(?:input|textarea|select)[^>]* name="{name}"[^>]*>', html)[0]


def test_without_templates_nothing_is_offered(ana, world):
    assert "presets" not in ana.get(NEW).content.decode()


def test_templates_are_offered_and_the_chosen_one_is_marked(ana, small):
    empty, chosen = (ana.get(url).content.decode() for url in (NEW, f"{NEW}?template=small"))
    for html in (empty, chosen):
        assert 'href="/runs/new/?template=small&amp;team=vision"' in html
        assert len(re.findall(r'aria-current="true"', html.split("presets-title")[2])) == 1
    assert re.search(r'template=small[^>]*aria-current="true"', chosen)
    assert not re.search(r'template=small[^>]*aria-current="true"', empty)


def test_the_form_begins_with_a_gpu_whose_nodes_have_the_memory_that_the_template_asks_for(ana, small):
    free = {"defaults": {"memory": "32Gi"}, "minimum": {}, "maximum": {}, "locked": []}
    set_template(**RULES | free, actor=ACTOR, now=clock.now())

    def begins_with() -> str:
        html = ana.get(f"{NEW}?template=small").content.decode()
        return re.search(r'name="flavor" value="([^"]*)" checked', html)[1]

    assert begins_with() == "a100-mig-1g.10gb", "what is not known of a node is no reason against it"
    NodeRecord.objects.filter(name="mig-0").update(others={"cpu": "4", "memory": "16Gi"})
    assert begins_with() == "a100-40gb"


def test_the_form_begins_with_what_the_template_says(ana, small):
    html = ana.get(f"{NEW}?template=small").content.decode()
    assert 'value="example.org/train:1"' in control(html, "image")
    assert "readonly" in control(html, "image")
    assert "readonly" not in control(html, "memory")
    assert 'value="8Gi"' in control(html, "memory")
    assert 'value="30m"' in control(html, "time_limit")
    assert re.findall(r'name="flavor" value="([^"]*)"', html) == ["a100-40gb"]
    assert re.findall(
        r"<option value=\"([^\"]*)\"", html.split('name="capacity"')[1].split("</select>")[0]
    ) == ["on-demand"]
    assert "1 to 2 by the template." in html
    assert "At most 1h by the template." in html
    assert "&quot;run_as_user&quot;: 1001" in html, "what has no input is shown all the same"


def test_it_is_submitted_as_it_stands(ana, small):
    html = ana.get(f"{NEW}?template=small").content.decode()
    sent = {
        name: re.search(r'value="([^"]*)"', control(html, name))[1] for name in ("image", "memory", "gpus")
    }
    sent |= {
        "team": "vision",
        "name": "first",
        "template": "small",
        "flavor": "a100-40gb",
        "capacity": "on-demand",
    }
    response = ana.post(NEW, sent)
    assert response.status_code == 303, text(response)
    spec = TrainingRun.objects.get().spec
    assert (spec["template"], spec["template_version"], spec["run_as_user"]) == ("small", 1, 1001)
    assert (spec["command"], spec["time_limit_seconds"]) == (["python", "train.py"], 1800)


@pytest.mark.parametrize(
    ("values", "field", "said"),
    [
        ({"image": "example.org/mine:1"}, "image", "Template small sets image to example.org/train:1; it cannot be changed."),
        ({"replicas": "2"}, "replicas", "up to 1; this asks for 2"),
        ({"gpus": "3"}, "gpus", "from 1 to 2; this asks for 3"),
        ({"time_limit": "2h"}, "time_limit", "up to 3600; this asks for 7200"),
        ({"more": '{"run_as_user": 0}'}, "more", "run_as_user: Template small sets run_as_user to 1001"),
        ({"template": "gone"}, "template", "There is no such template."),
    ],
)  # fmt: skip
def test_what_the_template_refuses_is_said_at_the_input(ana, small, values, field, said):
    response = ana.post(NEW, {"team": "vision", "name": "first", "template": "small", **values})
    assert response.status_code == 422
    html = text(response)
    assert said in html
    assert field == "template" or f'id="id_{field}_error"' in html
    assert not Workload.objects.exists()


def test_a_refused_form_keeps_the_template(ana, small):
    html = ana.post(NEW, {"team": "vision", "name": "Not Right", "template": "small"}).content.decode()
    assert 'value="small"' in control(html, "template")
    assert "readonly" in control(html, "image")
    assert "1 to 2 by the template." in html


@pytest.mark.parametrize("name", ["gone", "x" * 5000])
def test_a_template_that_is_none_is_not_found(ana, small, name):
    assert ana.get(f"{NEW}?template={name}").status_code == 404


def test_a_clone_keeps_the_template(ana, small):
    ana.post(NEW, {"team": "vision", "name": "first", "template": "small"})
    html = ana.get(f"{NEW}?from={Workload.objects.get().public_id}").content.decode()
    assert 'value="small"' in control(html, "template")
    assert "readonly" in control(html, "image")


HOSTILE = '"><script>alert(1)</script>{{ 7 }}'


def test_words_of_a_template_do_not_act(ana, world):
    words = {
        "title": HOSTILE[:120],
        "description": HOSTILE,
        "defaults": {"command": [HOSTILE], "working_dir": "/<b>"},
    }
    set_template(name="bad", **words, actor=ACTOR, now=clock.now())
    html = ana.get(f"{NEW}?template=bad").content.decode()
    assert "<script>alert" not in html
    assert "/<b>" not in html
    assert "{{ 7 }}" in html


def test_source_files_of_the_template_are_sent_as_they_are_and_cannot_be_changed(ana, world):
    """A browser ends lines in its own way, which is no change."""
    files = {"smoke.py": "import sys\n\nsys.exit(1)\n"}
    rules = {"defaults": {"image": "a:1", "source": {"files": files}}, "locked": ["source"]}
    set_template(name="fixed", title="Fixed", **rules, actor=ACTOR, now=clock.now())
    html = ana.get(f"{NEW}?template=fixed").content.decode()
    assert "sys.exit(1)" in html
    assert 'type="file"' not in html
    sent = {
        "team": "vision",
        "name": "first",
        "image": "a:1",
        "template": "fixed",
        "gpus": "0",
        "file_name": "smoke.py",
    }
    refused = ana.post(NEW, {**sent, "file_content": "import os"})
    assert (refused.status_code, "it cannot be changed" in text(refused)) == (422, True)
    assert ana.post(NEW, {**sent, "file_content": files["smoke.py"].replace("\n", "\r\n")}).status_code == 303
    assert TrainingRun.objects.get().spec["source"]["files"] == files


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
@either_way
def test_a_run_is_made_from_a_template_in_a_browser(live_server, world, small, script):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.goto("/runs/new/")
        page.get_by_role("link", name="One GPU").click()
        page.get_by_label("Name", exact=True).fill("by-template")
        assert page.get_by_label("Image").input_value() == "example.org/train:1"
        assert not page.get_by_label("Image").is_editable()
        assert not script or findings(page) == []
        page.get_by_role("button", name="Submit run").click()
        page.get_by_text("by-template is submitted.").wait_for()
        assert complaints == []
