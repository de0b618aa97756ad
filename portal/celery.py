"""The Celery application."""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.signals import setup_logging

app = Celery("portal")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _keep_the_settings_logging(**_: Any) -> None:
    """Its mere presence keeps Celery from replacing the handlers of the settings."""
