"""The folded parts of the form of a run."""

from __future__ import annotations

from cluster.kinds import ResourceKind
from console.pages.sections import (
    CODE,
    ENVIRONMENT,
    FURTHER,
    SIZE,
    InputCell,
    SectionPlan,
    Values,
    filled_lines,
    listed,
    short,
    volume_words,
)
from foundation.number_words import counted
from jobs.kinds import JOB, KINDS


def _kind_words(typed: Values) -> str:
    kind = KINDS.get(str(typed["kind"] or JOB))
    objects: tuple[ResourceKind, ...] = kind.objects if kind else ()
    retries = str(typed["retries"] or "0")
    return listed(
        objects[0].kind if objects else short(typed["kind"]),
        f"{short(typed['processes'])} processes in each pod" if typed["processes"] else "",
        "no retries" if retries == "0" else f"{short(retries)} retries" if retries != "1" else "1 retry",
        f"{typed['priority'] or 'normal'} priority",
    )


def _data_words(typed: Values) -> str:
    folder = typed["checkpoint_path"]
    return listed(volume_words(typed), f"checkpoints in {short(folder)}" if folder else "")


def _sweep_words(typed: Values) -> str:
    parameters = filled_lines(typed["parameters"])
    if not parameters:
        return "one run"
    at_once = typed["max_parallel"]
    return listed(
        f"many runs over {counted(parameters, 'parameter')}",
        f"{short(at_once)} at once" if at_once else "",
        f"stopped early by {short(typed['stop_metric'])}" if typed["stop_metric"] else "",
    )


KIND = SectionPlan(
    name="kind",
    title="Kind, retries, priority",
    cells=(
        InputCell("kind", "w-3"),
        InputCell("processes", "w-3"),
        InputCell("retries", "w-3"),
        InputCell("priority", "w-3"),
    ),
    says=_kind_words,
)
DATA = SectionPlan(
    name="data",
    title="Volumes and checkpoints",
    cells=(
        InputCell("volumes"),
        InputCell("checkpoint_path", "w-6"),
        InputCell("checkpoint_claim", "w-6 of-checkpoint"),
    ),
    says=_data_words,
)
SWEEP = SectionPlan(
    name="sweep",
    title="Sweep: many runs",
    cells=(
        InputCell("parameters"),
        InputCell("max_parallel", "w-6 of-sweep"),
        InputCell("stop_metric", "w-6 of-sweep"),
        InputCell("stop_goal", "w-3 of-early-stop"),
        InputCell("stop_target", "w-3 of-early-stop"),
        InputCell("stop_median", "w-6 of-early-stop"),
    ),
    says=_sweep_words,
)
SECTIONS = (ENVIRONMENT, SIZE, DATA, CODE, KIND, SWEEP, FURTHER)
