"""The folded parts of a form: which inputs each has, and in a few words what is set in them.

The words are made of what was typed, by the server alone: with every answer of the preview they come anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from typing_extensions import override

from console.pages.forms import ContainerForm, split_lines
from console.pages.words import cpu_words
from foundation.number_words import counted

Values = Mapping[str, Any]
FIELDS = "console/section_fields.html"
SOURCES = ("upload", "git_url", "git_ref", "git_subdir", "git_secret")
NOTHING = "nothing set"
SHOWN_MAX = 48
"""How much of a text that was typed is shown of it."""


@dataclass(frozen=True, slots=True)
class InputCell:
    """One input. `width` is the class of its column, and of the mode that it belongs to: it is shown with that alone."""

    name: str
    width: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionPlan:
    """A section of a form, before anything is typed into it."""

    name: str
    title: str
    cells: tuple[InputCell, ...]
    says: Callable[[Values], str]
    """What is set, from the form's values as they were typed."""
    template: str = FIELDS

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(cell.name for cell in self.cells)


@dataclass(frozen=True, slots=True)
class SectionCell:
    field: forms.BoundField
    width: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section as a page shows it: `open` where it is asked for, and where it has an error, which is `wrong`."""

    plan: SectionPlan
    cells: tuple[SectionCell, ...]
    words: str
    wrong: bool
    open: bool


class Typed(Mapping[str, Any]):
    """The values of a form as they stand in its inputs, stripped; a box that is not ticked is empty."""

    def __init__(self, form: ContainerForm) -> None:
        self._form = form

    @override
    def __getitem__(self, name: str) -> Any:
        if name == "files":
            return [file for file, content in self._form.code_rows if file or content]
        value = self._form[name].value() if name in self._form.fields else ""
        return value.strip() if isinstance(value, str) else value or ""

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._form.fields)

    @override
    def __len__(self) -> int:
        return len(self._form.fields)


def sections_of(form: ContainerForm, plans: Sequence[SectionPlan], *, opened: str = "") -> list[Section]:
    """The sections of the form, one of which may be asked for by its name."""
    typed = Typed(form)
    return [_section(form, plan, typed, opened=opened) for plan in plans]


def _section(form: ContainerForm, plan: SectionPlan, typed: Values, *, opened: str) -> Section:
    fields = {name: form[name] for name in plan.names if name in form.fields}
    wrong = form.is_bound and any(field.errors for field in fields.values())
    cells = tuple(SectionCell(fields[cell.name], cell.width) for cell in plan.cells if cell.name in fields)
    return Section(
        plan=plan, cells=cells, words=plan.says(typed), wrong=wrong, open=wrong or plan.name == opened
    )


def filled_lines(text: Any) -> int:
    """How many lines have something."""
    return sum(bool(line.strip()) for line in split_lines(str(text or "")))


def short(text: Any) -> str:
    """The text, cut where it is long."""
    whole = " ".join(str(text).split())
    return whole if len(whole) <= SHOWN_MAX else f"{whole[: SHOWN_MAX - 1]}…"


def listed(*parts: str, nothing: str = NOTHING) -> str:
    """What there is of them, by commas."""
    return ", ".join(filter(None, parts)) or nothing


def environment_words(typed: Values, *, nothing: str = NOTHING) -> str:
    plain, secret = filled_lines(typed["env"]), filled_lines(typed["env_secrets"])
    return listed(
        counted(plain, "variable") if plain else "",
        f"{counted(secret, 'variable')} from secrets" if secret else "",
        nothing=nothing,
    )


def size_words(typed: Values) -> str:
    cpu, memory, shm, storage = (typed[name] for name in ("cpu", "memory", "shm", "storage"))
    share = "" if cpu and memory else "CPU and memory" if not (cpu or memory) else "memory" if cpu else "CPU"
    further = filled_lines(typed["extra_resources"])
    return listed(
        short(cpu_words(cpu)) if cpu else "",
        f"{short(memory)} of memory" if memory else "",
        f"{short(shm)} shared" if shm else "",
        f"{short(storage)} of storage" if storage else "",
        counted(further, "further resource") if further else "",
        f"{share} by the GPUs' share of a node" if share else "",
    )


def code_words(typed: Values) -> str:
    if typed["git_url"]:
        at = f" at {short(typed['git_ref'])}" if typed["git_ref"] else ""
        return f"{short(typed['git_url'])}{at}"
    files = typed["files"]
    if not files:
        return "what is in the image"
    return short(files[0]) if len(files) == 1 and files[0] else counted(len(files), "file")


def brings_code(typed: Values) -> bool:
    """Whether files or a repository come beside the image."""
    return bool(typed["git_url"] or typed["files"])


def volume_words(typed: Values) -> str:
    volumes = filled_lines(typed["volumes"])
    return counted(volumes, "volume") if volumes else ""


def further_words(typed: Values) -> str:
    labels, secrets = filled_lines(typed["labels"]), str(typed["pull_secrets"])
    return listed(
        counted(labels, "label") if labels else "",
        f"registry by {short(secrets)}" if secrets else "",
        "further fields" if str(typed["more"]) else "",
    )


ENVIRONMENT = SectionPlan(
    name="environment",
    title="Environment",
    cells=(InputCell("env", "w-6"), InputCell("env_secrets", "w-6")),
    says=environment_words,
)
SIZE = SectionPlan(
    name="size",
    title="Size of a pod",
    cells=(
        InputCell("cpu", "w-3"),
        InputCell("memory", "w-3"),
        InputCell("shm", "w-3"),
        InputCell("storage", "w-3"),
        InputCell("extra_resources", "w-6"),
    ),
    says=size_words,
)
CODE = SectionPlan(
    name="code",
    title="Code",
    cells=tuple(InputCell(name) for name in SOURCES),
    says=code_words,
    template="console/sources.html",
)
FURTHER = SectionPlan(
    name="further",
    title="Labels, registry, further fields",
    cells=(InputCell("labels", "w-6"), InputCell("pull_secrets", "w-6"), InputCell("more")),
    says=further_words,
)
