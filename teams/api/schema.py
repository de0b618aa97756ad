"""How the bearer token is described in OpenAPI; imported once, when the app is ready."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from typing_extensions import override


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "teams.api.authentication.TokenAuthentication"
    name = "bearerToken"

    @override
    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        del auto_schema
        return {"type": "http", "scheme": "bearer", "bearerFormat": "mlp_<id>_<secret>"}
