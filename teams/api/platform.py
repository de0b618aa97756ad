"""REST: `settings/`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.http.etag import expected_versions, with_etag
from foundation.http.query import check_query_parameters
from foundation.models import PlatformSettings
from teams import permissions, platform_settings
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.api.serializers import SettingsSerializer, SettingsUpdateSerializer
from teams.models import ApiToken


class SettingsView(PortalView):
    serializer_class = SettingsSerializer
    write_scope = ApiToken.Scope.MANAGE
    honours_if_match = frozenset({"patch"})

    @extend_schema(operation_id="settings_read", tags=["platform"], responses=SettingsSerializer)
    def get(self, request: Any) -> Response:
        """The platform's settings."""
        check_query_parameters(request, ())
        row = PlatformSettings.current()
        return with_etag(Response(SettingsSerializer(row).data), row.version)

    @extend_schema(
        operation_id="settings_update",
        tags=["platform"],
        request=SettingsUpdateSerializer,
        responses=SettingsSerializer,
    )
    def patch(self, request: Any) -> Response:
        """Change the platform's settings; what is left out stays. Platform admins alone."""
        permissions.check_global_role(request.user, "platform-admin")
        changes = self.read(SettingsUpdateSerializer, partial=True)
        row = platform_settings.update_settings(
            actor=actor_of(request),
            changes=changes,
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return with_etag(Response(SettingsSerializer(row).data), row.version)
