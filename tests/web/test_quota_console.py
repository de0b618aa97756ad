"""The console of quota managers: the grid, change sets, requests, cohorts and the rules of teams."""

from __future__ import annotations

import html
import json
import re
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from pages.quotas.grid import CELLS_MAX
from quotas.models import (
    Cohort,
    CohortUsage,
    Preemption,
    Quota,
    QuotaChange,
    QuotaChangeSet,
    QuotaRequest,
    TeamPolicy,
)
from quotas.requests import return_due
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.teams import make_team
from tests.web.conftest import signed_in
from tests.web.quota_world import QuotaWorld
from tests.web.test_escaping import PAYLOADS, harm_in

GRID, DRAFT = "/quotas/", "/quotas/draft/"
VISION, SPEECH = "vision~a100-40gb~on-demand", "speech~a100-40gb~on-demand"
PANEL = {"HX-Request": "true", "HX-Target": "change-set"}


@pytest.fixture
def world(quota_world) -> QuotaWorld:
    return quota_world


@pytest.fixture
def manager(world) -> Client:
    return signed_in(world.manager)


def text_of(response) -> str:
    return response.content.decode()


def sent_back(page: str) -> dict[str, str]:
    """Every field of the page's form with cells, as a browser would send it."""
    fields = re.findall(r'<input id="[^"]*~[^"]*" name="([^"]*)" value="([^"]*)"', page)
    shown = re.search(r'name="shown" value="([^"]*)"', page)[1]
    return {name: html.unescape(value) for name, value in [*fields, ("shown", shown)]}


def edit(client: Client, path: str = GRID, *, headers: dict | None = None, **fields) -> object:
    """Post the whole form of a page with some of its fields changed, and others beside them."""
    changed = {name: str(value) for name, value in fields.pop("cells", {}).items()}
    return client.post(path, sent_back(text_of(client.get(path))) | changed | fields, headers=headers)


def nominal(slug: str) -> int:
    return Quota.objects.get(team__slug=slug, flavor__name="a100-40gb").nominal


# --- who


PATHS = (GRID, DRAFT, "/quotas/changes/", "/quotas/requests/", "/quotas/cohorts/", "/quotas/teams/")


@pytest.mark.parametrize("path", [*PATHS, "/quotas/teams/vision/", "/quotas/teams/nobody/"])
def test_the_console_is_for_quota_managers_and_platform_admins(world, path):
    known = 404 if "nobody" in path else 200
    assert {who: signed_in(who).get(path).status_code for who in (world.manager, world.admin)} == {
        world.manager: known,
        world.admin: known,
    }
    assert signed_in(world.lead).get(path).status_code == 403


def test_only_who_may_go_there_has_it_in_the_navigation(world):
    assert 'href="/quotas/"' in text_of(signed_in(world.manager).get("/"))
    assert 'href="/quotas/"' not in text_of(signed_in(world.lead).get("/"))


def test_what_is_unknown_is_not_found(manager):
    nothing = "00000000-0000-7000-8000-000000000000"
    for path in (f"/quotas/changes/{nothing}/", f"/quotas/cohorts/{nothing}/"):
        assert manager.get(path).status_code == 404
    assert manager.post(f"/quotas/requests/{nothing}/", {"answer": "approve"}).status_code == 404


# --- the grid


def test_a_cell_shows_quota_limits_use_and_what_waits(full, manager):
    page = text_of(manager.get(GRID))
    fields = sent_back(page)
    assert (fields[f"nominal~{VISION}"], fields[f"lending_limit~{VISION}"]) == ("18", "8")
    for said in ("6 used · 8 wait", "6 used, 2 borrowed", "2 used, 1 over", "23 promised, 16 exist"):
        assert said in page


def test_the_grid_is_filtered_by_team_cohort_and_flavor(full, manager):
    def teams(query: str) -> list[str]:
        return re.findall(
            r'<th scope="row" class="grid-team"><a href="/teams/(\w+)/',
            text_of(manager.get(f"{GRID}{query}")),
        )

    assert teams("?team=VIS") == ["vision"]
    assert teams("?cohort=research") == ["speech", "vision"]
    assert teams("?cohort=-") == ["robotics"]
    assert teams("?team=nobody") == []
    page = text_of(manager.get(f"{GRID}?flavor=t4-shared"))
    assert {name.split("~")[2] for name in sent_back(page) if "~" in name} == {"t4-shared"}
    people = sent_back(text_of(manager.get(f"{GRID}?show=people")))
    assert people[f"user_limit~{VISION}"] == "12"
    for wrong in ("?show=all", "?page=0", "?page=x", "?page=-1"):
        assert manager.get(f"{GRID}{wrong}").status_code in {400, 422}, wrong


def test_more_teams_than_a_page_shows_are_on_the_next_one(world, manager):
    for index in range(45):
        make_team(f"many-{index:02}")
    first, second = (text_of(manager.get(f"{GRID}?page={page}")) for page in (1, 2))
    names = [set(re.findall(r'class="grid-team"><a href="/teams/([^/]+)/', page)) for page in (first, second)]
    assert not names[0] & names[1]
    assert len(names[0] | names[1]) == 48
    assert "More teams" in first
    assert "Previous teams" in second


def test_a_page_of_the_grid_has_no_more_fields_than_a_form_may_have(world, manager, settings):
    for index in range(30):
        make_flavor(f"flavor-{index}")
    for index in range(30):
        make_team(f"many-{index:02}")
    page = text_of(manager.get(GRID))
    fields = sent_back(page)
    assert len(fields) <= CELLS_MAX * 3 + 1 < settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
    assert "more flavors are not shown" in page
    assert manager.post(GRID, fields).status_code == 303


def test_more_teams_and_workloads_ask_no_more_queries(full, manager, django_assert_max_num_queries):
    def count(path: str) -> int:
        with django_assert_max_num_queries(60) as counted:
            assert manager.get(path).status_code == 200
        return len(counted)

    few = {path: count(path) for path in PATHS}
    assert few[GRID] <= 30
    for index in range(8):
        team = make_team(f"many-{index:02}")
        make_quota(team, full.a100, 2)
        make_quota(team, make_flavor(f"flavor-{index}"), 2)
        full.queue(full.team, 1, f"waits-{index}")
        full.ask(units=index + 1)
    assert {path: count(path) for path in PATHS} == few


# --- edits


def test_only_cells_that_differ_become_edits(world, manager):
    response = edit(manager, cells={f"nominal~{VISION}": 12, f"nominal~{SPEECH}": " 4 "})
    assert response.status_code == 303
    page = text_of(manager.get(GRID))
    assert "1 change in 1 team" in page
    assert sent_back(page)[f"nominal~{VISION}"] == "12"
    assert nominal("vision") == 16


def test_an_edit_that_is_written_back_is_none_any_more(world, manager):
    edit(manager, cells={f"nominal~{VISION}": 12})
    edit(manager, cells={f"nominal~{VISION}": 16})
    assert "Nothing changed yet" in text_of(manager.get(GRID))


def test_edits_of_several_pages_and_views_are_one_change_set(world, manager):
    edit(manager, cells={f"nominal~{VISION}": 12})
    edit(manager, f"{GRID}?team=speech&show=people", cells={f"max_time_limit_seconds~{SPEECH}": "12h"})
    page = text_of(manager.get(DRAFT))
    assert "Longest run" in page
    edit(manager, DRAFT, action="apply", reason="Both.")
    quota = Quota.objects.get(team__slug="speech")
    assert (nominal("vision"), quota.max_time_limit_seconds) == (12, 12 * 3600)
    assert QuotaChangeSet.objects.get().changes.count() == 2


def test_with_htmx_the_answer_is_the_change_set_alone(world, manager):
    panel = text_of(edit(manager, headers=PANEL, cells={f"nominal~{VISION}": 12}))
    assert panel.strip().startswith('<section class="card edits" id="change-set"')
    assert "1 change in 1 team" in panel


def test_edits_are_kept_apart_for_every_session(world, manager):
    edit(manager, cells={f"nominal~{VISION}": 12})
    assert "Nothing changed yet" in text_of(signed_in(world.admin).get(GRID))


def test_an_edit_is_dropped_and_all_of_them_discarded(world, manager):
    edit(manager, cells={f"nominal~{VISION}": 12, f"nominal~{SPEECH}": 5})
    edit(manager, drop=VISION)
    assert "1 change in 1 team" in text_of(manager.get(GRID))
    edit(manager, action="discard")
    assert "Nothing changed yet" in text_of(manager.get(GRID))


@pytest.mark.parametrize("text", ["-1", "1.5", "four", "99999999999", "٤", "1e3", "0x10"])
def test_what_is_no_whole_number_is_told_at_its_cell_and_cannot_be_applied(world, manager, text):
    edit(manager, cells={f"nominal~{VISION}": text, f"nominal~{SPEECH}": 6})
    page = text_of(manager.get(GRID))
    assert f'aria-invalid="true" aria-describedby="wrong~nominal~{VISION}"' in page
    assert f'id="wrong~nominal~{VISION}">Write a whole number' in page
    response = edit(manager, DRAFT, action="apply", reason="Try.")
    assert response.status_code == 422
    assert f'id="nominal~{VISION}_error"' in text_of(response)
    assert (nominal("vision"), nominal("speech")) == (16, 4)


def test_a_quota_cannot_be_emptied_and_a_limit_can(world, manager):
    world.set(world.team, 16, lending_limit=3)
    edit(manager, cells={f"nominal~{VISION}": "", f"lending_limit~{VISION}": ""})
    assert "write 0 for none" in text_of(manager.get(DRAFT))
    edit(manager, DRAFT, cells={f"nominal~{VISION}": 16}, action="apply", reason="Lends all.")
    assert Quota.objects.get(team=world.team, flavor=world.a100).lending_limit is None


def test_what_a_service_refuses_lands_at_its_cell_and_nothing_is_applied(world, manager):
    edit(manager, cells={f"lending_limit~{VISION}": 17, f"nominal~{SPEECH}": 6})
    response = edit(manager, DRAFT, action="apply", reason="Try.")
    assert response.status_code == 422
    assert re.search(
        rf'id="lending_limit~{VISION}_error">A team lends no more than its nominal', text_of(response)
    )
    assert (nominal("speech"), QuotaChangeSet.objects.count()) == (4, 0)


def test_a_new_quota_is_made_and_limits_without_one_are_refused(world, manager):
    key = "speech~t4-shared~on-demand"
    edit(manager, cells={f"borrowing_limit~{key}": 2})
    assert "The team has no quota of it yet" in text_of(manager.get(DRAFT))
    edit(manager, cells={f"nominal~{key}": 3}, action="preview")
    assert "Would start" in text_of(manager.get(DRAFT))
    edit(manager, DRAFT, action="apply", reason="They need some.")
    made = Quota.objects.get(team=world.other, flavor__name="t4-shared")
    assert (made.nominal, made.borrowing_limit) == (3, 2)


def test_what_somebody_else_changed_meanwhile_is_not_overwritten_unseen(world, manager):
    edit(manager, cells={f"nominal~{VISION}": 12})
    stale = sent_back(text_of(manager.get(DRAFT)))
    world.set(world.team, 20)
    response = manager.post(DRAFT, stale | {"action": "apply", "reason": "Mine."})
    assert response.status_code == 422
    assert "Somebody has changed it to 20 meanwhile" in text_of(response)
    assert nominal("vision") == 20
    again = sent_back(text_of(response))
    assert manager.post(DRAFT, again | {"action": "apply", "reason": "Mine."}).status_code == 303
    assert nominal("vision") == 12


def test_a_cell_that_nobody_touched_is_not_set_back_to_what_it_was(world, manager):
    page = sent_back(text_of(manager.get(GRID)))
    world.set(world.team, 20)
    manager.post(GRID, page | {f"nominal~{SPEECH}": "6"})
    edit(manager, DRAFT, action="apply", reason="Only speech.")
    assert (nominal("vision"), nominal("speech")) == (20, 6)


@pytest.mark.parametrize(
    "shown",
    [
        "",
        "no json",
        "[]",
        "3",
        "[" * 100_000,
        '{"a~b":{"nominal":"1"}}',
        '{"a~b~c":7}',
        '{"a~b~c":{"used":"0"}}',
        '{"a~b~\\u0000":{"nominal":"1"}}',
        '{"a~b~\\ud800":{"nominal":"1"}}',
    ],
)
def test_a_form_that_says_nonsense_changes_nothing(world, manager, shown):
    keys = ("a~b~c", "a~b", "a~b~\x00", "a~b~\ufffd")
    fields = {"shown": shown, "used~a~b~c": "9"} | {f"nominal~{key}": "9" for key in keys}
    assert manager.post(GRID, fields).status_code == 303
    assert "Nothing changed yet" in text_of(manager.get(GRID))


def test_edits_of_what_does_not_exist_are_told_and_not_applied(world, manager):
    unknown = {"nobody~a100-40gb~on-demand": {"nominal": ""}, "vision~none~spot": {"nominal": ""}}
    fields = {"shown": json.dumps(unknown)} | {f"nominal~{key}": "9" for key in unknown}
    manager.post(GRID, fields)
    page = text_of(manager.get(DRAFT))
    assert "There is no such team any more." in page
    assert "There is no such flavor with this capacity type any more." in page
    assert edit(manager, DRAFT, action="apply", reason="Try.").status_code == 422


# --- the preview


def test_the_preview_says_who_would_wait_and_what_is_promised_as_of_which_revision(full, manager):
    full.queue(full.team, 2, "small")
    edit(manager, cells={f"nominal~{VISION}": 6, f"nominal~{SPEECH}": 30})
    page = text_of(manager.get(DRAFT))
    assert re.search(r"a100-40gb on-demand at revision \d+", page)
    assert "Teams are promised more a100-40gb (on-demand) than there are" in page
    assert re.search(r"Would have to wait <[^>]*>\d", page)
    assert nominal("vision") == 18
    assert QuotaChange.objects.filter(reason="preview").count() == 0


def test_a_cut_that_leaves_no_room_makes_wait_who_could_start(world, manager):
    world.queue(world.robotics, 2, "grasp")
    edit(manager, cells={"nominal~robotics~a100-40gb~on-demand": 1})
    page = text_of(manager.get(DRAFT))
    waits = page[page.index('id="waits-title"') : page.index('id="evicted-title"')]
    assert "grasp" in waits
    assert 'count-plain">1<' in waits


def test_a_raise_lets_start_who_waits(world, manager):
    world.queue(world.robotics, 4, "grasp")
    edit(manager, cells={"nominal~robotics~a100-40gb~on-demand": 6})
    page = text_of(manager.get(DRAFT))
    starts = page[page.index('id="starts-title"') : page.index('id="waits-title"')]
    assert "grasp" in starts


def test_who_would_have_to_leave_is_shown_and_asked_only_where_that_is_wished(world, manager):
    run = world.hold(world.robotics, 2, "grasp")
    run.preemptible = True
    run.save()
    key = "nominal~robotics~a100-40gb~on-demand"
    edit(manager, cells={key: 1})
    assert "What runs goes on, also above the new limits." in text_of(manager.get(DRAFT))
    edit(manager, DRAFT, evicts="1", action="preview")
    page = text_of(manager.get(DRAFT))
    assert "grasp" in page[page.index('id="evicted-title"') :]
    edit(manager, DRAFT, evicts="1", action="apply", reason="A cut.")
    assert Preemption.objects.get().workload == run
    assert QuotaChangeSet.objects.get().evicts


def test_with_htmx_the_preview_is_answered_alone(world, manager):
    edit(manager, cells={f"nominal~{VISION}": 12})
    headers = {"HX-Request": "true", "HX-Target": "effects"}
    part = text_of(edit(manager, DRAFT, headers=headers, cells={f"nominal~{VISION}": 11}))
    assert part.strip().startswith('<div id="effects"')
    assert '<span class="was">16</span> → <span class="strong">11</span>' in part


def test_an_empty_change_set_leads_back_to_the_grid(world, manager):
    assert "Nothing is changed" in text_of(manager.get(DRAFT))
    assert manager.post(DRAFT, {"action": "apply", "reason": "x"})["Location"] == GRID


# --- apply and take back


def apply(world: QuotaWorld, client: Client, **cells) -> QuotaChangeSet:
    edit(client, cells=cells)
    response = edit(client, DRAFT, action="apply", reason="The plan.")
    assert response.status_code == 303, text_of(response)
    return QuotaChangeSet.objects.first()


def test_a_reason_is_required_and_what_was_typed_stays(world, manager):
    edit(manager, cells={f"nominal~{VISION}": 12})
    response = edit(manager, DRAFT, action="apply", reason="  ")
    assert response.status_code == 422
    assert 'id="id_reason_error"' in text_of(response)
    assert sent_back(text_of(response))[f"nominal~{VISION}"] == "12"
    assert nominal("vision") == 16


def test_what_is_applied_is_a_change_set_with_its_reason_and_the_draft_is_empty(world, manager):
    made = apply(world, manager, **{f"nominal~{VISION}": 12, f"nominal~{SPEECH}": 6})
    page = text_of(manager.get(f"/quotas/changes/{made.public_id}/"))
    for said in ("The plan.", "qm", "Applied", '<span class="was">16</span>'):
        assert said in page
    assert (nominal("vision"), nominal("speech")) == (12, 6)
    assert "Nothing changed yet" in text_of(manager.get(GRID))
    assert "The plan." in text_of(manager.get("/quotas/changes/"))


def test_a_change_set_is_taken_back_with_a_reason_once(world, manager):
    made = apply(world, manager, **{f"nominal~{VISION}": 12, f"nominal~{SPEECH}": 6})
    path = f"/quotas/changes/{made.public_id}/"
    assert manager.post(path, {"reason": " "}).status_code == 422
    response = manager.post(path, {"reason": "A mistake."}, follow=True)
    assert "Took one back" in text_of(response)
    assert (nominal("vision"), nominal("speech")) == (16, 4)
    page = text_of(manager.get(path))
    assert "Taken back" in page
    assert "Undo the change set" not in page
    again = manager.post(path, {"reason": "Again."})
    assert again.status_code == 409
    assert "taken back already" in text_of(again)


def test_a_change_set_is_not_taken_back_over_a_later_change(world, manager):
    made = apply(world, manager, **{f"nominal~{VISION}": 12})
    world.set(world.team, 14)
    response = manager.post(f"/quotas/changes/{made.public_id}/", {"reason": "Back."})
    assert response.status_code == 409
    assert "was changed since" in text_of(response)
    assert nominal("vision") == 14


# --- requests


def test_a_request_is_approved_with_a_comment_and_raises_the_quota(world, manager):
    asked = world.ask(units=4, reason="A deadline.")
    page = text_of(manager.get("/quotas/requests/"))
    assert "A deadline." in page
    assert "Requests <span" in page
    path = f"/quotas/requests/{asked.public_id}/"
    assert path in page
    shown = text_of(manager.get(path))
    assert "Promised against what exists" in shown
    assert '<span class="was">16</span> → <span class="strong">20</span>' in re.sub(
        r"\s*</span>\s*→", "</span> →", shown
    )
    assert nominal("vision") == 16
    manager.post(path, {"answer": "approve", "comment": "Until then."})
    asked.refresh_from_db()
    change = f"/quotas/changes/{asked.change_set.public_id}/"
    assert change in text_of(manager.get("/quotas/changes/"))
    assert change in text_of(manager.get(path))
    assert (asked.state, asked.comment, nominal("vision")) == ("approved", "Until then.", 20)
    assert "Nothing to decide" in text_of(manager.get("/quotas/requests/"))
    assert "Until then." in text_of(manager.get("/quotas/requests/?state=all"))


def test_the_grid_marks_what_goes_back_by_itself_until_it_has(world, manager):
    asked = world.ask(units=4)

    def marks() -> dict[str, list[str]]:
        """What goes back, by the cell's key."""
        cells = re.findall(r"<td.*?</td>", text_of(manager.get(GRID)), re.DOTALL)
        keys = [re.search(r'name="nominal~([^"]+)"', cell)[1] for cell in cells if "nominal~" in cell]
        said = [re.findall(r"· (\d+) until <time [^>]*>", cell) for cell in cells if "nominal~" in cell]
        return {key: found for key, found in zip(keys, said, strict=True) if found}

    assert marks() == {}
    manager.post(f"/quotas/requests/{asked.public_id}/", {"answer": "approve"})
    assert marks() == {VISION: ["4"]}
    Quota.objects.filter(team__slug="vision").update(nominal=3)
    assert marks() == {VISION: ["3"]}, "no more goes back than there is"
    QuotaRequest.objects.update(state=QuotaRequest.State.RETURNED.value)
    assert marks() == {}


def test_a_request_is_decided_once_and_only_by_an_answer(world, manager):
    asked = world.ask()
    path = f"/quotas/requests/{asked.public_id}/"
    assert manager.post(path, {"answer": "perhaps"}).status_code == 422
    manager.post(path, {"answer": "deny", "comment": "No."})
    again = manager.post(path, {"answer": "approve"})
    assert (again.status_code, "This request is denied already." in text_of(again)) == (409, True)
    assert nominal("vision") == 16
    assert manager.get("/quotas/requests/?state=lost").status_code in {400, 422}


# --- as a file


def csv_of(manager: Client) -> str:
    response = manager.get("/quotas/export.csv")
    assert "attachment" in response["Content-Disposition"]
    return b"".join(response.streaming_content).decode()


def read_file(manager: Client, text: str | bytes):
    content = text.encode() if isinstance(text, str) else text
    return manager.post("/quotas/import/", {"file": SimpleUploadedFile("q.csv", content)}, follow=True)


def test_quotas_go_out_and_come_in_as_a_file_by_way_of_the_change_set(world, manager):
    text = csv_of(manager)
    assert (
        text.splitlines()[0]
        == "team,flavor,capacity_type,nominal,borrowing_limit,lending_limit,user_limit,max_time_limit_seconds,used"
    )
    assert "The file says what there is already." in text_of(read_file(manager, text))
    line = next(line for line in text.splitlines() if line.startswith("vision,a100-40gb,on-demand,"))
    changed = line.split(",")
    changed[3] = "12"
    page = text_of(read_file(manager, text.replace(line, ",".join(changed))))
    assert "1 limit differs" in page
    assert (nominal("vision"), "What it would do" in page) == (16, True)
    manager.post(DRAFT, {"action": "apply", "reason": "By file.", "shown": "{}"})
    assert nominal("vision") == 12


HEAD = "team,flavor,capacity_type,nominal\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the column team is missing"),
        ("team,flavor,capacity_type\n", "the column nominal is missing"),
        (HEAD.replace("nominal", "nominal,weight"), "there is no column &#x27;weight&#x27;"),
        (f"{HEAD}nobody,a100-40gb,on-demand,3\n", "Line 2, team: there is no team &#x27;nobody&#x27;"),
        (f"{HEAD}vision,h900,on-demand,3\n", "Line 2, flavor: there is no &#x27;h900&#x27;"),
        (f"{HEAD}vision,a100-40gb,on-demand\n", "Line 2 has not as many fields"),
        (f"{HEAD}vision,a100-40gb,on-demand,3\nvision,a100-40gb,on-demand,4\n", "Line 3: vision, a100-40gb, on-demand stands in the file twice"),
        (f"{HEAD}vision,a100-40gb,on-demand,{'9' * 30}\n", "Line 2, nominal:"),
        (b"\xff\xfe", "no text in UTF-8"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_says_where_and_changes_nothing(world, manager, text, told):
    page = text_of(read_file(manager, text))
    assert told in page
    assert "Nothing changed yet" in page


def test_a_number_that_is_none_is_told_in_the_change_set(world, manager):
    page = text_of(read_file(manager, f"{HEAD}vision,a100-40gb,on-demand,many\n"))
    assert "Write a whole number, 0 or more." in page


def test_the_grid_shows_several_flavors_and_only_who_has_quota(full, manager):
    make_flavor("of-nobody")
    every, some = text_of(manager.get(GRID)), text_of(manager.get(f"{GRID}?with_quota=1"))
    assert ("of-nobody~" in every, "of-nobody~" in some) == (True, False)
    two = sent_back(text_of(manager.get(f"{GRID}?flavor=a100-40gb&flavor=t4-shared")))
    assert {name.split("~")[2] for name in two if "~" in name} == {"a100-40gb", "t4-shared"}


# --- cohorts


def test_a_cohort_is_made_below_another_and_listed_there(world, manager):
    response = manager.post("/quotas/cohorts/", {"name": "lab", "parent": "research"}, follow=True)
    assert "lab is made" in text_of(response)
    assert Cohort.objects.get(name="lab").parent == world.research
    page = text_of(manager.get("/quotas/cohorts/"))
    assert re.search(r"branch-1.*?lab", page, re.DOTALL)


@pytest.mark.parametrize("name", ["", "Not Right", "research"])
def test_a_cohort_with_a_wrong_name_is_told_at_its_field(world, manager, name):
    response = manager.post("/quotas/cohorts/", {"name": name, "parent": ""})
    assert response.status_code == 422
    assert 'id="id_name_error"' in text_of(response)
    assert Cohort.objects.count() == 1


def test_a_cohort_is_never_below_itself(world, manager):
    manager.post("/quotas/cohorts/", {"name": "lab", "parent": "research"})
    response = manager.post(
        f"/quotas/cohorts/{world.research.public_id}/", {"action": "parent", "parent": "lab"}
    )
    assert response.status_code == 422
    assert "cycle" in text_of(response)
    world.research.refresh_from_db()
    assert world.research.parent is None


def test_teams_are_put_in_and_taken_out_and_what_they_lend_follows(world, manager):
    path = f"/quotas/cohorts/{world.research.public_id}/"
    usage = CohortUsage.objects.filter(cohort=world.research, flavor=world.a100)
    assert usage.get().guaranteed == 20
    manager.post(path, {"action": "join", "team": "robotics"})
    assert usage.get().guaranteed == 22
    manager.post(path, {"action": "leave", "team": "robotics"})
    assert usage.get().guaranteed == 20
    assert manager.post(path, {"action": "join", "team": "nobody"}).status_code == 422
    assert manager.post(path, {"action": "explode"}).status_code == 422


def test_a_cohort_with_members_is_not_deleted_and_an_empty_one_is(world, manager):
    path = f"/quotas/cohorts/{world.research.public_id}/"
    assert "has members" in text_of(manager.post(path, {"action": "delete"}))
    for slug in ("vision", "speech"):
        manager.post(path, {"action": "leave", "team": slug})
    assert manager.post(path, {"action": "delete"})["Location"] == "/quotas/cohorts/"
    assert not Cohort.objects.exists()


def test_limits_of_a_cohort_are_set_together_or_not_at_all(world, manager):
    path = f"/quotas/cohorts/{world.research.public_id}/"
    first, second = CohortUsage.objects.filter(cohort=world.research).order_by("flavor__name")
    sent = {"action": "limits", "reason": "The plan."}
    wrong = {f"borrowing_limit~{first.pk}": "4", f"lending_limit~{second.pk}": "-1"}
    response = manager.post(path, sent | wrong)
    assert response.status_code == 422
    assert f'id="lending_limit~{second.pk}_error"' in text_of(response)
    first.refresh_from_db()
    assert first.borrowing_limit is None
    too_many = {f"borrowing_limit~{first.pk}": "4", f"lending_limit~{second.pk}": "99999999"}
    assert manager.post(path, sent | too_many).status_code == 422
    first.refresh_from_db()
    assert first.borrowing_limit is None
    good = {f"borrowing_limit~{first.pk}": "4", f"lending_limit~{second.pk}": "0"}
    assert manager.post(path, good | {"action": "limits", "reason": ""}).status_code == 422
    assert manager.post(path, sent | good).status_code == 303
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.borrowing_limit, second.lending_limit) == (4, 0)


# --- the rules of teams


RULES = {"weight": "5", "high_priority": "members", "cohort_name": "research", "shows_name": "1"}


def test_the_rules_of_a_team_and_its_cohort_are_set_together(world, manager):
    assert manager.post("/quotas/teams/robotics/", RULES).status_code == 303
    policy = TeamPolicy.objects.get(team=world.robotics)
    world.robotics.refresh_from_db()
    assert (policy.weight, policy.high_priority, policy.shows_name) == (5, "members", True)
    assert world.robotics.cohort_name == "research"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("weight", wrong) for wrong in ("0", "-3", "1.5", "99999999999")),
        ("high_priority", "everybody"),
        ("cohort_name", "no-such"),
    ],
)
def test_a_wrong_rule_is_told_at_its_field_and_none_is_set(world, manager, field, value):
    response = manager.post("/quotas/teams/robotics/", RULES | {field: value})
    assert response.status_code == 422
    assert f'id="id_{field}_error"' in text_of(response)
    world.robotics.refresh_from_db()
    assert world.robotics.cohort_name == ""
    assert not TeamPolicy.objects.filter(team=world.robotics, weight=5).exists()


def test_a_manager_gives_a_team_more_for_a_time(full, manager):
    """It is looked at before it is given, and ends by itself; nobody of the team has to ask."""
    path = "/teams/robotics/quota/"
    assert "Give more for a time" in text_of(manager.get(path))
    until = (full.now + timedelta(days=7)).date().isoformat()
    typed = {"pool": "a100-40gb~on-demand", "units": "2", "until": until, "reason": "A paper."}
    answer = manager.post(path, typed, follow=True)
    (asked,) = QuotaRequest.objects.filter(team=full.robotics)
    assert answer.redirect_chain == [(f"/quotas/requests/{asked.public_id}/#top", 303)]
    said = text_of(answer)
    assert "What it would do" in said
    assert "when it returns by itself" in said
    assert Quota.objects.get(team=full.robotics).nominal == 1
    given = manager.post(f"/quotas/requests/{asked.public_id}/", {"answer": "approve"})
    assert given["Location"] == f"{path}#top", "the page of the team, not the fragment of the form"
    assert Quota.objects.get(team=full.robotics).nominal == 3
    asked.refresh_from_db()
    change_set = text_of(manager.get(f"/quotas/changes/{asked.change_set.public_id}/"))
    assert f"{until}</time></a>" in change_set
    assert "then it returns by itself" in change_set
    return_due(now=asked.until)
    assert Quota.objects.get(team=full.robotics).nominal == 1
    assert manager.post(path, {**typed, "until": "x"}).status_code == 422


def test_a_manager_stops_and_starts_the_queue_of_any_team(world, manager):
    manager.post("/teams/robotics/quota/queue/", {"action": "stop", "reason": "Maintenance."})
    assert "Maintenance." in text_of(manager.get("/quotas/teams/"))
    manager.post("/teams/robotics/quota/queue/", {"action": "start"})
    assert "Maintenance." not in text_of(manager.get("/quotas/teams/robotics/"))


# --- text


def test_no_text_of_people_acts(full, manager):
    text = " ".join(PAYLOADS[:8])
    full.team.name = PAYLOADS[0]
    full.team.save()
    full.ask(reason=text)
    made = apply(full, manager, **{f"nominal~{VISION}": 12})
    QuotaChangeSet.objects.update(reason=text, actor=PAYLOADS[1])
    edit(manager, cells={f"nominal~{VISION}": PAYLOADS[0][:20], f"nominal~{SPEECH}": "6"})
    paths = (*PATHS, f"/quotas/changes/{made.public_id}/", "/quotas/teams/vision/")
    for path in (*paths, f"/quotas/cohorts/{full.research.public_id}/"):
        assert harm_in(manager.get(path)) == [], path
    typed = dict.fromkeys(("name", "parent", "reason", "comment", "weight", "cohort_name"), text)
    for path in ("/quotas/cohorts/", f"/quotas/changes/{made.public_id}/", "/quotas/teams/vision/", DRAFT):
        assert harm_in(manager.post(path, typed)) == [], path
    assert harm_in(manager.get(GRID, {"team": text, "cohort": text, "flavor": text})) == []
