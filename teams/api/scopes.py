"""What the REST framework asks before every view. A module of its own: services share `permissions` and know no HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from typing_extensions import override

from teams.models import ApiToken
from teams.permissions import check_scope


class ScopePermission(BasePermission):
    """The default permission of the API: signed in, and the token has the scope of the method.

    Safe methods ask for `read`, others for the view's `write_scope` (`submit` unless it says `manage`);
    `scopes = {"POST": "read"}` on a view overrides it for one method, such as a preview that makes nothing.
    """

    @override
    def has_permission(self, request: Any, view: Any) -> bool:
        check_scope(request, scope_of(view, request.method))
        return True


def scope_of(view: Any, method: str) -> str:
    """The scope that a token needs for this method of the view."""
    overrides: Mapping[str, str] = getattr(view, "scopes", {})
    if method in SAFE_METHODS:
        return str(overrides.get(method, ApiToken.Scope.READ))
    return str(overrides.get(method, getattr(view, "write_scope", ApiToken.Scope.SUBMIT)))
