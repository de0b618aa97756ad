"""The folded parts of the form of an endpoint, and those of its settings, each of which is saved alone."""

from __future__ import annotations

from console.pages.sections import (
    CODE,
    ENVIRONMENT,
    FIELDS,
    FURTHER,
    SIZE,
    SOURCES,
    InputCell,
    SectionPlan,
    Values,
    brings_code,
    code_words,
    environment_words,
    further_words,
    listed,
    short,
    size_words,
    volume_words,
)
from foundation.digits import whole_number
from foundation.number_words import counted
from inference.pages.forms import MODEL_FIELDS, OPTIONS
from inference.runtimes import CUSTOM, PRESETS

TRIGGER_WORDS = {
    "gpu-utilization": "GPU utilization",
    "queue-latency": "the server's queue",
    "queue-depth": "requests in the server's queue",
    "requests-per-second": "requests per second",
    "in-flight": "requests in flight",
    "prometheus": "a query",
    "cpu": "CPU",
    "cron": "the clock",
}
"""What comes after "by"."""
SERVING_FIELDS = ("port", "readiness_path", "load_budget", "request_timeout", "rate", "burst")


def scaling_words(typed: Values) -> str:
    """`1 to 3 by requests in flight`, `2 replicas`."""
    least = str(typed["replicas"] or "1")
    most = str(typed["max_replicas"] or least)
    lowest = "0" if typed["to_zero"] else least
    if not typed["trigger"]:
        number = whole_number(least)
        fixed = short(least) if number is None else counted(number, "replica")
        return fixed if most == least else f"{short(least)} to {short(most)}, by nothing yet"
    by = TRIGGER_WORDS.get(str(typed["trigger"]), short(typed["trigger"]))
    wakes = f", wakes to {short(least)}" if typed["to_zero"] and least != "1" else ""
    return f"{short(lowest)} to {short(most)} by {by}{wakes}"


def serving_words(typed: Values) -> str:
    """What serves which model, and where it listens."""
    preset = PRESETS.get(str(typed["runtime"] or CUSTOM), PRESETS[CUSTOM])
    port = str(typed["port"] or preset.http)
    ready = str(typed["readiness_path"] or preset.readiness_path or "")
    model = typed["model_claim"] or typed["model_uri"] or typed["model_path"]
    rate = typed["rate"]
    return listed(
        "own server" if preset.name == CUSTOM else preset.name,
        f"model from {short(model)}" if model else "",
        f"port {short(port)}",
        f"ready by {short(ready)}" if ready else "",
        f"{short(rate)} requests a second" if rate else "",
    )


def _rollout_words(typed: Values) -> str:
    return f"{typed['strategy'] or 'surge'}, {typed['priority'] or 'normal'} priority"


SCALING_CELLS = (
    InputCell("replicas", "w-3"),
    InputCell("max_replicas", "w-3"),
    InputCell("trigger", "w-6"),
    InputCell("threshold", "w-3 of-trigger of-target"),
    InputCell("cooldown", "w-3 of-trigger"),
    InputCell("fallback", "w-3 of-trigger"),
    InputCell("query", "w-9 of-prometheus"),
    InputCell("to_zero", "of-trigger"),
)
ROLLOUT_CELLS = (
    InputCell("strategy", "w-6"),
    InputCell("when_blocked", "w-6 of-surge"),
    InputCell("max_downtime", "w-6 of-replace"),
    InputCell("priority", "w-6"),
)
SERVING_CELLS = tuple(
    InputCell(name)
    for name in (
        *(f"model_{name}" for name in MODEL_FIELDS),
        *(f"opt_{name}" for name in OPTIONS),
        *SERVING_FIELDS,
    )
)
SCALING = SectionPlan(name="scaling", title="Scaling", cells=SCALING_CELLS, says=scaling_words)
SERVING = SectionPlan(
    name="serving",
    title="Model and serving",
    cells=SERVING_CELLS,
    says=serving_words,
    template="inference/section_serving.html",
)
SECTIONS = (
    SCALING,
    SERVING,
    ENVIRONMENT,
    SIZE,
    SectionPlan(
        name="volumes",
        title="Volumes",
        cells=(InputCell("volumes"),),
        says=lambda typed: listed(volume_words(typed)),
    ),
    CODE,
    SectionPlan(name="rollout", title="Rollout and priority", cells=ROLLOUT_CELLS, says=_rollout_words),
    FURTHER,
)
"""Of a new endpoint."""
SETTINGS = (
    SectionPlan(
        name="container",
        title="Container",
        cells=(
            InputCell("image"),
            InputCell("command", "w-6"),
            InputCell("args", "w-6"),
            InputCell("env", "w-6"),
            InputCell("env_secrets", "w-6"),
            InputCell("pull_secrets", "w-6"),
            *CODE.cells,
        ),
        says=lambda typed: listed(
            short(typed["image"]),
            environment_words(typed, nothing=""),
            f"code: {code_words(typed)}" if brings_code(typed) else "",
        ),
        template="inference/section_container.html",
    ),
    SectionPlan(
        name="serving",
        title="Model and serving",
        cells=(InputCell("runtime"), *SERVING_CELLS),
        says=serving_words,
        template="inference/section_serving.html",
    ),
    SectionPlan(
        name="size",
        title="Size and volumes",
        cells=(*SIZE.cells, InputCell("volumes", "w-6")),
        says=lambda typed: listed(size_words(typed), volume_words(typed)),
    ),
    SCALING,
    SectionPlan(
        name="rollout",
        title="Rollout, priority, labels",
        cells=(*ROLLOUT_CELLS, InputCell("labels", "w-6"), InputCell("more")),
        says=lambda typed: listed(
            _rollout_words(typed), further_words(typed) if typed["labels"] or typed["more"] else ""
        ),
        template=FIELDS,
    ),
)
"""Of a change: five, each of which is saved alone."""
BY_NAME = {plan.name: plan for plan in SETTINGS}
"""The sections of a change."""
SENT_OF_SOURCES = ("file_name", "file_content")
"""What a browser sends of the source files, whose inputs are no fields of the form."""


def inputs_of(plan: SectionPlan) -> set[str]:
    """The names under which a browser sends what stands in the section."""
    names = set(plan.names)
    return names | set(SENT_OF_SOURCES) if SOURCES[0] in names else names
