"""States above the lists of runs and endpoints, filters that act while somebody types, and views that are kept."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from console.models import SavedView
from console.pages import chips
from console.pages.queries import visible_workloads
from console.saved_views import VIEWS_MAX, save_view
from foundation import clock
from foundation.errors import Invalid
from inference.pages.list_states import ENDPOINT_STATES, ORDER, state_of
from teams.actors import Actor
from teams.models import AuditEvent, SecretName
from tests.api.test_lists_by_index import grow
from tests.plans import rows_read
from tests.web.browsing import chromium, faults, needs_chromium, open_page, session_of
from tests.web.conftest import signed_in
from tests.web.test_analytics import count, scaled
from workloads.models import Workload
from workloads.states import FINAL, REASONS, Desired, Phase

pytestmark = pytest.mark.django_db
FOUND = {"HX-Request": "true", "HX-Target": "found"}


def names(response) -> list[str]:
    return re.findall(r'class="name" id="row-[^>]*>([^<]+)<', response.content.decode())


def counts(response) -> dict[str, str]:
    """What the chips count, without those of nothing."""
    found = {chip.label: chip.count_words for chip in response.context["chips"]}
    return {label: words for label, words in found.items() if words != "0"}


def test_chips_count_what_is_in_each_phase(ana, made):
    every = {"All": "6", "Live": "3", "Queued": "1", "Starting": "1", "Running": "1"}
    ended = {"Succeeded": "1", "Failed": "1", "Cancelled": "1"}
    assert counts(ana.get("/runs/")) == every | ended
    # Of all the other filters, whatever state is chosen.
    assert counts(ana.get("/runs/?search=re&phase=Failed")) == {"All": "1", "Live": "1", "Running": "1"}
    assert '<span class="chip-count">6</span>' in ana.get("/runs/").content.decode()


def test_chips_count_no_rows_of_others(stranger, made):
    assert counts(stranger.get("/runs/")) == {}
    assert counts(stranger.get("/endpoints/")) == {}


def test_beyond_what_is_counted_a_chip_says_that_there_are_more(ana, made, monkeypatch):
    monkeypatch.setattr(chips, "COUNTED_MAX", 2)
    shown = counts(ana.get("/runs/"))
    assert (shown["All"], shown["Live"], shown["Queued"]) == ("2+", "2+", "1")


def test_of_much_that_words_find_each_chip_says_that_there_may_be_more(ana, made, monkeypatch):
    of_ana = counts(ana.get("/runs/?mine=1"))
    assert (of_ana["All"], of_ana["Live"], "Failed" in of_ana) == ("5", "3", False)
    monkeypatch.setattr(chips, "READ_MAX", 2)
    shown = {chip.label: chip.count_words for chip in ana.get("/runs/?mine=1").context["chips"]}
    assert shown["All"] == "2+"
    assert set(shown.values()) <= {"2+", "1+", "0+"}


def test_all_chips_are_counted_in_one_query_that_reads_no_more_than_it_says(ana, made):
    with CaptureQueriesContext(
        connection,
    ) as asked:
        ana.get("/runs/")
    counted = [each["sql"] for each in asked if "AS counted" in each["sql"]]
    assert len(counted) == 1
    assert counted[0].count("LIMIT 101") == len(Phase)


@pytest.mark.parametrize("narrowed", [False, True])
def test_counting_reads_no_more_of_a_long_past_than_is_counted(made, world, monkeypatch, narrowed):
    monkeypatch.setattr(chips, "COUNTED_MAX", 20)
    monkeypatch.setattr(chips, "READ_MAX", 100)
    old = clock.now() - timedelta(days=30)
    ended = {"finished_at": old, "since": old, "created_at": old}
    grow(made["unet-3d"], 900, phase=lambda number: ("Failed", "Succeeded")[number % 2], **ended)
    mine = visible_workloads(world.ana, kind=made["unet-3d"].kind)
    read = rows_read(lambda: chips.chips_of(mine, chips.PHASES, narrowed=narrowed))
    # All, live and each phase once at most, and what says which teams are hers.
    assert read <= 12 * 21 + 30


def test_an_endpoints_list_has_the_states_of_endpoints(ana, made):
    answer = ana.get("/endpoints/")
    assert [chip.label for chip in answer.context["chips"]] == ["All", "Live", *ORDER]
    assert counts(answer) == {"All": "2", "Live": "2", "Ready": "1", "Stopped": "1"}
    assert names(ana.get("/endpoints/?state=stopped")) == ["captions"]
    assert names(ana.get("/endpoints/?state=ready")) == ["digits"]
    assert names(ana.get("/endpoints/?state=live&search=cap")) == ["captions"]
    assert ana.get("/endpoints/?state=Queued").status_code == 400
    html = answer.content.decode()
    row = next(each for each in html.split("<tr>") if ">captions<" in each)
    assert "Stopped</span>" in row
    assert "Suspended</span>" not in row


def test_an_old_link_by_phase_still_filters_endpoints(ana, made):
    assert names(ana.get("/endpoints/?phase=Suspended")) == ["captions"]
    assert ana.get("/endpoints/?phase=Odd").status_code == 400


def test_each_state_of_an_endpoint_is_on_one_chip(made):
    mine = Workload.objects.filter(pk=made["digits"].pk)
    # An endpoint does not succeed: it does not end by itself.
    reasons = {phase: all_of for phase, all_of in REASONS.items() if phase != Phase.SUCCEEDED}
    for phase, reason in [(phase, reason) for phase, all_of in reasons.items() for reason in all_of]:
        # What has ended does not come back: each is tried in a look of its own.
        before = transaction.savepoint()
        ended = clock.now() if phase in FINAL else None
        mine.update(phase=phase.value, reason=reason.value, finished_at=ended)
        fits = [each.label for each in ENDPOINT_STATES[1:] if mine.filter(each.where).exists()]
        assert fits == [state_of(mine.get())], (phase, reason)
        transaction.savepoint_rollback(before)


def test_what_is_typed_swaps_the_list_with_its_chips_and_puts_the_filter_into_the_address(ana, made):
    current = {**FOUND, "HX-Current-URL": "http://testserver/runs/"}
    answer = ana.get("/runs/?search=re&label=&team=", headers=current)
    html = answer.content.decode()
    assert html.strip().startswith('<div id="found"')
    assert "<html" not in html
    assert answer["HX-Push-Url"] == "/runs/?search=re"
    assert "/runs/export.csv?search=re" in html
    assert re.search(r'id="found-said"[^>]*hx-swap-oob="innerHTML">\s*1 fits the filter\.', html)
    again = ana.get(
        "/runs/?search=re", headers={**FOUND, "HX-Current-URL": "http://testserver/runs/?search=re"}
    )
    assert again["HX-Push-Url"] == "false"


def test_a_list_that_comes_anew_brings_its_chips_along(ana, made):
    html = ana.get("/runs/", headers={"HX-Request": "true", "HX-Target": "list"}).content.decode()
    assert 'id="chips" hx-swap-oob="true"' in html
    assert "hx-swap-oob" not in ana.get("/runs/").content.decode()


def saved(client, **values):
    return client.post("/views/", {"kind": "training-run", "name": "Mine", "query": "", **values})


def test_filters_are_saved_under_a_name_and_taken_up_again(ana, made):
    kind = made["resnet50"].kind
    answer = saved(
        ana, kind=kind, name=" Failed  of mine ", query="phase=Failed&mine=1&cursor=x&evil=1&label="
    )
    assert answer["Location"] == "/runs/?phase=Failed&mine=1"
    html = ana.get("/runs/").content.decode()
    assert re.search(r'href="/runs/\?phase=Failed&amp;mine=1">Failed of mine</a>', html)
    assert 'aria-current="true">Failed of mine</a>' in ana.get("/runs/?phase=Failed&mine=1").content.decode()
    assert "Failed of mine" not in ana.get("/endpoints/").content.decode()


def test_the_list_of_a_team_is_saved_with_its_team(ana, made):
    html = ana.get("/teams/vision/endpoints/?state=ready").content.decode()
    assert 'name="query" value="state=ready&amp;team=vision"' in html


def test_a_name_that_is_used_again_takes_the_new_filters(ana, world, made):
    kind = made["resnet50"].kind
    for query in ("phase=Failed", "phase=Queued"):
        saved(ana, kind=kind, query=query)
    assert list(SavedView.objects.values_list("user", "query")) == [(world.ana.pk, "phase=Queued")]


def test_views_are_the_persons_own(ana, world, made):
    kind = made["resnet50"].kind
    saved(ana, kind=kind)
    view = SavedView.objects.get()
    lead = signed_in(world.lead)
    assert ">Mine</a>" not in lead.get("/runs/").content.decode()
    assert lead.post(f"/views/{view.public_id}/delete/").status_code == 404
    assert ana.post(f"/views/{view.public_id}/delete/")["Location"] == "/runs/"
    assert not SavedView.objects.exists()
    told = AuditEvent.objects.filter(target_kind="saved_view").order_by("id")
    assert list(told.values_list("action", flat=True)) == ["saved_view.save", "saved_view.delete"]


@pytest.mark.parametrize(
    ("values", "field", "code"),
    [
        ({"name": " "}, "name", "required"),
        ({"name": "a\0b"}, "name", "required"),
        ({"name": "x" * 61}, "name", "too_long"),
        ({"query": "search=" + "x" * 1000}, "query", "too_long"),
    ],
)
def test_a_view_that_cannot_be_is_refused_by_name(world, values, field, code):
    wanted = {"name": "Mine", "query": "", "kind": "run", **values}
    with pytest.raises(Invalid) as refused:
        save_view(actor=Actor.of_user(world.ana), now=clock.now(), **wanted)
    (error,) = refused.value.errors
    assert (error.field, error.code) == (field, code)


def test_nobody_keeps_more_views_than_the_most(world):
    for number in range(VIEWS_MAX):
        save_view(actor=Actor.of_user(world.ana), kind="run", name=f"{number}", query="", now=clock.now())
    save_view(actor=Actor.of_user(world.ana), kind="run", name="0", query="mine=1", now=clock.now())
    with pytest.raises(Invalid, match="the most"):
        save_view(actor=Actor.of_user(world.ana), kind="run", name="one more", query="", now=clock.now())


def test_the_database_keeps_a_name_once(world):
    values = {"user": world.ana, "kind": "run", "name": "Mine", "created_at": clock.now()}
    SavedView.objects.create(**values)
    with pytest.raises(IntegrityError, match="saved_view_name_unique"):
        SavedView.objects.create(**values)


def test_a_view_that_is_refused_is_said_on_the_list(ana, made):
    answer = ana.post(
        "/views/", {"kind": made["digits"].kind, "name": "", "query": "state=ready"}, follow=True
    )
    assert answer.redirect_chain == [("/endpoints/?state=ready", 303)]
    assert "Give the view a name." in answer.content.decode()
    assert ana.post("/views/", {"kind": "odd", "name": "x"}).status_code == 404


def dialog(client, url) -> tuple[str, dict[str, str]]:
    html = client.get(url).content.decode()
    form = re.search(r'<form class="dialog".*?</form>', html, re.DOTALL)[0]
    action = re.search(r'action="([^"]+)"', form)[1].replace("&amp;", "&")
    return action, dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))


def test_endpoints_are_deleted_together_once_their_number_is_typed(ana, world, made):
    world.endpoint("captions-2")
    html = ana.get("/endpoints/?search=captions").content.decode()
    url = re.search(r'href="([^"]+)"[^>]*>Delete these…', html)[1].replace("&amp;", "&")
    action, hidden = dialog(ana, url)
    refused = ana.post(action, {**hidden, "confirm": "3"})
    assert refused.status_code == 422
    assert "Nothing was done: type how many that are, 2." in refused.content.decode()
    assert not Workload.objects.filter(desired=Desired.CANCEL).exclude(phase=Phase.CANCELLED).exists()
    done = ana.post(action, {**hidden, "confirm": "2"}, follow=True)
    assert "2 endpoints are being deleted." in done.content.decode()
    asked = Workload.objects.filter(kind=made["digits"].kind, desired=Desired.CANCEL)
    assert set(asked.values_list("name", flat=True)) == {"captions", "captions-2"}


@pytest.mark.parametrize("path", ["/runs/", "/endpoints/"])
def test_an_empty_list_names_the_filters_that_leave_nothing(ana, made, path):
    def said(query: str) -> str:
        return re.search(r"There are \w+, but none.*", ana.get(path + query).content.decode())[0].strip()

    noun = path.strip("/")
    assert said("?search=odd") == f"There are {noun}, but none with “odd” in its name."
    assert said("?search=odd&mine=1") == f"There are {noun}, but none with “odd” in its name of yours."


def test_endpoints_are_labelled_together(ana, made):
    action, hidden = dialog(ana, "/endpoints/bulk/?action=label&state=ready")
    done = ana.post(action, {**hidden, "labels": "stage=production"}, follow=True)
    assert "1 endpoint is labelled." in done.content.decode()
    again = ana.post(action, {**hidden, "expected": "7", "labels": "stage=production"}).content.decode()
    assert "1 more fits the filter and has these labels already." in again
    assert Workload.objects.get(pk=made["digits"].pk).labels == {"stage": "production"}
    assert Workload.objects.get(pk=made["captions"].pk).labels == {}


def test_a_viewer_commands_no_endpoints_together(viewer, made):
    assert "these…" not in viewer.get("/endpoints/?search=digits").content.decode()
    assert viewer.get("/endpoints/bulk/?action=cancel&search=digits").status_code == 403


def test_an_endpoint_is_cloned_with_a_free_name_and_its_secrets_as_references(ana, world):
    SecretName.objects.create(team=world.team, name="hf", keys=["token"])
    env = [{"name": "LEVEL", "value": "2"}, {"name": "HF_TOKEN", "secret": "hf", "key": "token"}]
    endpoint = world.endpoint("reader", env=env, max_replicas=3, scaling={"trigger": "cpu", "threshold": 70})
    html = ana.get(f"/endpoints/{endpoint.public_id}/").content.decode()
    link = re.search(r'id="clone"[^>]*href="([^"]+)"', html)[1]
    form = ana.get(link).context["form"]
    values = {name: form[name].value() for name in ("name", "env", "env_secrets", "max_replicas", "trigger")}
    assert values == {
        "name": "reader-2",
        "env": "LEVEL=2",
        "env_secrets": "HF_TOKEN=hf/token",
        "max_replicas": "3",
        "trigger": "cpu",
    }


def test_a_viewer_is_offered_no_clone(viewer, made):
    assert 'id="clone"' not in viewer.get(f"/endpoints/{made['digits'].public_id}/").content.decode()


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_a_filter_acts_while_somebody_types_and_back_undoes_it(live_server, world, made):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/runs/")
        box = page.get_by_role("searchbox", name="Words of the name, or an id")
        # At once: who types slower than the list waits has a step of the history for each pause.
        box.fill("res")
        page.wait_for_url("**/runs/?search=res")
        page.get_by_role("link", name="bert-large").wait_for(state="detached")
        assert page.get_by_role("link", name="resnet50").is_visible()
        assert page.evaluate("document.activeElement.id") == "filter-search"
        page.get_by_role("status").filter(has_text="1 fits the filter.").wait_for()
        assert faults(page) == []
        page.get_by_label("Only mine").check()
        page.wait_for_url("**/runs/?search=res&mine=1")
        page.go_back()
        page.wait_for_url("**/runs/?search=res")
        page.get_by_role("link", name="resnet50").wait_for()
        page.go_back()
        page.get_by_role("link", name="bert-large").wait_for()
        assert urlsplit(page.url).query == ""
        page.get_by_text("Views", exact=True).click()
        page.get_by_label("Name for these filters").fill("Everything")
        page.get_by_role("button", name="Save this view").click()
        page.get_by_role("link", name="Everything").wait_for()
        assert faults(page) == []
        assert complaints == []


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_the_last_filter_wins_over_a_slow_one_and_nothing_is_said_in_the_console(live_server, world, made):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/runs/")
        held = []
        page.route("**/runs/?*", lambda route: route.continue_() if held else held.append(route))
        box = page.get_by_role("searchbox", name="Words of the name, or an id")
        box.fill("res")
        with page.expect_request("**/runs/?search=res*"):
            box.press("Enter")
        box.fill("bert")
        box.press("Enter")
        held[0].continue_()
        page.wait_for_url("**/runs/?search=bert")
        page.get_by_role("link", name="resnet50").wait_for(state="detached")
        page.get_by_role("link", name="bert-large").wait_for()
        assert complaints == []


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_back_twice_shows_the_list_of_the_address_though_the_first_answer_is_slow(live_server, world, made):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/runs/")
        page.get_by_role("searchbox", name="Words of the name, or an id").fill("res")
        page.get_by_role("link", name="bert-large").wait_for(state="detached")
        page.get_by_label("Only mine").check()
        page.wait_for_url("**/runs/?search=res&mine=1")
        held = []

        def hold(route):
            held.append(route)

        page.route("**/runs/?search=res", hold)
        with page.expect_request("**/runs/?search=res"):
            page.go_back()
        with page.expect_event("requestfailed", lambda request: request.url.endswith("/runs/?search=res")):
            page.go_back()
        page.get_by_role("link", name="bert-large").wait_for()
        assert urlsplit(page.url).query == ""
        assert complaints == []
        held[0].continue_()


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_without_scripts_the_button_filters(live_server, world, made):
    session = session_of(world.ana)
    with chromium() as browser:
        page, _ = open_page(browser, live_server.url, session, script=False)
        page.goto("/endpoints/")
        page.get_by_role("searchbox", name="Words of the name, or an id").fill("cap")
        page.get_by_role("button", name="Filter").click()
        page.get_by_role("link", name="captions").wait_for()
        assert page.get_by_role("link", name="digits").count() == 0
        page.get_by_role("link", name=re.compile("^Stopped")).click()
        page.wait_for_url("**search=cap**state=stopped")


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_drawing_over_a_plot_zooms_every_plot_and_the_links_undo_it(live_server, world, made):
    session, endpoint = session_of(world.ana), made["digits"]
    now = clock.now().replace(second=0, microsecond=0)
    for back in range(30, 0, -1):
        count(endpoint, now - timedelta(minutes=back))
    scaled(endpoint, now - timedelta(minutes=30), 2, metric=3.0)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(f"/endpoints/{endpoint.public_id}/?tab=analytics")
        plot = page.locator(".chart-plot[data-from]").first
        box = plot.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 40)
        page.mouse.up()
        page.wait_for_url("**from=**to=**")
        page.locator("#range-wider").wait_for()
        plot = page.locator(".chart-plot[data-from]").first
        minutes = plot.evaluate(
            "each => (Date.parse(each.dataset.to) - Date.parse(each.dataset.from)) / 60000"
        )
        assert 28 <= minutes <= 33
        page.get_by_role("link", name="Zoom out").press("Enter")
        page.get_by_role("link", name="Overview").click()
        page.wait_for_url("**tab=overview&from=**")
        assert faults(page) == []
        assert complaints == []
