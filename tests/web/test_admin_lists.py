"""Lists of the admin site: filtered by time and by whom, searched, and read with as many queries for fifty rows as for one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from budgets.services import create_budget
from costs.models import Budget
from foundation import clock
from quotas.models import QuotaChange, QuotaRequest
from teams.admin_filters.typed import ActorFilter, TimeFilter
from teams.models import AuditEvent
from tests.effort import spread
from tests.factories.catalogue import SETUP, make_price
from tests.factories.teams import make_team, make_user
from tests.security.test_csrf_and_headers import no_inline

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("still")]

AUDIT = "/admin/teams/auditevent/"
HISTORIES = {
    "teams.AuditEvent", "quotas.QuotaChange", "quotas.QuotaChangeSet", "quotas.QuotaRequest", "quotas.Decision",
    "costs.Price", "costs.Budget", "costs.BudgetOverride",
}  # fmt: skip


def page_of(model):
    return admin.site.get_model_admin(model)


def url(model):
    return f"/admin/{model._meta.app_label}/{model._meta.model_name}/"


@pytest.fixture
def root():
    client = Client()
    client.force_login(make_user("chief", platform_admin=True))
    return client


def event(actor, day):
    at = datetime(2026, 3, day, 12, tzinfo=UTC)
    return AuditEvent.objects.create(
        at=at, actor_label=actor, action="team.update", target_kind="team", target_id="1", target_name=f"{actor}{day}"
    )  # fmt: skip


def shown(client, path, **query):
    html = client.get(path, query).content.decode()
    return set(re.findall(r">\s*((?:ana|ben)\d+)\s*<", html))


@pytest.mark.parametrize("model", spread(admin.site._registry, usual=6), ids=lambda model: model._meta.label)
def test_every_history_is_filtered_by_time_and_by_whom(model):
    if model._meta.label in HISTORIES:
        kinds = {entry[1] for entry in page_of(model).list_filter if isinstance(entry, tuple)}
        assert kinds >= {TimeFilter, ActorFilter}


def test_days_are_whole_and_both_included(root):
    for day in (1, 2, 3):
        event("ana", day)
    assert shown(root, AUDIT, at_from="2026-03-02", at_to="2026-03-02") == {"ana2"}
    assert shown(root, AUDIT, at_from="2026-03-02") == {"ana2", "ana3"}
    assert shown(root, AUDIT, at_to="2026-03-02") == {"ana1", "ana2"}


def test_names_are_exact_and_filters_add_up(root):
    event("ana", 1)
    event("ben", 1)
    event("ben", 2)
    assert shown(root, AUDIT, actor_label_is="ben") == {"ben1", "ben2"}
    assert shown(root, AUDIT, actor_label_is="be") == set()
    assert shown(root, AUDIT, actor_label_is="ben", at_to="2026-03-01", action_is="team.update") == {"ben1"}
    assert shown(root, AUDIT, actor_label_is="ben", q="ben2") == {"ben2"}
    html = root.get(AUDIT, {"actor_label_is": "ben", "q": "ben2"}).content.decode()
    assert no_inline(html) == []
    assert re.search(r'name="actor_label_is" value="ben"', html)
    assert re.search(r'name="q" value="ben2"', html), "the search stays while a filter is typed"
    assert '<option value="chief">' in html


@pytest.mark.parametrize("day", ["soon", "2026-02-30", "9" * 5000, "'; --"])
def test_what_is_no_day_is_said_at_its_field(root, day):
    event("ana", 1)
    html = root.get(AUDIT, {"at_from": day}).content.decode()
    assert "Write a day such as 2026-03-01." in html
    assert 'aria-invalid="true"' in html
    assert shown(root, AUDIT, at_from=day) == set()


def test_a_span_that_ends_today_is_one_click(root):
    html = root.get(AUDIT).content.decode()
    week = (clock.now().astimezone(UTC).date() - timedelta(days=6)).isoformat()
    assert re.search(rf'<a href="\?at_from={week}">7 days</a>', html)
    chosen = root.get(AUDIT, {"at_from": week}).content.decode()
    assert re.search(rf'<a href="\?at_from={week}" aria-current="true">7 days</a>', chosen)


@pytest.mark.matrix
@pytest.mark.usefixtures("full")
def test_a_list_reads_fifty_rows_with_as_many_queries_as_one(root, monkeypatch):
    make_price("t4")
    for slug in ("one", "two"):
        values = {"amount_micro_usd": 10**9, "period": Budget.Period.MONTH}
        create_budget(team=make_team(slug), values=values, actor=SETUP, now=clock.now())
    read = {}
    for model, page in admin.site._registry.items():
        counts = []
        for rows in (1, 50):
            monkeypatch.setattr(page, "list_per_page", rows)
            with CaptureQueriesContext(connection) as asked:
                assert root.get(url(model)).status_code == 200
            counts.append(len(asked))
        if model.objects.count() > 1:
            read[model._meta.label] = counts
    assert {label: counts for label, counts in read.items() if counts[0] != counts[1]} == {}
    assert max(counts[1] for counts in read.values()) <= 14
    assert set(read) >= {
        "costs.Budget", "costs.Price", "quotas.Quota", "quotas.QuotaChange", "quotas.QuotaRequest", "quotas.Claim",
        "teams.AuditEvent", "workloads.Workload",
    }  # fmt: skip


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("model", spread(admin.site._registry, usual=6), ids=lambda model: model._meta.label)
def test_every_list_is_searched_and_filtered_without_a_fault(root, model):
    page = page_of(model)
    for entry in page.list_filter:
        if isinstance(entry, tuple):
            name, kind = entry[0].replace("__", "."), entry[1]
            asked = {f"{name}_from": "2026-01-01"} if kind is TimeFilter else {f"{name}_is": "x"}
            answer = root.get(url(model), asked | ({"q": "vision"} if page.search_fields else {}))
            assert answer.status_code == 200, entry
            assert answer.context["cl"].has_active_filters, entry


@pytest.mark.usefixtures("full")
def test_requests_and_changes_are_found_by_who_made_them(root):
    asked, changed = QuotaRequest.objects.first(), QuotaChange.objects.first()
    for model, name, who in (
        (QuotaRequest, "requested_by.username_is", asked.requested_by.username),
        (QuotaChange, "actor_is", changed.actor),
    ):
        assert root.get(url(model), {name: who}).context["cl"].result_count >= 1
        assert root.get(url(model), {name: "nobody"}).context["cl"].result_count == 0
