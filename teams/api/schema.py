"""How OpenAPI describes what views have besides DRF: the bearer token, and the headers that are honoured."""

from __future__ import annotations

import re
from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework.negotiation import DefaultContentNegotiation
from typing_extensions import override

from foundation.http.schema import IDEMPOTENCY_PARAMETER, IF_MATCH_PARAMETER, problem_response
from teams.api.scopes import ScopePermission, scope_of

SCOPE = "x-required-scope"
SUMMARY_MAX: Final = 80
_SENTENCE_END: Final = re.compile(r"\.(?=\s|$)")


class PortalSchema(AutoSchema):
    """Adds a summary, the headers that a method honours, and the scope that a token needs for it."""

    @override
    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation:
            operation.setdefault("parameters", []).extend(self._honoured())
            self._name_scope(operation)
            if issubclass(self.view.content_negotiation_class, DefaultContentNegotiation):
                operation["responses"]["406"] = problem_response(406)
            # What views of several kinds share says `{one}` for what each of them is about.
            words = getattr(self.view, "summary_words", {})
            operation["summary"] = operation.get("summary", "").format(**words)
        return operation

    @override
    def get_summary(self) -> str:
        """The first sentence of the docstring, as many of its clauses as fit."""
        return summary_of(self.get_description())

    def _name_scope(self, operation: dict[str, Any]) -> None:
        if ScopePermission in self.view.permission_classes:
            operation[SCOPE] = scope = scope_of(self.view, self.method)
            said = operation.get("description", "")
            operation["description"] = f"{said}\n\nA token needs the scope `{scope}`.".strip()

    def _honoured(self) -> list[dict[str, Any]]:
        """The headers that the method goes by."""
        method = self.method.lower()
        handler = getattr(self.view, getattr(self.view, "action", None) or method, None)
        parameters = []
        if method in getattr(self.view, "honours_if_match", ()):
            parameters.append(IF_MATCH_PARAMETER)
        if getattr(handler, "honours_idempotency_key", False):
            parameters.append(IDEMPOTENCY_PARAMETER)
        return parameters

    @override
    def _get_response_for_code(
        self, serializer: Any, status_code: str, media_types: Any = None, direction: str = "response"
    ) -> Any:
        # drf-spectacular takes a file for a row, and makes a page of a list of it.
        if isinstance(serializer, dict):
            content = {media_type: {"schema": serializer} for media_type in media_types or ()}
            return {"description": "", "content": content}
        answer: Any = super()._get_response_for_code(serializer, status_code, media_types, direction)  # type: ignore[no-untyped-call]
        return answer

    @override
    def get_filter_backends(self) -> list[Any]:
        # What is filtered and then summed or exported is no list to drf-spectacular.
        view: Any = self.view
        if self.method == "GET" and getattr(view, "filters", {}) and view.pagination_class is None:
            return list(view.filter_backends)
        backends: list[Any] = super().get_filter_backends()
        return backends


def summary_of(text: str) -> str:
    """The first sentence, up to a semicolon and without its full stop; of one that is too long what fits."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    summary = _SENTENCE_END.split(paragraph)[0].partition("; ")[0]
    for end in (": ", ", "):
        if len(summary) > SUMMARY_MAX:
            summary = summary[: SUMMARY_MAX + 1].rpartition(end)[0] or summary
    return summary


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "teams.api.authentication.TokenAuthentication"
    name = "bearerToken"

    @override
    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        del auto_schema
        return {"type": "http", "scheme": "bearer", "bearerFormat": "mlp_<id>_<secret>"}
