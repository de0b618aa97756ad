from __future__ import annotations

from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created
from typing_extensions import override

from foundation import database, logs
from foundation.signals import settings_changed


class FoundationConfig(AppConfig):
    name = "foundation"
    verbose_name = "Platform"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        register_configured_secrets()
        from foundation.http import rates

        settings_changed.connect(rates.forget, dispatch_uid="foundation.rates.forget")
        connection_created.connect(database.note_opened, dispatch_uid="foundation.database.note_opened")


def register_configured_secrets() -> None:
    """No process prints what it was configured with: its key and the passwords of its stores."""
    passwords = [database.get("PASSWORD") for database in settings.DATABASES.values()]
    for secret in (
        settings.SECRET_KEY,
        urlsplit(settings.REDIS_URL).password,
        settings.PROMETHEUS_TOKEN,
        *passwords,
    ):
        if secret:
            logs.register_secret(secret)
