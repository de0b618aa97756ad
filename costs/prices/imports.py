"""From a table of machines of clouds to prices of cards (pure).

A machine's price is for all its GPUs: each card gets an equal part of it. A price is whole micro-USD, so a part that does
not divide is rounded half up, and what all cards of the machine then cost more or less than it is told beside the price.
Slices of a card are exact fractions of its price: nothing is rounded there.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from foundation.errors import FieldProblem
from foundation.money import NotAnAmount, half_up, micro_of_usd

ON_DEMAND, SPOT = "on-demand", "spot"
AMOUNTS: Mapping[str, str] = {ON_DEMAND: "on_demand_usd_per_hour", SPOT: "spot_usd_per_hour"}
"""The column with a machine's price on each capacity type."""
NEEDED = ("provider", "instance_type", "gpu_model", "gpu_count", "on_demand_usd_per_hour")
OPTIONAL = ("gpu_memory_gib", "vcpus", "memory_gib", "spot_usd_per_hour", "source", "currency")
CURRENCY = "USD"
CSV_BYTES_MAX = 1024 * 1024
ROWS_MAX = 5000
PROBLEMS_MAX = 100
"""More are not looked for."""
CANDIDATES_NAMED = 4
GPUS_MAX = 1024


@dataclass(frozen=True, slots=True)
class TableProblem:
    """What is wrong with the table. `line` counts from 1, with the header; `column` is empty where it is the line."""

    line: int
    column: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A machine that can be rented; amounts are micro-USD per hour for the whole of it, None where none is given."""

    line: int
    provider: str
    instance_type: str
    gpu_model: str
    gpu_count: int
    gpu_memory_gib: Fraction | None
    amounts: Mapping[str, int]
    """By capacity type."""

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.instance_type}"

    def per_card(self, capacity_type: str) -> Fraction:
        """Exact micro-USD per card-hour."""
        return Fraction(self.amounts[capacity_type], self.gpu_count)


@dataclass(frozen=True, slots=True)
class MachineTable:
    """What could be read, and what could not. Problems of one line leave the others as they are."""

    instances: tuple[Instance, ...]
    problems: tuple[TableProblem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which machine gives a card its prices: whatever is said must be so; what is empty may be anything."""

    card: str
    provider: str = ""
    instance_type: str = ""
    gpu_model: str = ""
    gpu_memory_gib: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedPrice:
    """A card's price by a machine, in micro-USD per card-hour.

    `left_over` is what the machine costs an hour more than its cards by that price, in micro-USD; less than 0 where the
    cards cost more.
    """

    card: str
    capacity_type: str
    micro_usd_per_card_hour: int
    instance: Instance
    left_over: int


class TableRefused(ValueError):
    """Nothing of the table can be used. `problem` says where and why."""

    def __init__(self, problem: TableProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def read_table(text: str) -> MachineTable:
    """The machines of a CSV text with the columns of NEEDED and any of OPTIONAL.

    Raises TableRefused for what is no such table: too large, other columns, another separator.
    """
    if len(text.encode("utf-8", "surrogatepass")) > CSV_BYTES_MAX:
        message = f"The table is larger than {CSV_BYTES_MAX} bytes."
        raise TableRefused(TableProblem(1, "", "too_large", message))
    reader = csv.reader(io.StringIO(text.removeprefix("\N{BYTE ORDER MARK}"), newline=""), strict=True)
    rows = _rows(reader)
    header = [name.strip() for name in next(rows, (1, []))[1]]
    _check_header(header)
    instances: list[Instance] = []
    problems: list[TableProblem] = []
    for count, (line, values) in enumerate(rows):
        if count >= ROWS_MAX:
            message = f"At most {ROWS_MAX} machines are read at once."
            raise TableRefused(TableProblem(line, "", "too_many", message))
        found, wrong = _instance(line, header, values)
        problems += wrong
        if found is not None:
            instances.append(found)
    once, twice = _once(instances)
    ordered = sorted([*problems, *twice], key=lambda problem: problem.line)
    return MachineTable(tuple(once), tuple(ordered[:PROBLEMS_MAX]))


def _rows(reader: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, with the line on which each ends."""
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            line = int(getattr(reader, "line_num", 1))
            raise TableRefused(TableProblem(line, "", "invalid", f"This is no CSV: {error}.")) from error
        if any(value.strip() for value in row):
            yield int(getattr(reader, "line_num", 1)), row


def _check_header(header: Sequence[str]) -> None:
    def refuse(column: str, code: str, message: str) -> TableRefused:
        return TableRefused(TableProblem(1, column, code, message))

    if not header:
        raise refuse("", "empty", "The table is empty: its first line names the columns.")
    if len(header) == 1 and any(other in header[0] for other in ";\t|"):
        raise refuse("", "invalid", "The columns are not separated by commas.")
    for name in header:
        if header.count(name) > 1:
            raise refuse(name, "duplicate", "This column is there twice.")
        if name not in (*NEEDED, *OPTIONAL):
            known = ", ".join((*NEEDED, *OPTIONAL))
            raise refuse(name[:80], "unknown_field", f"There is no such column. There is: {known}.")
    for name in NEEDED:
        if name not in header:
            raise refuse(name, "required", "This column is missing.")


def _instance(
    line: int, header: Sequence[str], values: Sequence[str]
) -> tuple[Instance | None, list[TableProblem]]:
    """The machine of a row; None with what is wrong."""
    if len(values) != len(header):
        message = f"This line has {len(values)} values for {len(header)} columns."
        return None, [TableProblem(line, "", "invalid", message)]
    row = {name: value.strip() for name, value in zip(header, values, strict=True)}
    problems = [
        TableProblem(line, name, "required", "A value is needed here.")
        for name in ("provider", "instance_type", "gpu_model")
        if not row[name]
    ]
    if row.get("currency", CURRENCY) not in {"", CURRENCY}:
        problems.append(TableProblem(line, "currency", "invalid_choice", f"Prices are in {CURRENCY} alone."))
    gpus = _gpus(line, row["gpu_count"], problems)
    memory = _memory(line, row.get("gpu_memory_gib", ""), problems)
    amounts = {
        capacity_type: amount
        for capacity_type, column in AMOUNTS.items()
        if (amount := _amount(line, column, row.get(column, ""), problems)) is not None
    }
    if not amounts and not problems:
        problems.append(TableProblem(line, AMOUNTS[ON_DEMAND], "required", "This machine has no price."))
    if problems:
        return None, problems
    return Instance(
        line=line,
        provider=row["provider"],
        instance_type=row["instance_type"],
        gpu_model=row["gpu_model"],
        gpu_count=gpus,
        gpu_memory_gib=memory,
        amounts=amounts,
    ), []


def _gpus(line: int, text: str, problems: list[TableProblem]) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(GPUS_MAX)) else 0
    if not 1 <= number <= GPUS_MAX:
        message = f"A whole number of GPUs from 1 to {GPUS_MAX} is needed here."
        problems.append(TableProblem(line, "gpu_count", "invalid", message))
    return number


def _memory(line: int, text: str, problems: list[TableProblem]) -> Fraction | None:
    if not text:
        return None
    size = memory_of(text)
    if size is None:
        message = "A size in GiB is needed here, written like 80 or 22.35, or nothing."
        problems.append(TableProblem(line, "gpu_memory_gib", "invalid", message))
    return size


def memory_of(text: str) -> Fraction | None:
    """GiB as a number: `80`, `22.35`; None for anything else."""
    try:
        return Fraction(micro_of_usd(text), 1_000_000) or None
    except NotAnAmount:
        return None


def _amount(line: int, column: str, text: str, problems: list[TableProblem]) -> int | None:
    if not text:
        return None
    try:
        micro = micro_of_usd(text)
    except NotAnAmount as error:
        problems.append(TableProblem(line, column, error.code, str(error)))
        return None
    if micro == 0:
        message = "A machine that costs nothing is none that can be rented: leave it empty."
        problems.append(TableProblem(line, column, "min_value", message))
        return None
    return micro


def _once(instances: Sequence[Instance]) -> tuple[list[Instance], list[TableProblem]]:
    """Those that are there once, and what is wrong with those that are there again: none of them is right."""
    named: dict[str, list[Instance]] = defaultdict(list)
    for instance in instances:
        named[instance.name].append(instance)
    problems = [
        TableProblem(
            each.line, "instance_type", "duplicate", f"{each.name} is there before, on line {same[0].line}."
        )
        for same in named.values()
        for each in same[1:]
    ]
    return [same[0] for same in named.values() if len(same) == 1], problems


def propose(table: MachineTable, choices: Sequence[Choice]) -> tuple[list[ProposedPrice], list[FieldProblem]]:
    """The prices of the chosen cards, on each capacity type that their machine has one for, and what cannot be chosen.

    Fields of the problems are `cards.<number>`, and the part of it.
    """
    proposed: list[ProposedPrice] = []
    problems: list[FieldProblem] = []
    seen: set[str] = set()
    for number, choice in enumerate(choices):
        field = f"cards.{number}"
        if choice.card in seen:
            message = f"{choice.card} is chosen twice."
            problems.append(FieldProblem(field=f"{field}.card", code="duplicate", message=message))
            continue
        seen.add(choice.card)
        found = [instance for instance in table.instances if _fits(choice, instance)]
        problem = _unclear(field, choice, found)
        if problem is not None:
            problems.append(problem)
        else:
            proposed += _prices(choice.card, found[0])
    return proposed, problems


def _fits(choice: Choice, instance: Instance) -> bool:
    texts = (
        (getattr(choice, name), getattr(instance, name))
        for name in ("provider", "instance_type", "gpu_model")
    )
    return all(not said or said.casefold() == there.casefold() for said, there in texts) and (
        choice.gpu_memory_gib is None or choice.gpu_memory_gib == instance.gpu_memory_gib
    )


def _unclear(field: str, choice: Choice, found: Sequence[Instance]) -> FieldProblem | None:
    """Why the choice gives no price: no machine is it, or several with different prices are."""
    if not (choice.instance_type or choice.gpu_model):
        message = f"Say which machine gives {choice.card} its price: instance_type, or gpu_model."
        return FieldProblem(field=field, code="required", message=message)
    if not found:
        message = f"No machine of the table that can be read is the one for {choice.card}."
        return FieldProblem(field=field, code="unknown_instance", message=message)
    if len({tuple(_exact(instance)) for instance in found}) > 1:
        named = ", ".join(instance.name for instance in found[:CANDIDATES_NAMED])
        more = f" and {len(found) - CANDIDATES_NAMED} more" if len(found) > CANDIDATES_NAMED else ""
        message = f"Machines with different prices fit {choice.card}: {named}{more}. Name one."
        return FieldProblem(field=field, code="ambiguous_instance", message=message)
    return None


def _exact(instance: Instance) -> Iterable[tuple[str, Fraction]]:
    return ((kind, instance.per_card(kind)) for kind in sorted(instance.amounts))


def _prices(card: str, instance: Instance) -> list[ProposedPrice]:
    prices = []
    for capacity_type, amount in instance.amounts.items():
        each = half_up(instance.per_card(capacity_type))
        prices.append(
            ProposedPrice(
                card=card,
                capacity_type=capacity_type,
                micro_usd_per_card_hour=each,
                instance=instance,
                left_over=amount - each * instance.gpu_count,
            )
        )
    return prices
