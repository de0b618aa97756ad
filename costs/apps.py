from __future__ import annotations

from django.apps import AppConfig


class CostsConfig(AppConfig):
    name = "costs"
    default_auto_field = "django.db.models.BigAutoField"
