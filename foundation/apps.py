from __future__ import annotations

from django.apps import AppConfig


class FoundationConfig(AppConfig):
    name = "foundation"
    verbose_name = "Platform"
    default_auto_field = "django.db.models.BigAutoField"
