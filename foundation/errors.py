"""One small tree of errors. An app subclasses these in its own errors.py; HTTP turns them into problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    """What is wrong with one field. `field` is a dotted path such as `env.0.name`, or "" for the whole."""

    field: str
    code: str
    message: str


class PortalError(Exception):
    """An error that the caller gets as an answer. `message` is a sentence fit to be shown."""

    status = 500
    code = "error"
    title = "Something went wrong"

    def __init__(self, message: str, *, code: str | None = None, errors: Iterable[FieldProblem] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.errors = tuple(errors)

    @property
    def members(self) -> Mapping[str, Any]:
        """What a program gets besides: further members of the problem document."""
        return {}

    @classmethod
    def of_field(cls, field: str, message: str, *, code: str | None = None) -> Self:
        """The error about one field, its sentence being the message of the whole too."""
        chosen = code or cls.code
        return cls(message, code=chosen, errors=(FieldProblem(field=field, code=chosen, message=message),))

    @classmethod
    def of_problems(cls, problems: Sequence[FieldProblem]) -> Self:
        """The error about several fields, the first of which speaks for the whole."""
        return cls(problems[0].message, code=problems[0].code, errors=problems)


class Malformed(PortalError):
    status = 400
    code = "malformed"
    title = "Malformed request"


class NotSignedIn(PortalError):
    status = 401
    code = "not_signed_in"
    title = "Not signed in"


class NotAllowed(PortalError):
    status = 403
    code = "not_allowed"
    title = "Not allowed"


class NotFound(PortalError):
    status = 404
    code = "not_found"
    title = "Not found"


class Conflict(PortalError):
    status = 409
    code = "conflict"
    title = "Conflict"


class PreconditionFailed(PortalError):
    status = 412
    code = "precondition_failed"
    title = "Changed in the meantime"


class TooLarge(PortalError):
    status = 413
    code = "too_large"
    title = "Too large"


class Invalid(PortalError):
    status = 422
    code = "invalid"
    title = "Invalid values"


class RateLimited(PortalError):
    status = 429
    code = "rate_limited"
    title = "Too many requests"

    def __init__(
        self,
        message: str,
        *,
        retry_after_seconds: int,
        code: str | None = None,
        errors: Iterable[FieldProblem] = (),
    ) -> None:
        super().__init__(message, code=code, errors=errors)
        self.retry_after_seconds = retry_after_seconds


class Unavailable(PortalError):
    status = 503
    code = "unavailable"
    title = "Temporarily unavailable"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        errors: Iterable[FieldProblem] = (),
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message, code=code, errors=errors)
        self.retry_after_seconds = retry_after_seconds
