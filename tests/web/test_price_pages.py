"""Prices in the admin console: typed in USD, looked at before they are set, and imported from a table."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from costs.models import Price
from teams.models import AuditEvent
from tests.factories.catalogue import make_flavor, make_price
from tests.factories.teams import make_user
from tests.security.test_csrf_and_headers import no_inline

pytestmark = pytest.mark.django_db

LIST, ADD, IMPORT = (f"/admin/costs/price/{path}" for path in ("", "add/", "import/"))
TABLE = """provider,instance_type,gpu_model,gpu_count,on_demand_usd_per_hour,spot_usd_per_hour
aws,p4d.24xlarge,NVIDIA A100,8,21.957642,
aws,broken,NVIDIA T4,1,-1,
"""


@pytest.fixture
def manager():
    make_flavor()
    make_price(micro_usd=4_000_000)
    client = Client()
    client.force_login(make_user("quinn", quota_manager=True))
    return client


def typed(**values):
    return {
        "card": "a100-40gb",
        "capacity_type": "on-demand",
        "usd_per_card_hour": "2.5",
        "valid_from_0": "2027-01-01",
        "valid_from_1": "00:00:00",
        "reason": "cheaper",
        **values,
    }


def post(client, **values):
    return client.post(ADD, typed(**values))


def test_a_price_is_shown_before_it_is_set_and_set_once_it_was_seen(manager):
    first = post(manager)
    html = first.content.decode()
    assert "Nothing is set yet" in html
    assert "$4.000000 → $2.500000" in html
    assert "(-37.50 %)" in html
    assert no_inline(html) == []
    assert Price.objects.count() == 1
    seen = first.context["adminform"].form.data["seen"]
    changed = post(manager, seen=seen, usd_per_card_hour="2.6")
    assert "$4.000000 → $2.600000" in changed.content.decode(), "what was not seen is not set"
    assert post(manager, seen=seen).status_code == 302
    price = Price.objects.get(valid_until=None)
    assert (price.micro_usd_per_card_hour, price.valid_from, price.actor, price.reason) == (
        2_500_000,
        datetime(2027, 1, 1, tzinfo=UTC),
        "quinn",
        "cheaper",
    )
    assert AuditEvent.objects.filter(action="price.changed", target_id=str(price.public_id)).exists()


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"usd_per_card_hour": "-1"}, "usd_per_card_hour"),
        ({"usd_per_card_hour": "1.2345678"}, "usd_per_card_hour"),
        ({"usd_per_card_hour": "2 EUR"}, "usd_per_card_hour"),
        ({"usd_per_card_hour": "1000001"}, "usd_per_card_hour"),
        ({"usd_per_card_hour": "1e999"}, "usd_per_card_hour"),
        ({"valid_from_0": "1960-01-01"}, "valid_from"),
        ({"valid_from_0": "2026-01-01", "usd_per_card_hour": "5"}, "valid_from"),
        ({"card": "b300"}, "card"),
        ({"reason": ""}, "reason"),
    ],
)
def test_what_is_no_price_is_refused_at_its_field(manager, values, field):
    answer = post(manager, **values)
    assert list(answer.context["adminform"].form.errors) == [field]
    assert Price.objects.count() == 1


def test_the_list_and_a_price_show_usd(manager):
    assert "$4.000000" in manager.get(LIST).content.decode()
    price = Price.objects.get()
    assert "$4.000000" in manager.get(f"{LIST}{price.pk}/change/").content.decode()


def test_a_table_is_read_looked_at_and_set(manager):
    assert 'href="/admin/costs/price/import/"' in manager.get(LIST).content.decode()
    file = SimpleUploadedFile("prices.csv", TABLE.encode())
    read = manager.post(IMPORT, {"file": file, "_preview": ""})
    html = read.content.decode()
    assert "NVIDIA A100: aws/p4d.24xlarge, 8 GPUs, $21.957642 on-demand" in html
    assert "Line 3, column on_demand_usd_per_hour" in html
    body = {"csv": read.context["form"]["csv"].value(), "machine-a100-40gb": "aws/p4d.24xlarge"}
    html = manager.post(IMPORT, {**body, "_preview": ""}).content.decode()
    assert "$4.000000 → $2.744705" in html
    assert "costs $0.000002 an hour more than its cards" in html
    assert no_inline(html) == []
    refused = manager.post(IMPORT, {**body, "_set": ""})
    assert list(refused.context["form"].errors) == ["reason"]
    assert Price.objects.count() == 1
    assert manager.post(IMPORT, {**body, "reason": "list prices", "_set": ""}).status_code == 302
    assert Price.objects.get(valid_until=None).micro_usd_per_card_hour == 2_744_705


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", TABLE.replace(",", ";").encode(), b"x" * (1024 * 1024 + 1)]
)
def test_a_file_that_is_no_table_is_refused_at_its_field(manager, content):
    answer = manager.post(IMPORT, {"file": SimpleUploadedFile("prices.csv", content), "_preview": ""})
    assert list(answer.context["form"].errors) == ["file"]


def test_who_sets_no_prices_imports_none():
    client = Client()
    client.force_login(make_user("ana"))
    assert client.get(IMPORT).status_code in {302, 403}
