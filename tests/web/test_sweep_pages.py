"""A sweep in the browser's way: written as lines, previewed, submitted, looked at and cancelled by forms."""

from __future__ import annotations

import re
from html import unescape

import pytest

from foundation import clock
from foundation.models import PlatformSettings
from jobs.models import Sweep
from jobs.sweeps.services import advance_sweep
from jobs.sweeps.written import can_be_written, read_parameters, written_parameters
from tests.api.bench import Bench
from tests.factories.submitted import move, run_body
from tests.factories.teams import make_member, make_user
from workloads.models import Workload
from workloads.states import Phase

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def standing_bench(stands):
    return stands(Bench)


@pytest.fixture
def bench(own, standing_bench, settings) -> Bench:
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    return own(standing_bench)


@pytest.fixture
def ana(bench, client):
    client.force_login(bench.user)
    return client


def form(**values: str) -> dict[str, str]:
    return {
        "team": "vision",
        "name": "lr",
        "image": "example.org/train:1",
        "command": "python train.py --lr=${{ matrix.lr }}",
        "flavor": "a100-40gb",
        "gpus": "1",
        "replicas": "1",
        "capacity": "on-demand",
        "priority": "normal",
        "time_limit": "1h",
        "parameters": "lr = 0.1, 0.01\nseed = 1..3",
        "action": "submit",
        **values,
    }


def words(html: bytes) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html.decode())).split())


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("lr = 0.1, 1e-3", [0.1, 0.001]),
        ("size=small,large", ["small", "large"]),
        ('x = "1", true, yes', ["1", True, "yes"]),
        ("seed = 1..5", {"from": 1, "to": 5}),
        ("lr = 0.1 .. 0.5 step 0.1", {"from": 0.1, "to": 0.5, "step": 0.1}),
        ("path = a/../b", ["a/../b"]),
        ("q = a=b, c", ["a=b", "c"]),
        ('p = "hello, world", b', ["hello, world", "b"]),
        ('p = "1..5", "say \\"so\\""', ["1..5", 'say "so"']),
        ("seed = 01..05", {"from": 1, "to": 5}),
    ],
)
def test_lines_are_read_as_what_they_say_and_written_again_the_same(line, values):
    (read,) = read_parameters(line).values()
    assert read == values
    assert read_parameters(written_parameters({"p": read})) == {"p": read}


@pytest.mark.parametrize("value", ["a, b", "a b", "1..5", "true", "1", "", " a", "a\nb", '"', "[[[" * 10**5])
def test_every_text_can_be_written_as_a_line(value):
    assert can_be_written({"p": [value, "c"]})


@pytest.mark.parametrize(
    "line",
    [
        "lr",
        "lr =",
        "= 1",
        "lr = 1\nlr = 2",
        "x = 1..5, 9",
        "x = 1..3 step",
        'x = "a',
        'x = "a" b',
        f"x = {'9' * 5000}",
    ],
)
def test_what_is_no_line_is_named(line):
    with pytest.raises(ValueError, match="Line"):
        read_parameters(line)


def test_the_form_previews_and_submits_a_sweep_and_leads_to_its_page(ana):
    headers = {"HX-Request": "true", "HX-Target": "preview"}
    preview = words(ana.post("/runs/new/", form(action="check"), headers=headers).content)
    assert "Members 6 all wait at once Start now 6" in preview, preview
    response = ana.post("/runs/new/", form())
    assert response.status_code == 303, words(response.content)
    sweep = Sweep.objects.get()
    assert response["Location"] == f"/sweeps/{sweep.public_id}/"
    assert Workload.objects.count() == 6
    page = words(ana.get(response["Location"]).content)
    for said in ("lr-1", "lr-6", "0 of 6 ended", "6 queued", "Why the next one waits", "0.01"):
        assert said in page


def test_a_second_click_makes_no_second_sweep(ana):
    token = re.search(r'name="token" value="([0-9a-f]+)"', ana.get("/runs/new/").content.decode())
    assert token
    answers = [ana.post("/runs/new/", form(token=token[1])) for _ in range(2)]
    assert answers[0]["Location"] == answers[1]["Location"]
    assert Sweep.objects.count() == 1


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"parameters": "lr"}, "write name = value"),
        ({"parameters": "LR = 1"}, "A parameter&#x27;s name begins"),
        ({"parameters": "rate = 1"}, "no parameter &#x27;lr&#x27;"),
        ({"max_parallel": "many"}, "whole number"),
        ({"max_parallel": "0"}, "greater than or equal to 1"),
        ({"stop_metric": "loss"}, "Give target"),
        ({"stop_target": "x", "stop_metric": "loss"}, "number"),
        ({"parameters": "", "max_parallel": "4", "command": "train"}, "This field is required"),
        ({"parameters": "lr = " + "9" * 400}, "a number up to"),
        ({"parameters": "lr = 0..1 step 1e-300"}, "1 to 1000 values"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_nothing_typed_is_lost(ana, typed, said):
    response = ana.post("/runs/new/", form(**typed))
    html = response.content.decode()
    assert response.status_code == 422
    assert said in html
    for value in typed.values():
        assert value in html
    assert not Sweep.objects.exists()


def test_the_page_of_a_member_leads_to_its_sweep(ana):
    ana.post("/runs/new/", form(max_parallel="2"))
    sweep = Sweep.objects.get()
    member = sweep.members.get(number=6).workload
    page = ana.get(f"/runs/{member.public_id}/").content
    assert f'href="/sweeps/{sweep.public_id}/"' in page.decode()
    assert "member 6 of 6: lr 0.01, seed 3" in words(page)
    assert "At most 2 members of the sweep lr" in words(page)


def test_the_list_of_sweeps_is_a_click_from_the_runs(ana):
    ana.post("/runs/new/", form())
    assert 'href="/sweeps/"' in ana.get("/runs/").content.decode()
    assert "0 of 6" in words(ana.get("/sweeps/").content)
    assert "0 of 6" in words(ana.get("/teams/vision/sweeps/").content)
    begin = re.search(
        r'href="(/runs/new/[^"#]+)#section-sweep"', ana.get("/teams/vision/sweeps/").content.decode()
    )
    html = ana.get(begin[1].replace("&amp;", "&")).content.decode()
    assert 'id="section-sweep" open' in html
    assert 'id="section-sweep" open' not in ana.get("/runs/new/").content.decode()


def test_buttons_change_the_number_at_once_and_cancel(ana):
    ana.post("/runs/new/", form(max_parallel="1"))
    sweep = Sweep.objects.get()
    path = f"/sweeps/{sweep.public_id}/"
    assert ana.post(f"{path}parallel/", {"max_parallel": "x"})["Location"] == path
    assert "Not changed" in words(ana.get(path).content)
    ana.post(f"{path}parallel/", {"max_parallel": "4"})
    assert Workload.objects.filter(desired="run").count() == 4
    ana.post(f"{path}cancel/")
    assert Workload.objects.filter(desired="cancel").count() == 6
    assert "is being cancelled" in words(ana.get(path).content)
    again = ana.post(f"{path}cancel/", follow=True)
    assert "The sweep lr is being cancelled." in words(again.content)


def test_pages_of_sweeps_ask_no_more_than_others(ana, django_assert_max_num_queries):
    for number in range(3):
        ana.post("/runs/new/", form(name=f"lr-{number}", max_parallel="2"))
    path = f"/sweeps/{Sweep.objects.earliest('id').public_id}/"
    ana.get(path)
    with django_assert_max_num_queries(12):
        ana.get(path)
    with django_assert_max_num_queries(8):
        ana.get("/sweeps/")


def test_a_viewer_sees_the_same_and_no_buttons(ana, bench, client):
    ana.post("/runs/new/", form(stop_metric="loss", stop_median="30"))
    sweep = Sweep.objects.get()
    viewer = make_member("viewer", team=bench.team, user=make_user("vic")).user
    client.force_login(viewer)
    html = client.get(f"/sweeps/{sweep.public_id}/").content.decode()
    assert "median rule after 30 %" in html
    assert "do-cancel" not in html


def test_a_sweep_that_ended_asks_for_nothing_any_more(ana):
    ana.post("/runs/new/", form(parameters="lr = 0.1"))
    sweep = Sweep.objects.get()
    live = ana.get(f"/sweeps/{sweep.public_id}/").content.decode()
    assert "hx-trigger" in live.split('id="live"')[1][:300]
    move(sweep.members.get().workload, Phase.SUCCEEDED)
    advance_sweep(sweep_id=sweep.public_id, now=clock.now())
    html = ana.get(f"/sweeps/{sweep.public_id}/").content.decode()
    assert "1 of 1 ended" in words(html.encode())
    assert "hx-trigger" not in html.split('id="live"')[1][:300]


@pytest.mark.matrix
def test_a_page_of_a_thousand_members_asks_little_and_shows_a_hundred(ana, django_assert_max_num_queries):
    ana.post("/runs/new/", form(parameters="lr = 0.1\nseed = 1..1000", max_parallel="5"))
    path = f"/sweeps/{Sweep.objects.get().public_id}/"
    ana.get(path)
    with django_assert_max_num_queries(12):
        html = ana.get(f"{path}?from=901").content.decode()
    assert "901 to 1000 of 1000" in words(html.encode())
    assert html.count('id="row-') == 100
    assert "lr-1000" in html
    for odd in ("0", "-5", "x", "99999"):
        assert ana.get(path, {"from": odd}).status_code == 200


def test_a_request_with_a_matrix_stands_in_the_inputs_and_not_in_the_further_fields(ana):
    from jobs.forms import values_of

    given = run_body("vision", matrix={"parameters": {"text": ["a, b", "c"]}})
    assert values_of(given)["parameters"] == 'text = "a, b", c'
    said = values_of(run_body("vision", matrix={"parameters": {"lr": [0.1]}, "max_parallel": 3}))
    assert (said["parameters"], said["max_parallel"], "matrix" in said["more"]) == ("lr = 0.1", "3", False)


def test_one_sweep_too_many_is_said_at_the_parameters(ana):
    PlatformSettings.objects.update_or_create(pk=1, defaults={"open_sweeps": 0})
    response = ana.post("/runs/new/", form())
    assert response.status_code == 422
    assert "has 0 open sweeps, and 0 is the most" in words(response.content)
    assert not Sweep.objects.exists()
