"""What Kubernetes said of objects: its events, which it forgets after an hour."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from cluster.names import DEFAULT_CLUSTER
from workloads.models.in_cluster import InCluster


class EventRecord(models.Model):
    """An event of Kubernetes, as it last stood; one row for each, however often it was repeated."""

    cluster = models.CharField(max_length=63, default=DEFAULT_CLUSTER)
    uid = models.CharField(max_length=64, unique=True, help_text="Of the event itself.")
    namespace = models.CharField(max_length=63, blank=True, help_text="Of the object; empty for a node.")
    object_kind = models.CharField(max_length=63)
    object_name = models.CharField(max_length=253)
    object_uid = models.CharField(max_length=64, blank=True)
    reason = models.CharField(max_length=128)
    message = models.TextField(blank=True)
    warning = models.BooleanField()
    source = models.CharField(max_length=128, blank=True, help_text="Component that wrote it.")
    count = models.PositiveIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    objects = InCluster.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["object_uid", "last_at"], name="event_of_object"),
            models.Index(fields=["namespace", "object_kind", "object_name"], name="event_by_name"),
            models.Index(fields=["last_at"], name="event_age"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.reason} of {self.object_kind} {self.object_name}"
