from __future__ import annotations

import re
from html import unescape

import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile

from foundation import clock
from inference.models import Endpoint
from jobs.models import TrainingRun
from teams.secret_names import record_secret
from tests.factories.teams import ACTOR
from workloads.models import Workload

pytestmark = pytest.mark.django_db
NEW = "/runs/new/"


def filled(**values) -> dict:
    return {
        "team": "vision",
        "name": "resnet50",
        "image": "registry.example.org/train:1.4",
        "command": "python\r\ntrain.py\r\n--name=it's; rm -rf $HOME",
        "env": "EPOCHS=10\r\nEMPTY=\r\nURL=a=b",
        "flavor": "a100-40gb",
        "gpus": "2",
        "cpu": "4",
        "memory": "16Gi",
        "capacity": "on-demand",
        "priority": "normal",
        "time_limit": "1d 2h",
        "retries": "3",
        "volumes": "datasets:/data:ro\r\nckpt:/checkpoints",
        "checkpoint_path": "/checkpoints",
        "labels": "project=x",
        "file_name": ["train.py", ""],
        "file_content": ["print(1)\r\n", ""],
        "action": "submit",
        **values,
    }


def text(response) -> str:
    return unescape(response.content.decode())


def token_of(response) -> str:
    return re.search(r'name="token" value="([0-9a-f]{32})"', response.content.decode())[1]


def test_the_form_submits_what_it_says(ana, world):
    response = ana.post(NEW, filled())
    workload = Workload.objects.get()
    assert (response.status_code, response["Location"]) == (303, f"/runs/{workload.public_id}/")
    spec = TrainingRun.objects.get().spec
    assert spec["command"] == ["python", "train.py", "--name=it's; rm -rf $HOME"]
    assert spec["env"] == [
        {"name": "EPOCHS", "value": "10"},
        {"name": "EMPTY", "value": ""},
        {"name": "URL", "value": "a=b"},
    ]
    assert spec["volumes"][0] == {"claim": "datasets", "path": "/data", "read_only": True}
    assert spec["checkpoint"]["path"] == "/checkpoints"
    assert spec["source"]["files"] == {"train.py": "print(1)\n"}
    assert (spec["time_limit_seconds"], spec["max_retries"], spec["labels"]) == (93600, 3, {"project": "x"})
    assert workload.owner == world.ana


def test_variables_come_from_secrets_and_what_is_wrong_is_said_at_its_line(ana, world):
    now = clock.now()
    record_secret(team=world.team, name="hf", keys=["token"], written_here=True, actor=ACTOR, now=now)
    typed = "HF_TOKEN=hf/token\n\nOTHER=hf/missing"
    response = ana.post(NEW, filled(env_secrets=typed))
    assert response.context["form"].errors == {
        "env_secrets": ["Line 2: Secret hf has no key missing; it has: token."]
    }
    response = ana.post(NEW, filled(env_secrets="HF_TOKEN"))
    assert response.context["form"].errors == {"env_secrets": ["Line 1: write NAME=secret/key."]}
    response = ana.post(NEW, filled(env_secrets="HF_TOKEN=hf/token"))
    assert response.status_code == 303
    assert TrainingRun.objects.get().spec["env"][-1] == {"name": "HF_TOKEN", "secret": "hf", "key": "token"}
    again = ana.get(f"{NEW}?from={Workload.objects.get().public_id}").context["form"].initial
    assert again["env_secrets"] == "HF_TOKEN=hf/token"
    assert "HF_TOKEN" not in again["env"]


def test_a_repository_is_brought_instead_of_files(ana, world):
    git = {"git_url": "https://git.example.org/x.git", "git_ref": "v1", "git_subdir": "train"}
    response = ana.post(NEW, filled(**git))
    assert response.context["form"].errors == {"git_url": ["Give files or a repository; not both."]}
    none = {"file_name": "", "file_content": ""}
    response = ana.post(NEW, filled(**none, **{**git, "git_ref": "--all"}))
    assert list(response.context["form"].errors) == ["git_ref"]
    response = ana.post(NEW, filled(**none, **git, git_secret="missing"))
    assert "The portal knows no secret missing" in response.context["form"].errors["git_secret"][0]
    assert ana.post(NEW, filled(**none, **git)).status_code == 303
    source = TrainingRun.objects.get().spec["source"]
    assert source["git"] == {"url": git["git_url"], "ref": "v1", "subdir": "train", "secret": None}
    again = ana.get(f"{NEW}?from={Workload.objects.get().public_id}").context["form"].initial
    assert {name: again[name] for name in git} == git


def test_uploaded_files_come_along(ana, world):
    files = [SimpleUploadedFile("a.py", b"A = 1\n"), SimpleUploadedFile("b.txt", "ü\n".encode())]
    assert ana.post(NEW, filled(upload=files)).status_code == 303
    assert TrainingRun.objects.get().spec["source"]["files"] == {
        "train.py": "print(1)\n",
        "a.py": "A = 1\n",
        "b.txt": "ü\n",
    }


def test_a_file_that_is_no_text_is_refused_and_the_other_one_is_kept(ana, world):
    files = [SimpleUploadedFile("a.bin", b"\xff\xfe\x00"), SimpleUploadedFile("b.py", b"B = 2\n")]
    response = ana.post(NEW, filled(upload=files))
    assert response.status_code == 422
    assert "a.bin is not a text file" in text(response)
    assert "B = 2" in text(response)


def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_is_kept(ana, world):
    sent = filled(name="Not Right", image="UPPER", env="1X=2", cpu="lots", time_limit="soon", retries="many")
    response = ana.post(NEW, sent)
    html = response.content.decode()
    assert response.status_code == 422
    assert not Workload.objects.exists()
    for name in ("name", "image", "env", "cpu", "time_limit", "retries"):
        control = re.search(rf'<(?:input|textarea)[^>]*name="{name}"[^>]*>', html)[0]
        assert 'aria-invalid="true"' in control
        assert f"id_{name}_error" in re.search(r'aria-describedby="([^"]+)"', control)[1]
        assert f'id="id_{name}_error"' in html
        assert f'<a href="#id_{name}">' in html
    for kept in (
        "Not Right",
        "UPPER",
        "1X=2",
        "lots",
        "soon",
        "many",
        "--name=it's; rm -rf $HOME",
        "print(1)",
    ):
        assert kept in text(response)
    assert re.search(r'id="summary" tabindex="-1" autofocus', html)


@pytest.mark.parametrize(
    ("values", "field", "said"),
    [
        ({"gpus": "64"}, "gpus", "No node can hold 64"),
        ({"name": "taken"}, "name", "already has a live training-run named taken"),
        ({"priority": "high"}, "priority", "Only a lead of team vision"),
    ],
)
def test_what_the_service_refuses_is_said_at_its_field(ana, world, values, field, said):
    world.run("taken")
    response = ana.post(NEW, filled(**values))
    assert response.status_code == 422
    assert said in text(response)
    assert f'id="id_{field}_error"' in text(response)


def test_a_team_that_is_not_yours_is_told_apart_from_nothing(ana, world):
    foreign, unknown = ana.post(NEW, filled(team="speech")), ana.post(NEW, filled(team="nobody"))
    assert foreign.status_code == unknown.status_code == 422
    strip = re.compile(
        r'speech|nobody|csrfmiddlewaretoken[^>]*|[0-9a-f]{32}|-- *value=.*|data-age="[^>]*>[^<]*'
    )
    assert strip.sub("", text(foreign)) == strip.sub("", text(unknown))


def test_sending_a_form_twice_makes_one_run(ana, world):
    token = token_of(ana.get(NEW))
    first, second = ana.post(NEW, filled(token=token)), ana.post(NEW, filled(token=token))
    assert first["Location"] == second["Location"]
    assert Workload.objects.count() == 1


def test_a_form_that_was_refused_may_be_sent_again(ana, world):
    token = token_of(ana.get(NEW))
    refused = ana.post(NEW, filled(token=token, gpus="64"))
    assert token_of(refused) == token
    assert ana.post(NEW, filled(token=token)).status_code == 303


def test_checking_shows_what_would_happen_and_makes_nothing(ana, world):
    response = ana.post(NEW, filled(action="check"))
    assert response.status_code == 200
    for fact in ("Starts now", "$5.49", "$142.72", "0 → 2 of 16"):
        assert fact in text(response)
    assert "--name=it's; rm -rf $HOME" in text(response)
    assert not Workload.objects.exists()


def as_yaml(html: str) -> dict:
    """What the form says it would send."""
    return yaml.safe_load(re.search(r'<pre id="body-yaml">(.*?)</pre>', html, re.DOTALL)[1])


def test_the_form_as_yaml_and_curl_is_what_rest_takes(ana, world):
    html = text(ana.post(NEW, filled(action="check")))
    body = as_yaml(html)
    assert body["command"] == ["python", "train.py", "--name=it's; rm -rf $HOME"]
    assert ana.post("/api/v1/training-runs/", body, content_type="application/json").status_code == 201
    assert "it'\\''s" in re.search(r'<pre id="body-curl">(.*?)</pre>', html, re.DOTALL)[1]


def test_the_flavors_show_price_memory_and_what_the_team_has_left(ana, made):
    html = text(ana.get(NEW))
    for fact in ("40 GiB", "$2.74/h", "6 of 16 left", "6 of 16 free", "no quota"):
        assert fact in html


@pytest.mark.parametrize("address", ["/runs/new/", "/endpoints/new/"])
def test_every_gpu_and_none_can_be_chosen(ana, world, address):
    offered = re.findall(r'<input type="radio" name="flavor" value="([^"]*)"', text(ana.get(address)))
    assert sorted(offered) == ["", "a100-40gb", "a100-mig-1g.10gb", "t4-shared"]


def test_an_endpoint_is_deployed_and_changed(ana, world):
    sent = filled(
        name="digits", flavor="a100-mig-1g.10gb", gpus="1", replicas="2", port="9000", readiness_path="/ok"
    )
    for name in ("checkpoint_path", "time_limit", "retries"):
        sent.pop(name)
    assert ana.post("/endpoints/new/", sent).status_code == 303
    endpoint = Endpoint.objects.get()
    assert (endpoint.parsed.min_replicas, endpoint.parsed.ports.http) == (2, 9000)
    url = f"/endpoints/{endpoint.workload.public_id}/update/"
    response = ana.post(
        url, sent | {"image": "registry.example.org/train:2.0", "gpus": "7", "made_from": "1"}
    )
    assert response.status_code == 303
    endpoint.refresh_from_db()
    assert (endpoint.revision, endpoint.parsed.image) == (2, "registry.example.org/train:2.0")
    assert endpoint.parsed.gpus_per_replica == 1
    refused = ana.post(url, sent | {"port": "never", "made_from": "2"})
    assert refused.status_code == 422
    assert 'value="never"' in text(refused)


def test_an_endpoint_is_deleted_only_by_its_name(ana, made):
    endpoint = made["digits"]
    url = f"/endpoints/{endpoint.public_id}/delete/"
    html = ana.post(url, {"confirm": "digit"}, follow=True).content.decode()
    dialog = re.search(r'<div ([^>]*)id="confirm-delete".*?</form>', html, re.DOTALL)
    assert "popover" not in dialog[1], "it stands open"
    assert "type digits to delete it" in dialog[0]
    assert Workload.objects.get(pk=endpoint.pk).desired == "run"
    ana.post(url, {"confirm": "digits"})
    assert Workload.objects.get(pk=endpoint.pk).desired == "cancel"


@pytest.mark.parametrize(
    ("command", "name", "desired"), [("stop", "digits", "suspend"), ("start", "captions", "run")]
)
def test_an_endpoint_is_stopped_and_started(ana, made, command, name, desired):
    ana.post(f"/endpoints/{made[name].public_id}/{command}/")
    assert Workload.objects.get(pk=made[name].pk).desired == desired


def test_trying_an_endpoint_that_is_not_up_says_so_and_keeps_what_was_typed(ana, made):
    sent = {"method": "PUT", "path": "/v1/<b>", "body": '{"a": "<script>"}'}
    response = ana.post(f"/endpoints/{made['captions'].public_id}/try/", sent)
    html = response.content.decode()
    assert "nothing can answer now" in html
    assert 'value="/v1/&lt;b&gt;"' in html
    assert "&lt;script&gt;" in html
    assert '<option value="PUT" selected>PUT</option>' in html


@pytest.mark.parametrize("sent", [{"method": "TRACE", "path": "/"}, {"method": "GET", "path": "x"}])
def test_a_try_that_makes_no_sense_is_refused(ana, made, sent):
    assert ana.post(f"/endpoints/{made['digits'].public_id}/try/", sent).status_code == 422


@pytest.mark.parametrize("kind", ["runs", "endpoints"])
def test_who_may_submit_nowhere_is_told_so(viewer, kind):
    page = viewer.get(f"/{kind}/new/")
    assert page.status_code == 403
    assert f"You may not submit {kind} in any team." in page.text
