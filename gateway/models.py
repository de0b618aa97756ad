"""How often endpoints are called, by the minute."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workloads.models import Workload


class RequestCount(models.Model):
    """Requests to an endpoint that ended within one minute with one class of status (2 for 2xx … 5 for 5xx)."""

    endpoint = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="request_counts")
    minute = models.DateTimeField(help_text="Its beginning.")
    status_class = models.PositiveSmallIntegerField()
    count = models.PositiveBigIntegerField()
    milliseconds_sum = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "minute", "status_class"], name="request_count_once_a_minute"
            ),
            models.CheckConstraint(
                name="request_count_status_class", condition=models.Q(status_class__range=(1, 5))
            ),
        ]
        indexes = [models.Index(fields=["minute"], name="request_count_expiry")]

    @override
    def __str__(self) -> str:
        return f"{self.count} of {self.status_class}xx in {self.minute:%Y-%m-%dT%H:%MZ}"
