"""`manage.py import_prices`: what it would set, and setting it."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from costs.models import Price
from tests.factories.catalogue import make_flavor, make_price

pytestmark = pytest.mark.django_db

TABLE = """provider,instance_type,gpu_model,gpu_count,on_demand_usd_per_hour,spot_usd_per_hour
aws,p4d.24xlarge,NVIDIA A100,8,21.957642,
aws,broken,NVIDIA T4,,1,
"""
CARD = "--card=a100-40gb=aws/p4d.24xlarge"


@pytest.fixture
def table(tmp_path):
    make_flavor()
    make_price(micro_usd=4_000_000)
    path = tmp_path / "prices.csv"
    path.write_text(TABLE)
    return str(path)


def said(*arguments):
    out, err = StringIO(), StringIO()
    call_command("import_prices", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_without_a_reason_it_says_what_it_would_set_and_sets_nothing(table):
    out, err = said(table, CARD)
    assert "a100-40gb on-demand: $4.000000 -> $2.744705 (-31.38 %), aws/p4d.24xlarge with 8" in out
    assert "rounded: the machine costs +2 micro-USD an hour" in out
    assert "Nothing was set" in out
    assert (
        err == "left out: Line 3, column gpu_count: A whole number of GPUs from 1 to 1024 is needed here.\n"
    )
    assert Price.objects.count() == 1


def test_with_a_reason_the_prices_are_set_from_the_moment_on(table):
    out, _ = said(table, CARD, "--reason=list prices", "--from=2027-01-01T00:00:00Z")
    assert "1 new prices from 2027-01-01 00:00:00 UTC on." in out
    assert Price.objects.get(valid_until=None).micro_usd_per_card_hour == 2_744_705


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--card=a100-40gb=aws/none"], "Nothing of it would be set"),
        (["--card=a100-40gb=aws/none", "--reason=x"], "Nothing was set"),
        (["--card=b300=aws/p4d.24xlarge", "--reason=x"], "No flavor is cut from such a card"),
        (["--card=a100-40gb"], "must be CARD=PROVIDER/INSTANCE_TYPE"),
        ([CARD, "--from=tomorrow"], "must be a moment with its time zone"),
    ],
)
def test_what_cannot_be_set_ends_with_a_sentence(table, arguments, words):
    with pytest.raises(CommandError, match=words):
        said(table, *arguments)
    assert Price.objects.count() == 1


def test_a_file_that_cannot_be_read_ends_with_a_sentence(table):
    with pytest.raises(CommandError, match="cannot be read"):
        said(f"{table}.none", CARD)
