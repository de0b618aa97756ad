"""Which profile of Kubernetes' Pod Security a namespace is held to, as the platform and each team have it."""

from __future__ import annotations

from django.db.models import TextChoices


class PodSecurity(TextChoices):
    AUTOMATIC = "automatic"
    BASELINE = "baseline"
    RESTRICTED = "restricted"
