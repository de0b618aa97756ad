"""A template on the form: what it begins with, which inputs it alone decides, which limits stand beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from console.pages.forms import ContainerForm
from foundation.number_words import limit_words
from jobs.models import RunTemplate
from jobs.presets import Bound

IN_SECONDS = "_seconds"


@dataclass(frozen=True, slots=True)
class TemplateRules:
    """The rules of one template, by the names of the form's fields; empty without a template."""

    template: RunTemplate | None = None
    initial: Mapping[str, Any] = field(default_factory=dict)
    locked: frozenset[str] = frozenset()
    limits: Mapping[str, str] = field(default_factory=dict)
    more: str = ""
    """The other fields that it fills in, for which there is no input: JSON."""

    def apply(self, form: ContainerForm) -> None:
        """Mark the inputs, so that they say what the template allows before it is asked.

        A browser sends what is only to be read, so a locked input can neither be changed unseen nor be lost.
        """
        form.files_fixed = "upload" in self.locked
        form.flavor_fixed = "flavor" in self.locked
        for name in self.locked:
            locked: Any = form.fields[name]
            if hasattr(locked, "choices"):
                value = self.initial[name]
                locked.choices = [choice for choice in locked.choices if choice[0] == value] or [
                    (value, value)
                ]
            else:
                locked.widget.attrs["readonly"] = True
        for name, words in self.limits.items():
            limited = form.fields[name]
            limited.help_text = f"{limited.help_text} {words}".strip()


def rules_of(template: RunTemplate, paths: Mapping[str, str], values: Mapping[str, Any]) -> TemplateRules:
    """The rules for a form whose inputs are at `paths`; `values` are the form's for the template's defaults."""
    filled = {path: name for path, name in paths.items() if path.partition(".")[0] in template.defaults}
    locked = frozenset(name for path, name in filled.items() if path.partition(".")[0] in template.locked)
    if "env" in locked:
        locked |= {"env_secrets"}
    initial = {name: values[name] for name in filled.values() if name in values}
    if "env" in initial:
        initial["env_secrets"] = values["env_secrets"]
    if "source" in template.defaults:
        initial["sources"] = values["sources"]
    limits = {
        name: words
        for path, name in paths.items()
        if (words := _words(path, template.minimum.get(path), template.maximum.get(path)))
    }
    limits |= dict.fromkeys(locked, "Set by the template.")
    return TemplateRules(template, initial | {"template": template.name}, locked, limits, values["more"])


def _words(path: str, least: Bound | None, most: Bound | None) -> str:
    if least is None and most is None:
        return ""
    low, high = (_shown(path, bound) for bound in (least, most))
    if least == most:
        return f"Only {low} by the template."
    if least is None:
        return f"At most {high} by the template."
    return f"At least {low} by the template." if most is None else f"{low} to {high} by the template."


def _shown(path: str, bound: Bound | None) -> str:
    in_seconds = path.endswith(IN_SECONDS) and isinstance(bound, int)
    return limit_words(int(bound or 0)) if in_seconds else str(bound)
