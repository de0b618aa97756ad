"""Forms that lose nothing of a request: what has no input is carried as JSON in one of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from django import forms
from typing_extensions import override

from console.pages.forms import ContainerForm, lines
from foundation.errors import Invalid, Malformed, TooLarge
from foundation.http.parsers import loads
from workloads.podspec.specs import Json

SAID_ELSEWHERE = frozenset({"team", "name", "replaces", "template", "template_version"})
NOTHING: tuple[Any, ...] = (None, "", [], {})


class FurtherForm(ContainerForm):
    """A form with "Further fields"; subclasses give their body to `completed`."""

    more = lines(
        "Further fields",
        "A JSON object of fields of the request that have no input here.",
        placeholder='{"working_dir": "/srv"}',
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        written = str((self.data if self.is_bound else self.initial).get("more") or "")
        self.fields["more"].widget.attrs["rows"] = min(16, max(3, written.count("\n") + 1))

    def point_to_more(self) -> None:
        """Where an input is empty because its value stands in the further fields, it says so."""
        written = str((self.data if self.is_bound else self.initial).get("more") or "")
        with suppress(ValueError, RecursionError):
            carried = json.loads(written or "{}")
            for name in carried if isinstance(carried, dict) else ():
                field = self.fields.get(self.PATHS.get(name, ""))
                if field is not None:
                    field.help_text = f"{field.help_text} Part of it stands in the further fields below."

    def completed(self, typed: Json, values: Mapping[str, Any]) -> dict[str, Any]:
        """The body of the inputs with what the further fields give; what both give in two ways is an error there."""
        body, twice = combined(typed, values.get("more") or {})
        for name in twice:
            self.add_error("more", f"{name} is given above, too, in another way.")
        return body

    def clean_more(self) -> dict[str, Any]:
        """What was written there, as an object."""
        written = str(self.cleaned_data["more"]).strip()
        try:
            fields = loads(written.encode("utf-8", "surrogatepass")) if written else {}
        except (Malformed, TooLarge) as error:
            said = error.message.replace("The request body", "This")
            raise forms.ValidationError(said, code="invalid") from error
        if not isinstance(fields, dict):
            raise forms.ValidationError('Write an object: {"field": value}.', code="invalid")
        return fields

    @override
    def _field_of(self, path: str) -> str | None:
        """What came from the further fields is wrong there."""
        fields = self.cleaned_data.get("more") or {}
        return "more" if path.partition(".")[0] in fields else super()._field_of(path)


def carried(
    form: FurtherForm, values: Mapping[str, Any], request: Json, parse: Callable[[Json], Json]
) -> dict[str, Any]:
    """The form's values for a request, completed by the parts that the inputs of this form cannot express.

    `parse` writes out every default of a body. Inputs are emptied whose field stands in the further fields as a whole.
    """
    form.sources = values["sources"]
    typed = {name: value for name, value in form.to_body(values).items() if value not in NOTHING}
    rest, emptied = rest_of(request, typed, parse)
    initial = {**values, "more": json.dumps(rest, indent=2, ensure_ascii=False) if rest else ""}
    for path, field in form.PATHS.items():
        if path.partition(".")[0] in emptied:
            initial[field] = ""
    if "env" in emptied:
        initial["env_secrets"] = ""
    if "source" in emptied:
        initial["sources"] = []
    return initial


def rest_of(request: Json, typed: Json, parse: Callable[[Json], Json]) -> tuple[dict[str, Any], list[str]]:
    """The parts of the request that the typed body lacks, as a body; and the fields whose inputs must be emptied for it.

    Of an object that is typed in part, such as a checkpoint, the rest is the other part.
    """
    wanted, have = _normal(request, parse), _normal(typed, parse)
    rest: dict[str, Any] = {}
    emptied: list[str] = []
    for name in request:
        value = wanted.get(name)
        if name in SAID_ELSEWHERE or value == have.get(name):
            continue
        part = _other_part(value, have.get(name))
        if part is None:
            emptied.append(name)
        if value not in NOTHING:
            rest[name] = value if part is None else part
    return rest, emptied


def _other_part(value: Any, typed: Any) -> dict[str, Any] | None:
    """What to merge into the typed object to make it the value; None where that cannot be."""
    if not isinstance(value, Mapping) or not isinstance(typed, Mapping):
        return None
    if any(typed[key] is not None and key not in value for key in typed):
        return None
    return {key: inner for key, inner in value.items() if typed.get(key) != inner}


def _normal(request: Json, parse: Callable[[Json], Json]) -> Json:
    """The request with every default written out."""
    body = {key: value for key, value in request.items() if value not in NOTHING}
    try:
        return parse({"name": "", "image": "", **body})
    except (Invalid, KeyError, TypeError, ValueError, AttributeError):
        # The request is not checked yet; its problems are reported where it is judged.
        return request


def combined(typed: Json, rest: Json) -> tuple[dict[str, Any], list[str]]:
    """The body that was typed, completed by the rest; and the fields that both give in different ways."""
    body, twice = dict(typed), []
    for name, value in rest.items():
        have = body.get(name)
        if have in NOTHING or have == value:
            body[name] = value
        elif isinstance(have, Mapping) and isinstance(value, Mapping):
            body[name] = {**have, **value}
        else:
            twice.append(name)
    return body, twice
