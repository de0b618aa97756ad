"""The pages of docs/reference that come from the code: written by `make docs`, compared by its `--check`.

A test runs the check, so that no page can differ from the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from django.db.models import NOT_PROVIDED
from drf_spectacular.generators import SchemaGenerator

from console.reason_texts import REASON_TEXTS
from docs.generate import (
    cluster_rights,
    diagnosis_rules,
    error_codes,
    glossary_page,
    layers,
    manifests,
    metrics,
    serving,
)
from docs.generate.words import (
    ENVIRONMENT_MEANING,
    PHASE_MEANING,
    SETTING_MEANING,
)
from foundation.models import PlatformSettings
from portal.settings import env
from workloads.states import FINAL, HOLDS_CLAIM, REASONS, TRANSITIONS, Phase, Reason

WRITTEN_BY = "<!-- Written by `make docs` from the code; change the code, not this page. -->"
API_PREFIX = "/api/v1/"


def pages() -> dict[str, str]:
    """The text of every generated page by its file name. Raises KeyError for something that has no description."""
    makers: dict[str, Callable[[], list[str]]] = {
        "workload-phases.md": _workload_phases,
        "layers.md": layers.page,
        "rest-api.md": _rest_api,
        "error-codes.md": error_codes.page,
        "settings.md": _settings,
        "cluster-rights.md": cluster_rights.page,
        "diagnosis.md": diagnosis_rules.page,
        "manifests.md": manifests.page,
        "metrics.md": metrics.page,
        "serving.md": serving.page,
        "words.md": glossary_page.page,
    }
    return {name: "\n".join([WRITTEN_BY, "", *make()]) + "\n" for name, make in makers.items()}


def differences(folder: Path) -> list[str]:
    """Names of the pages in `folder` that are missing or differ from the code."""
    return [name for name, text in pages().items() if _text_of(folder / name) != text]


def write(folder: Path) -> list[str]:
    """Write what differs; returns its names."""
    changed = differences(folder)
    texts = pages()
    folder.mkdir(parents=True, exist_ok=True)
    for name in changed:
        (folder / name).write_text(texts[name], encoding="utf-8")
    return changed


def _text_of(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


# --- phases


def _workload_phases() -> list[str]:
    moves = [f"  {source} --> {target}" for source in Phase for target in _in_order(TRANSITIONS[source])]
    ends = [f"  {phase} --> [*]" for phase in Phase if phase in FINAL]
    return [
        "# Phases and reasons of a workload",
        "",
        "A run and an endpoint move through the same phases. A phase is coarse and drives the machine; a reason is fine",
        "and is for people. Beside both stand a message with numbers, `since` (when phase or reason last changed) and",
        "`observed_at` (when the cluster was last looked at). `workloads/states.py` holds the tables, one function",
        "(`workloads.services.transition`; for many queued ones together `workloads.bulk.transitions`) moves the phase, and every",
        "move is one row of events.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        f"  [*] --> {Phase.QUEUED}",
        *moves,
        *ends,
        "```",
        "",
        "## Phases",
        "",
        "| phase | holds a claim | final | meaning | may become |",
        "|---|---|---|---|---|",
        *(_phase_row(phase) for phase in Phase),
        "",
        'There is no phase for "unknown": while the cluster cannot be reached, the last known phase stays, with its age.',
        "",
        "## Reasons",
        "",
        "An event, a run or endpoint and an attempt have one of these; there are no others.",
        "",
        "| reason | pages call it | in the phases | meaning | what comes next |",
        "|---|---|---|---|---|",
        *(_reason_row(reason) for reason in Reason),
    ]


def _phase_row(phase: Phase) -> str:
    targets = ", ".join(f"`{target}`" for target in _in_order(TRANSITIONS[phase])) or "nothing"
    claim = "yes" if phase in HOLDS_CLAIM else "no"
    final = "yes" if phase in FINAL else "no"
    return f"| `{phase}` | {claim} | {final} | {PHASE_MEANING[phase]} | {targets} |"


def _reason_row(reason: Reason) -> str:
    phases = ", ".join(f"`{phase}`" for phase in Phase if reason in REASONS[phase])
    text = REASON_TEXTS[reason]
    return f"| `{reason}` | {text.called} | {phases} | {text.meaning} | {text.next_step} |"


def _in_order(targets: frozenset[Phase]) -> list[Phase]:
    return [phase for phase in Phase if phase in targets]


# --- REST


def _rest_api() -> list[str]:
    generator: Any = SchemaGenerator
    schema: Mapping[str, Any] = generator().get_schema(request=None, public=True)
    operations = [
        (path, method.upper(), operation)
        for path, methods in sorted(schema["paths"].items())
        for method, operation in methods.items()
    ]
    rows = [
        f"| {method} | `{path.removeprefix(API_PREFIX)}` | {_says(operation)} | {_statuses(operation)} |"
        for path, method, operation in operations
    ]
    return [
        "# REST API",
        "",
        f"{len(rows)} operations under `{API_PREFIX}`. Bodies, parameters and answers in full: the OpenAPI document at",
        f"`{API_PREFIX}schema/` and its pages at `{API_PREFIX}docs/` of a running portal. What holds for all of them is on",
        "[the page about conventions](rest-conventions.md).",
        "",
        "| method | path | does | answers |",
        "|---|---|---|---|",
        *rows,
    ]


def _says(operation: Mapping[str, Any]) -> str:
    text = str(operation.get("description") or operation.get("summary") or "").strip()
    sentence = " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")
    return sentence or str(operation["operationId"]).replace("_", " ")


def _statuses(operation: Mapping[str, Any]) -> str:
    answers = (
        code for code in operation.get("responses", {}) if code.startswith(("2", "3")) and code != "304"
    )
    return ", ".join(sorted(answers))


# --- settings


def _settings() -> list[str]:
    return [
        "# Settings",
        "",
        "## Environment",
        "",
        "Read once, in `portal/settings/env.py`. A `PORTAL_` name that is not in this table stops the process with the name",
        "of the nearest one; only `PORTAL_TEST_` names are left to the test suite, and what Kubernetes writes into pods for",
        "a Service named like the portal is passed over. What is not given is embedded, or made",
        "up from the other values. A secret may be read from a file: `<NAME>_FILE` instead of `<NAME>`, never both.",
        "",
        "| variable | default | from a file | meaning |",
        "|---|---|---|---|",
        *(_variable_row(name) for name in env.KNOWN),
        "",
        "## Platform settings",
        "",
        "One row in the database, read at each use: `settings:` of a [bootstrap file](bootstrap.md) changes it.",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
        *_setting_rows(),
    ]


def _variable_row(name: str) -> str:
    default, meaning = ENVIRONMENT_MEANING[name]
    return f"| `{name}` | {default} | {'yes' if name in env.SECRETS else 'no'} | {meaning} |"


def _setting_rows() -> Iterator[str]:
    for field in PlatformSettings._meta.concrete_fields:  # noqa: SLF001 (Django's documented API)
        if not field.editable:
            continue
        default = field.get_default() if field.default is not NOT_PROVIDED else ""
        shown = ", ".join(default) if isinstance(default, list) else default
        yield f"| `{field.name}` | {shown} | {SETTING_MEANING[field.name]} |"
