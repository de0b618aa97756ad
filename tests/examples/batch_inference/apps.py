from __future__ import annotations

from django.apps import AppConfig
from typing_extensions import override


class BatchInferenceConfig(AppConfig):
    name = "tests.examples.batch_inference"
    label = "batch_inference"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controller.reconcile.adapters import register
        from tests.examples.batch_inference.adapter import BatchInferenceAdapter

        register(BatchInferenceAdapter())
