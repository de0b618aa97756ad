from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_datetime
from typing_extensions import override

from costs.prices.importing import import_prices, table_of, told
from costs.prices.imports import CSV_BYTES_MAX, Choice
from costs.prices.preview import ImportedPrice, preview_import
from foundation import clock
from foundation.errors import PortalError
from foundation.money import format_usd
from teams.actors import Actor

PLACES = 6


class Command(BaseCommand):
    help = "Set prices of cards from a CSV table of machines of clouds; without --reason it only says what it would set."

    @override
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument(
            "--card",
            action="append",
            type=_choice,
            required=True,
            metavar="CARD=PROVIDER/INSTANCE_TYPE",
            help="which machine gives a card its price, such as a100-40gb=aws/p4d.24xlarge; once for each card",
        )
        parser.add_argument(
            "--from",
            dest="valid_from",
            type=_moment,
            metavar="MOMENT",
            help="such as 2027-01-01T00:00:00Z (now)",
        )
        parser.add_argument("--reason", default="", help="why; without it nothing is set")

    @override
    def handle(self, *_args: Any, **options: Any) -> None:
        now = clock.now()
        moment = options["valid_from"] or now
        try:
            text = _read(options["file"])
            found = preview_import(table_of(text), options["card"], valid_from=moment)
            for problem in found.table.problems:
                self.stderr.write(f"left out: {told(problem)}")
            for price in found.prices:
                self.stdout.write(_line(price))
            for refusal in found.refused:
                self.stderr.write(f"refused: {refusal.message}")
            if not options["reason"]:
                if not found.acceptable:
                    raise CommandError("Nothing of it would be set.")
                self.stdout.write("Nothing was set: give --reason.")
                return
            made = import_prices(
                text=text,
                choices=options["card"],
                valid_from=moment,
                reason=options["reason"],
                actor=Actor.system("import_prices"),
                now=now,
            )
        except PortalError as error:
            raise CommandError(f"{error.message} Nothing was set.") from error
        self.stdout.write(f"{len(made)} new prices from {moment:%Y-%m-%d %H:%M:%S} UTC on.")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(CSV_BYTES_MAX + 1)
        return raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error


def _line(price: ImportedPrice) -> str:
    change, proposed = price.change, price.proposed
    before = "no price" if change.before is None else format_usd(change.before, PLACES)
    percent = "" if change.percent is None else f" ({change.percent} %)"
    why = "".join(f": {problem.message}" for problem in change.refused)
    left = proposed.left_over
    rounded = f", rounded: the machine costs {left:+} micro-USD an hour" if left else ""
    return (
        f"{change.card} {change.capacity_type}: {before} -> {format_usd(change.after, PLACES)}{percent}, "
        f"{proposed.instance.name} with {proposed.instance.gpu_count}{rounded} [{change.outcome}{why}]"
    )


def _choice(text: str) -> Choice:
    card, equals, machine = text.partition("=")
    provider, slash, instance_type = machine.partition("/")
    if not (card and equals and provider and slash and instance_type):
        raise argparse.ArgumentTypeError("must be CARD=PROVIDER/INSTANCE_TYPE")
    return Choice(card=card, provider=provider, instance_type=instance_type)


def _moment(text: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise argparse.ArgumentTypeError("must be a moment with its time zone, such as 2027-01-01T00:00:00Z")
    return moment.astimezone(UTC)
