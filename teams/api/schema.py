"""How OpenAPI describes what views have besides DRF: the bearer token, and the headers that are honoured."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from typing_extensions import override

from foundation.http.schema import IDEMPOTENCY_PARAMETER, IF_MATCH_PARAMETER
from teams.api.scopes import ScopePermission, scope_of

SCOPE = "x-required-scope"


class PortalSchema(AutoSchema):
    """Adds the headers that a method honours, and the scope that a token needs for it."""

    @override
    def get_operation(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        operation: dict[str, Any] | None = super().get_operation(*args, **kwargs)
        if operation:
            operation.setdefault("parameters", []).extend(self._honoured())
            self._name_scope(operation)
        return operation

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
    def get_filter_backends(self) -> list[Any]:
        # What is filtered and then summed or exported is no list to drf-spectacular.
        view: Any = self.view
        if self.method == "GET" and getattr(view, "filters", {}) and view.pagination_class is None:
            return list(view.filter_backends)
        backends: list[Any] = super().get_filter_backends()
        return backends


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "teams.api.authentication.TokenAuthentication"
    name = "bearerToken"

    @override
    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        del auto_schema
        return {"type": "http", "scheme": "bearer", "bearerFormat": "mlp_<id>_<secret>"}
