from __future__ import annotations

from typing import Any

import django_stubs_ext
from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate, pre_migrate
from typing_extensions import override

# Lets `forms.ModelForm[Model]` and the like stand in code. The portal is the first application, so this comes
# before any of their modules; the settings module itself stays free of Django, for the small processes.
django_stubs_ext.monkeypatch()


class PortalConfig(AppConfig):
    name = "portal"
    verbose_name = "Portal"

    @override
    def ready(self) -> None:
        from django_cotton.nested_tag_support import (  # type: ignore[import-untyped]
            enable_nested_tag_support,
        )

        from pages.endpoints import panels
        from pages.gpus import figures

        # Publishing needs the configured Celery application in every process.
        from portal import celery, checks, preflight  # noqa: F401

        enable_nested_tag_support()
        panels.register()
        figures.register()
        pre_migrate.connect(_lift_the_timeout, dispatch_uid="portal.lift_statement_timeout")
        post_migrate.connect(_restore_the_timeout, dispatch_uid="portal.restore_statement_timeout")


def _lift_the_timeout(*, using: str, **_: Any) -> None:
    """A migration of a large table takes as long as it takes; waiting for locks stays bounded."""
    with connections[using].cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")


def _restore_the_timeout(*, using: str, **_: Any) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute("RESET statement_timeout")
