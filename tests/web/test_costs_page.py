"""The page of costs: what is counted, in which order, whose, and how it is written."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.web.conftest import signed_in

pytestmark = pytest.mark.django_db


def test_the_page_tells_what_the_month_cost_with_what_runs_now_dearest_first(ana, made):
    context = ana.get("/costs/").context
    rows = context["table"].rows
    assert [row.amount for row in rows] == sorted((row.amount for row in rows), reverse=True)
    assert sum(row.amount for row in rows) == context["report"].total_micro_usd > 0
    by_name = {row.name: row for row in rows}
    assert by_name["resnet50"].so_far and not by_name["unet-3d"].so_far
