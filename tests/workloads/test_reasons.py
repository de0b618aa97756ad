"""What a reason means stands in one table, and a new reason needs nothing but its rows there and in `states`."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.reason_texts import REASON_TEXTS, glossary, next_step
from tests.factories.submitted import make_run
from tests.factories.teams import make_member, make_user
from tests.openapi import document
from workloads.models import Workload
from workloads.states import Reason


def test_every_reason_has_its_meaning():
    assert set(REASON_TEXTS) == set(Reason)
    assert [reason for reason, text in REASON_TEXTS.items() if not text.meaning.endswith(".")] == []


def test_what_comes_next_is_told_of_the_reasons_that_need_it():
    assert next_step(Reason.OOM_KILLED.value).startswith("The container used more memory")
    assert next_step(Reason.READY.value) == next_step("OfNoRelease") == ""


def test_the_column_lists_no_reasons():
    assert not Workload._meta.get_field("reason").choices


def test_rest_says_what_each_reason_means():
    schema = document()
    said = schema["components"]["schemas"]["Workload"]["properties"]["reason"]["description"]
    assert said == glossary()
    assert "* `OOMKilled` - It used more memory than its limit." in said


@pytest.mark.django_db
def test_the_admin_console_filters_by_reason_without_reading_all_rows_for_the_choice():
    member = make_member()
    run, _ = (make_run(member.team, member.user) for _ in range(2))
    Workload.objects.filter(pk=run.pk).update(reason=Reason.QUEUE_STOPPED.value)
    admin = Client()
    admin.force_login(make_user(platform_admin=True))
    with CaptureQueriesContext(
        connection,
    ) as asked:
        page = admin.get("/admin/workloads/workload/", {"reason": "QueueStopped"})
    assert [row.pk for row in page.context["cl"].result_list] == [run.pk]
    assert not any('DISTINCT "workloads_workload"."reason"' in each["sql"] for each in asked)
