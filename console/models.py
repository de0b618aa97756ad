"""What people keep of the lists that they look at."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from typing_extensions import override

from foundation import ids

NAME_LENGTH_MAX = 60
QUERY_LENGTH_MAX = 1000


class SavedView(models.Model):
    """The filters of a list under a name, for the one person who saved them."""

    public_id = models.UUIDField(default=ids.new_public_id, unique=True, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    kind = models.CharField(max_length=40, help_text="Of the workloads that the list shows.")
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    query = models.CharField(
        max_length=QUERY_LENGTH_MAX, blank=True, help_text="The filters, as the list's address has them."
    )
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.UniqueConstraint(fields=["user", "kind", "name"], name="saved_view_name_unique"),
        ]

    @override
    def __str__(self) -> str:
        return self.name
