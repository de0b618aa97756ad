"""Prices of cards from a table of machines of clouds: pure, and as they are set."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costs.models import Price, PricedCard
from costs.prices.importing import import_prices
from costs.prices.imports import (
    CSV_BYTES_MAX,
    NEEDED,
    ROWS_MAX,
    Choice,
    TableRefused,
    propose,
    read_table,
)
from costs.prices.preview import preview_import
from costs.pricing import PriceSpan, Segment, exact_cost, lines
from foundation.errors import Conflict, Invalid
from foundation.money import half_up
from teams.models import AuditEvent
from tests.factories.catalogue import SETUP, make_flavor, make_price

NOW = datetime(2026, 10, 1, tzinfo=UTC)
HEADER = (
    "provider,instance_type,gpu_model,gpu_count,gpu_memory_gib,vcpus,memory_gib,"
    "on_demand_usd_per_hour,spot_usd_per_hour,source"
)
P4D = "aws,p4d.24xlarge,NVIDIA A100,8,40,96,1152,21.957642,,x"
A2 = "gcp,a2-highgpu-1g,NVIDIA A100,1,40,12,85,3.673385,1.92802,x"
T4 = "aws,g4dn.xlarge,NVIDIA T4,1,16,4,16,0.526,,x"
T4_LARGE = "aws,g4dn.16xlarge,NVIDIA T4,1,16,64,256,4.352,,x"


def csv_of(*rows, header=HEADER):
    return "\n".join([header, *rows]) + "\n"


def said(table):
    return [(problem.line, problem.column, problem.code) for problem in table.problems]


def refused(text):
    with pytest.raises(TableRefused) as caught:
        read_table(text)
    problem = caught.value.problem
    return problem.line, problem.column, problem.code


# --- the table


def test_a_machines_price_is_split_over_its_gpus_and_what_rounding_left_is_told():
    table = read_table(csv_of(P4D, A2))
    chosen = [Choice(card="a100-40gb", provider="aws", instance_type="p4d.24xlarge")]
    ((price,), problems) = propose(table, chosen)
    assert problems == []
    assert (price.capacity_type, price.micro_usd_per_card_hour) == ("on-demand", 2_744_705)
    assert price.left_over == 21_957_642 - 8 * 2_744_705 == 2


def test_spot_comes_from_the_same_machine_where_it_has_a_price():
    prices, _ = propose(read_table(csv_of(A2)), [Choice(card="a", instance_type="A2-HIGHGPU-1G")])
    assert {price.capacity_type: price.micro_usd_per_card_hour for price in prices} == {
        "on-demand": 3_673_385,
        "spot": 1_928_020,
    }


@given(st.integers(1, 10**12), st.integers(1, 16))
def test_what_rounding_leaves_over_is_half_a_micro_usd_a_card_at_most(micro, gpus):
    row = f"aws,x,M,{gpus},,,,{micro // 10**6}.{micro % 10**6:06d},,"
    ((price,), _) = propose(read_table(csv_of(row)), [Choice(card="m", gpu_model="M")])
    assert price.micro_usd_per_card_hour == half_up(Fraction(micro, gpus))
    assert price.micro_usd_per_card_hour * gpus + price.left_over == micro
    assert abs(price.left_over) * 2 <= gpus


@pytest.mark.parametrize(
    "slices",
    [
        [Fraction(1, 7)] * 7,
        [Fraction(1, 7), Fraction(2, 7), Fraction(4, 7)],
        [Fraction(3, 7), Fraction(4, 7)],
        [Fraction(1, 4)] * 4,
        [Fraction(1, 10)] * 10,
        [Fraction(1)],
    ],
)
def test_the_slices_of_a_card_cost_together_what_the_card_costs_to_the_micro_usd(slices):
    span = PriceSpan(1, 2_744_705, NOW, None)
    hour = Segment(NOW, NOW + timedelta(hours=1), span)
    assert sum(exact_cost(hour, each) for each in slices) == 2_744_705
    carry, total = Fraction(0), 0
    for each in slices:
        (line,), carry = lines([hour], each, carry)
        total += line.amount_micro_usd
    assert (total, carry) == (2_744_705, 0)


@pytest.mark.parametrize(
    ("change", "column", "code"),
    [
        (("0.526", "-0.526"), "on_demand_usd_per_hour", "min_value"),
        (("0.526", "0"), "on_demand_usd_per_hour", "min_value"),
        (("0.526", "0.000000"), "on_demand_usd_per_hour", "min_value"),
        (("0.526", "nan"), "on_demand_usd_per_hour", "invalid"),
        (("0.526", "1e999"), "on_demand_usd_per_hour", "invalid"),
        (("0.526", "Infinity"), "on_demand_usd_per_hour", "invalid"),
        (("0.526", "€0.526"), "on_demand_usd_per_hour", "invalid"),
        (("0.526", "0.526 EUR"), "on_demand_usd_per_hour", "invalid"),
        (("0.526", '"0,526"'), "on_demand_usd_per_hour", "invalid"),
        (("0.526", "\u0660.5"), "on_demand_usd_per_hour", "invalid"),
        (("0.526", "0.5260001"), "on_demand_usd_per_hour", "max_decimal_places"),
        (("0.526", ""), "on_demand_usd_per_hour", "required"),
        (("T4,1,", "T4,0,"), "gpu_count", "invalid"),
        (("T4,1,", "T4,,"), "gpu_count", "invalid"),
        (("T4,1,", "T4,0.125,"), "gpu_count", "invalid"),
        (("T4,1,", "T4,99999999999999999999,"), "gpu_count", "invalid"),
        ((",16,4", ",big,4"), "gpu_memory_gib", "invalid"),
        (("NVIDIA T4", ""), "gpu_model", "required"),
        (("aws", " "), "provider", "required"),
        ((",x", ",x,more"), "", "invalid"),
        ((",16,0.526,,x", ""), "", "invalid"),
    ],
)
def test_a_line_that_says_no_price_is_named_with_its_column_and_the_others_stay(change, column, code):
    table = read_table(csv_of(P4D, T4.replace(*change), A2))
    assert said(table) == [(3, column, code)]
    assert [each.instance_type for each in table.instances] == ["p4d.24xlarge", "a2-highgpu-1g"]


def test_an_amount_of_many_zeros_behind_the_point_has_six_decimals():
    assert read_table(csv_of(T4.replace("0.526", "0.52600000000"))).problems == ()


def test_another_currency_is_refused_by_its_column_and_usd_is_taken():
    header = f"{HEADER},currency"
    assert said(read_table(csv_of(f"{T4},EUR", f"{P4D},USD", f"{A2},", header=header))) == [
        (2, "currency", "invalid_choice")
    ]


def test_a_machine_that_is_there_twice_gives_no_price():
    table = read_table(csv_of(T4, P4D, T4.replace("0.526", "0.6")))
    assert said(table) == [(4, "instance_type", "duplicate")]
    assert [each.instance_type for each in table.instances] == ["p4d.24xlarge"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (1, "", "empty")),
        ("\n\n", (1, "", "empty")),
        (csv_of(T4).replace(",", ";"), (1, "", "invalid")),
        (csv_of(T4).replace(",", "\t"), (1, "", "invalid")),
        (csv_of(T4, header=f"{HEADER},colour"), (1, "colour", "unknown_field")),
        (csv_of(T4, header=HEADER.replace("usd", "eur")), (1, "on_demand_eur_per_hour", "unknown_field")),
        (csv_of(T4, header=f"{HEADER},source"), (1, "source", "duplicate")),
        (csv_of(T4, header="provider,instance_type"), (1, "gpu_model", "required")),
        (csv_of(T4, '"open'), (3, "", "invalid")),
        pytest.param("x" * (10 * 1024 * 1024), (1, "", "too_large"), id="10 MB"),
    ],
)
def test_what_is_no_such_table_is_refused_as_a_whole(text, expected):
    assert refused(text) == expected


def test_a_table_of_too_many_machines_is_refused():
    rows = [f"a,t{number},M,1,,,,1,," for number in range(ROWS_MAX + 1)]
    assert refused(csv_of(*rows))[2] == "too_many"
    assert len(csv_of(*rows)) < CSV_BYTES_MAX


def test_a_byte_order_mark_and_lines_of_windows_are_read():
    table = read_table("\ufeff" + csv_of(T4, P4D).replace("\n", "\r\n"))
    assert len(table.instances) == 2
    assert table.problems == ()


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text):
    for whole in (text, csv_of(text), text.join([HEADER, "\n", T4])):
        with suppress(TableRefused):
            read_table(whole)


def test_the_columns_that_are_needed_are_enough():
    table = read_table(csv_of("aws,g4dn.xlarge,NVIDIA T4,1,0.526", header=",".join(NEEDED)))
    assert said(table) == []


# --- which machine


@pytest.mark.parametrize(
    ("choices", "field", "code"),
    [
        ([{"card": "t4", "gpu_model": "NVIDIA T4"}], "cards.0", "ambiguous_instance"),
        ([{"card": "t4", "instance_type": "none"}], "cards.0", "unknown_instance"),
        (
            [{"card": "t4", "gpu_model": "NVIDIA T4", "gpu_memory_gib": Fraction(80)}],
            "cards.0",
            "unknown_instance",
        ),
        ([{"card": "t4", "provider": "aws"}], "cards.0", "required"),
        ([{"card": "t4", "instance_type": "g4dn.xlarge"}] * 2, "cards.1.card", "duplicate"),
    ],
)
def test_a_choice_that_gives_no_price_or_several_is_refused(choices, field, code):
    table = read_table(csv_of(T4, T4_LARGE, P4D))
    _, problems = propose(table, [Choice(**each) for each in choices])
    assert [(problem.field, problem.code) for problem in problems] == [(field, code)]


def test_machines_of_one_model_whose_cards_cost_the_same_are_as_good_as_one():
    double = "gcp,a2-highgpu-2g,NVIDIA A100,2,40,24,170,7.34677,3.85604,x"
    choice = Choice(card="a", gpu_model="nvidia a100", gpu_memory_gib=Fraction(40), provider="gcp")
    prices, problems = propose(read_table(csv_of(A2, double)), [choice])
    assert problems == []
    assert len(prices) == 2


# --- setting them


def chosen(**cards):
    return [Choice(card=card.replace("_", "-"), instance_type=machine) for card, machine in cards.items()]


def set_from(text, choices, moment=NOW):
    return import_prices(
        text=text, choices=choices, valid_from=moment, reason="list prices", actor=SETUP, now=NOW
    )


@pytest.fixture
def cards(db):
    make_flavor()
    make_flavor("t4")


def test_an_import_sets_all_prices_at_one_moment_for_one_reason_and_is_audited(cards):
    made = set_from(csv_of(A2, T4), chosen(a100_40gb="a2-highgpu-1g", t4="g4dn.xlarge"))
    assert {(str(price.priced), price.micro_usd_per_card_hour) for price in made} == {
        ("a100-40gb (on-demand)", 3_673_385),
        ("a100-40gb (spot)", 1_928_020),
        ("t4 (on-demand)", 526_000),
    }
    assert {(price.valid_from, price.reason) for price in made} == {(NOW, "list prices")}
    assert AuditEvent.objects.filter(action="price.changed").count() == 3
    assert set_from(csv_of(A2, T4), chosen(t4="g4dn.xlarge"), NOW + timedelta(days=1)) == [], (
        "it costs that already"
    )


def test_of_an_import_that_is_refused_in_part_nothing_is_set(cards):
    set_from(csv_of(T4), chosen(t4="g4dn.xlarge"), NOW + timedelta(days=9))
    before = set(Price.objects.values_list("pk", flat=True))
    both = chosen(a100_40gb="a2-highgpu-1g", t4="g4dn.16xlarge")
    first = PricedCard.objects.get().prices.get()
    later = set_from(csv_of(T4_LARGE), chosen(t4="g4dn.16xlarge"), first.valid_from + timedelta(days=1))
    with pytest.raises(Conflict) as caught:
        set_from(csv_of(A2, T4_LARGE.replace("4.352", "5")), both, first.valid_from + timedelta(hours=1))
    assert caught.value.errors[0].field == "valid_from"
    assert set(Price.objects.values_list("pk", flat=True)) == before | {price.pk for price in later}


@pytest.mark.parametrize(
    ("choices", "field"),
    [([], "cards"), (chosen(b300="g4dn.xlarge"), "card"), (chosen(t4="none"), "cards.0")],
)
def test_an_import_of_nothing_or_for_a_card_that_is_none_is_refused_by_its_field(cards, choices, field):
    with pytest.raises(Invalid) as caught:
        set_from(csv_of(T4), choices)
    assert caught.value.errors[0].field == field
    assert not Price.objects.exists()


def test_the_preview_of_an_import_says_old_and_new_price_the_difference_and_what_is_refused(cards):
    make_price(micro_usd=4_000_000)
    set_from(csv_of(T4), chosen(t4="g4dn.xlarge"), NOW + timedelta(days=9))
    set_from(csv_of(T4_LARGE), chosen(t4="g4dn.16xlarge"), NOW + timedelta(days=10))
    table = read_table(csv_of(A2, T4))
    found = preview_import(
        table,
        chosen(a100_40gb="a2-highgpu-1g", t4="g4dn.xlarge"),
        valid_from=NOW + timedelta(days=9, hours=1),
    )
    shown = {
        (price.change.card, price.change.capacity_type): (
            price.change.before,
            price.change.after,
            price.change.percent,
            price.change.outcome,
        )
        for price in found.prices
    }
    assert shown == {
        ("a100-40gb", "on-demand"): (4_000_000, 3_673_385, "-8.17", "changed"),
        ("a100-40gb", "spot"): (None, 1_928_020, None, "new"),
        ("t4", "on-demand"): (526_000, 526_000, "0.00", "refused"),
    }
    assert not found.acceptable
