"""What nobody used and what was lost, day by day: a plot, its figures, and how both look."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from costs.models import LedgerEntry, Price
from foundation import clock
from tests.web.browsing import (
    chromium,
    faults,
    needs_chromium,
    open_page,
    session_of,
    too_wide_between,
)
from tests.web.conftest import signed_in

pytestmark = pytest.mark.usefixtures("within_month")

USD = 1_000_000
AMOUNTS = {"idle": (3, 5), "stranded": (1, 0), "lost": (0, 2)}
"""Dollars of the first day of this month, and of the day before it."""


@pytest.fixture
def posted(world, still):
    first = clock.now().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    for kind, amounts in AMOUNTS.items():
        for usd, day in zip(amounts, (first, first - timedelta(days=1)), strict=True):
            _post(f"{kind}:a100-40gb:on-demand", usd, day)
    return first


def _post(account: str, usd: int, day: datetime) -> None:
    common = {
        "transaction_id": uuid4(), "started_at": day + timedelta(hours=1), "ended_at": day + timedelta(hours=2), "units": 1,
        "price": Price.objects.filter(priced__card="a100-40gb", priced__capacity_type="on-demand").first(), "posted_at": day,
    }  # fmt: skip
    supply = "supply:a100-40gb:on-demand"
    LedgerEntry.objects.bulk_create(
        LedgerEntry(**common, account=name, amount_micro_usd=sign * usd * USD)
        for name, sign in ((account, 1), (supply, -1))
    )


@pytest.mark.django_db
def test_each_day_is_told_and_the_days_are_the_parts(world, posted):
    answer = signed_in(world.manager).get("/costs/capacity/")
    days, chart = answer.context["days"], answer.context["chart"]
    parts = {part.name: part.amount for part in answer.context["parts"]}
    assert (days[0].day, days[0].idle, days[0].stranded, days[0].lost) == (posted.date(), 3 * USD, USD, 0)
    assert len(days) == clock.now().astimezone(UTC).day
    assert (parts["Idle"], parts["Stranded"]) == (3 * USD, USD)
    assert [line.name for line in chart.legend] == ["idle", "stranded", "lost"]
    assert "idle: 3 USD\nstranded: 1 USD\nlost: 0 USD" in chart.slots[0].text
    page = answer.content.decode()
    assert 'aria-label="Idle, stranded and lost by day over time"' in page
    assert "<caption" in page
    assert "$3.00" in page


@pytest.mark.django_db
def test_a_month_with_nothing_has_no_plot(world):
    answer = signed_in(world.manager).get("/costs/capacity/?month=2020-02")
    assert "Day by day" not in answer.content.decode()


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_the_plot_is_accessible_and_within_the_screen_in_narrow_and_dark(live_server, world, posted):
    session = session_of(world.manager)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/costs/capacity/")
        page.get_by_role("img", name="Idle, stranded and lost by day over time").wait_for()
        page.get_by_text("The days in figures").click()
        page.get_by_role("table", name="Idle, stranded and lost by day").wait_for()
        assert [*too_wide_between(page), *faults(page)] == []
        assert complaints == []
