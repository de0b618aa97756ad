"""Failures that somebody has seen and wants to see no more."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from teams.models import User
from workloads.models.kernel import Workload


class Dismissal(models.Model):
    """A person's: of a workload as it has been since `since`. What fails anew does so at another moment, and is shown."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="+")
    since = models.DateTimeField(help_text="Since when the workload was as it was then.")
    dismissed_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "workload"], name="dismissal_once")]

    @override
    def __str__(self) -> str:
        return f"{self.workload_id} for {self.user_id}"
