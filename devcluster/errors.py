"""Refusals as the API server words them: a `Status` body with a code, a reason and causes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from .kinds import Kind


class ApiError(Exception):
    """An answer other than success; `status()` is its body."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.details = code, reason, message, details

    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        body |= {"message": self.message, "reason": self.reason, "code": self.code}
        if self.details is not None:
            body["details"] = self.details
        return body


@dataclass(frozen=True, slots=True)
class Fault:
    """One refused field."""

    field: str
    reason: str
    text: str

    @override
    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


def required(field: str, detail: str = "") -> Fault:
    return Fault(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def wrong(field: str, value: object, detail: str) -> Fault:
    shown = json.dumps(value, separators=(",", ":"), default=str)
    return Fault(field, "FieldValueInvalid", f"Invalid value: {shown}: {detail}")


def unsupported(field: str, value: object, allowed: tuple[str, ...]) -> Fault:
    choices = ", ".join(map(json.dumps, allowed))
    text = f"Unsupported value: {json.dumps(value)}: supported values: {choices}"
    return Fault(field, "FieldValueNotSupported", text)


def duplicate(field: str, value: object) -> Fault:
    return Fault(field, "FieldValueDuplicate", f"Duplicate value: {json.dumps(value, separators=(',', ':'))}")


def forbidden_field(field: str, detail: str) -> Fault:
    return Fault(field, "FieldValueForbidden", f"Forbidden: {detail}")


def details_of(kind: Kind, name: str, label: str | None = None, **more: Any) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name, "kind": label or kind.plural}
    if kind.group:
        details["group"] = kind.group
    return details | more


def invalid(kind: Kind, name: str, faults: list[Fault]) -> ApiError:
    text = str(faults[0]) if len(faults) == 1 else "[" + ", ".join(map(str, faults)) + "]"
    causes = [{"reason": f.reason, "message": f.text, "field": f.field} for f in faults]
    message = f'{kind.qualified} "{name}" is invalid: {text}'
    return ApiError(422, "Invalid", message, details_of(kind, name, kind.name, causes=causes))


def not_found(kind: Kind, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{kind.resource} "{name}" not found', details_of(kind, name))


def already_exists(kind: Kind, name: str) -> ApiError:
    return ApiError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', details_of(kind, name))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(kind: Kind, name: str, why: str = STALE) -> ApiError:
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return ApiError(409, "Conflict", message, details_of(kind, name))


def forbidden(kind: Kind, name: str, why: str) -> ApiError:
    return ApiError(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', details_of(kind, name))


def webhook_denial(webhook: str, why: str) -> ApiError:
    return ApiError(403, "Forbidden", f'admission webhook "{webhook}" denied the request: {why}')


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message)


def not_implemented(what: str) -> ApiError:
    """Honest about the subset: the answer names what is missing."""
    return ApiError(501, "NotImplemented", f"devcluster does not implement {what}")
