"""The kinds that the form offers are those that the cluster serves; another one is refused at its field."""

from __future__ import annotations

import re

import pytest

from cluster import kinds
from tests.web.test_forms import filled
from workloads.models import WatchCursor, Workload

pytestmark = pytest.mark.django_db
NEW = "/runs/new/"


def offered(html: str) -> list[str]:
    choice = re.search(r'<select[^>]* name="kind".*?</select>', html, re.DOTALL)[0]
    return re.findall(r'<option value="([a-z]+)"', choice)


def test_the_form_offers_what_is_served(ana, world):
    assert offered(ana.get(NEW).content.decode()) == ["job"]
    WatchCursor.objects.create(kind=kinds.PYTORCH_JOB.address)
    assert offered(ana.get(NEW).content.decode()) == ["job", "pytorchjob"]


def test_a_kind_that_is_not_offered_is_refused_at_its_field_and_stays_chosen(ana, world):
    answer = ana.post(NEW, filled(name="new", kind="tfjob", action="submit"))
    html = answer.content.decode()
    assert "A tfjob cannot be run here: the cluster does not serve it. Possible are: job." in html
    assert re.search(r'<select[^>]* name="kind"[^>]*aria-invalid="true"', html)
    assert offered(html) == ["job", "tfjob"]
    assert not Workload.objects.filter(name="new").exists()


def test_a_kind_that_there_is_not_is_refused(ana, world):
    assert "mxjob" in ana.post(NEW, filled(name="new", kind="mxjob", action="submit")).content.decode()
    assert not Workload.objects.filter(name="new").exists()
