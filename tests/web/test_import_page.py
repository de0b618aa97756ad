"""A manifest that is pasted fills in the form of a new run."""

from __future__ import annotations

import re

import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile

from jobs.imports.reading import TEXT_BYTES_MAX
from jobs.models import TrainingRun
from tests.jobs.test_imports import job
from tests.web.browsing import chromium, either_way, findings, needs_chromium, open_page, session_of
from tests.web.test_forms import filled, text
from workloads.models import Workload

pytestmark = pytest.mark.django_db
URL = "/runs/import/"


def manifest(**changes) -> str:
    found = job(
        **{
            "spec__template__spec__nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"},
            **changes,
        }
    )
    container = found["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["sh", "-c", "echo one\necho two"]
    container["env"] = [{"name": "A", "value": "1"}]
    del container["resources"]["limits"]["vpc.amazonaws.com/efa"]
    return yaml.safe_dump(found)


def test_the_page_asks_for_a_manifest(ana, world):
    assert 'name="manifest"' in text(ana.get(URL))
    assert f'href="{URL}"' in text(ana.get("/runs/new/"))


def test_a_manifest_fills_in_the_form_of_a_new_run(ana, world):
    response = ana.post(URL, {"manifest": manifest().replace("\n", "\r\n")})
    html = response.content.decode()
    assert response.status_code == 200
    assert '<form method="post" action="/runs/new/"' in html
    assert 'hx-post="/runs/new/"' in html
    assert 'hx-post="/runs/import/"' not in html
    for name, value in {
        "name": "train",
        "gpus": "2",
        "memory": "16Gi",
        "shm": "8Gi",
        "time_limit": "2h",
        "retries": "2",
    }.items():
        assert f'value="{value}"' in re.search(rf'<input[^>]* name="{name}"[^>]*>', html)[0]
    assert re.search(r'value="a100-40gb" checked', html)
    assert "datasets:/data:ro" in html
    assert ">sh -c 'echo one\necho two'</textarea>" in text(response).replace("\n>", ">").replace(">\n", ">")
    assert "import-problems" not in html, "the team is chosen on the form"
    assert "spec.template.spec.restartPolicy" in html
    assert not Workload.objects.exists()


def test_what_has_no_place_is_named_and_what_was_pasted_is_kept(ana, world):
    response = ana.post(URL, {"manifest": manifest(spec__template__spec__hostNetwork=True)})
    assert response.status_code == 422
    html = text(response)
    assert "<code>spec.template.spec.hostNetwork</code>: There is no place for it in a training run." in html
    assert "hostNetwork: true" in html


def test_what_is_left_to_decide_stands_above_the_form(ana, world):
    html = text(ana.post(URL, {"manifest": manifest(metadata__name="Not A Name")}))
    assert re.search(
        r'id="import-problems".*<span class="strong">name</span>: A name begins', html, re.DOTALL
    )


def test_a_file_is_read_where_nothing_was_pasted(ana, world):
    sent = {"manifest": " ", "file": SimpleUploadedFile("job.yaml", manifest().encode())}
    html = text(ana.post(URL, sent))
    assert "Filled in from the manifest" in html
    assert 'value="train"' in html


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"x" * (TEXT_BYTES_MAX + 1)])
def test_a_file_that_cannot_be_read_is_refused(ana, world, content):
    response = ana.post(URL, {"file": SimpleUploadedFile("job.yaml", content)})
    assert response.status_code == 422
    assert "not a text file" in text(response) or "at most 128 KiB" in text(response)


def test_what_the_form_shows_as_yaml_fills_in_the_form_again(ana, world):
    sent = filled(action="check", shm="8Gi", storage="9Gi", pull_secrets="", checkpoint_path="/checkpoints")
    shown = re.search(r'<pre id="body-yaml">(.*?)</pre>', text(ana.post("/runs/new/", sent)), re.DOTALL)[1]
    assert "|\n" in shown, "a text of several lines is written as lines"
    form = ana.post(URL, {"manifest": shown}).context["form"]
    wanted = {
        name: sent[name] for name in ("name", "image", "gpus", "cpu", "memory", "shm", "storage", "labels")
    }
    assert {name: form.initial[name] for name in wanted} == wanted
    assert form.initial["sources"] == [("train.py", "print(1)\n")]


def test_a_request_that_is_wrong_is_refused_by_the_names_of_its_fields(ana, world):
    html = text(ana.post(URL, {"manifest": "image: a:1\ncolour: red\nenv: 5\n"}))
    assert "This cannot be a training run as it is" in html
    assert "<code>colour</code>" in html
    assert "<code>env</code>" in html


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_a_file_that_is_dropped_or_a_text_that_is_pasted_fills_in_the_form(live_server, world):
    session, source = session_of(world.ana), manifest()
    give = """([kind, text]) => {
      const data = new DataTransfer();
      if (kind === "paste") data.setData("text/plain", text);
      else data.items.add(new File([text], "job.yaml"));
      const event = kind === "paste"
        ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
        : new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true });
      document.body.dispatchEvent(event);
    }"""
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        for kind in ("drop", "paste"):
            page.goto("/runs/new/")
            if kind == "drop":
                page.evaluate(give, ["dragenter", source])
                assert page.get_by_text("Drop a manifest to fill in the form").is_visible()
                assert findings(page) == []
            page.evaluate(give, [kind, source])
            page.get_by_text("Filled in from the manifest").wait_for()
            assert page.get_by_label("Name", exact=True).input_value() == "train"
        page.goto("/runs/new/")
        page.evaluate(give, ["paste", "just some words"])
        page.evaluate(give, ["drop", "x" * 200_000])
        page.get_by_text("A manifest has at most 128 KiB.").wait_for()
        assert page.url.endswith("/runs/new/")
        page.goto("/runs/import/")
        page.evaluate(give, ["drop", source])
        page.locator("#id_manifest:focus").wait_for()
        assert page.get_by_label("Manifest").input_value() == source
        assert complaints == []


@pytest.mark.parametrize(
    "pasted", ["", "a: [", "<script>alert(1)</script>", "kind: <script>alert(1)</script>", "\x00"]
)
def test_what_is_no_manifest_is_refused_and_does_not_act(ana, world, pasted):
    response = ana.post(URL, {"manifest": pasted})
    assert response.status_code in {400, 422}
    assert "<script>alert" not in response.content.decode()


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
@either_way
def test_a_manifest_becomes_a_run_in_a_browser(live_server, world, script):
    session = session_of(world.ana)
    source = yaml.safe_load(manifest())
    pod = source["spec"]["template"]["spec"]
    pod["volumes"], pod["containers"][0]["volumeMounts"] = [], []
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.goto("/runs/new/")
        page.get_by_role("link", name="Import a manifest").click()
        page.get_by_label("Manifest").fill("kind: Pod")
        page.get_by_role("button", name="Fill in the form").click()
        page.get_by_text("This cannot be a training run as it is").wait_for()
        assert not script or findings(page) == []
        page.get_by_label("Manifest").fill(yaml.safe_dump(source))
        page.get_by_role("button", name="Fill in the form").click()
        if script:
            page.locator("#preview .verdict").get_by_text("Starts now").wait_for()
            assert findings(page) == []
        page.get_by_role("button", name="Submit run").click()
        page.get_by_text("train is submitted.").wait_for()
        assert [each for each in complaints if "422" not in each] == []
    assert TrainingRun.objects.get().spec["command"] == ["sh", "-c", "echo one\necho two"]
