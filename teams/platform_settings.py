"""The only writer of the platform's settings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from foundation.http.etag import Versions, check_version
from foundation.models import PlatformSettings
from foundation.signals import settings_changed
from teams.actors import Actor
from teams.audit import record_audit

SETTINGS_CHANGEABLE = (
    "minimum_run_seconds",
    "grace_seconds",
    "fair_share_half_life_hours",
    "default_time_limit_seconds",
    "image_pull_deadline_seconds",
    "schedule_deadline_seconds",
    "log_retention_days",
    "record_retention_days",
    "estimate_retention_days",
    "lost_work_credit_seconds",
    "git_image",
    "storage_image",
    "spot_fallback_seconds",
    "optional_kinds",
    "gang_scheduler",
    "scaler_prometheus_url",
    "dcgm_labels",
    "dcgm_job",
    "password_exchange",
    "ceiling_cpus",
    "ceiling_memory_gib",
    "ceiling_ephemeral_storage_gib",
    "ceiling_pods",
    "ceiling_volumes",
    "ceiling_volume_storage_gib",
    "open_sweeps",
    "open_workloads",
    "team_log_gib",
    "image_prefixes",
    "pod_security",
    "reads_per_minute",
    "writes_per_minute",
    "expensive_per_minute",
    "anonymous_per_minute",
    "pages_per_minute",
)


@transaction.atomic
def update_settings(
    *,
    actor: Actor,
    changes: Mapping[str, Any],
    now: datetime,
    expected_versions: Versions | None = None,
) -> PlatformSettings:
    """The platform's settings with `changes`, which name some of SETTINGS_CHANGEABLE."""
    PlatformSettings.objects.get_or_create(pk=PlatformSettings.SINGLETON_PK)
    row = PlatformSettings.objects.select_for_update().get(pk=PlatformSettings.SINGLETON_PK)
    check_version(expected=expected_versions, current=row.version)
    before = {name: getattr(row, name) for name in changes}
    if before == dict(changes):
        return row
    for name, value in changes.items():
        setattr(row, name, value)
    row.version, row.updated_at = row.version + 1, now
    row.save()
    record_audit(
        actor=actor,
        action="settings.update",
        target_kind="settings",
        target_id="platform",
        before=before,
        after=changes,
        now=now,
    )
    changed = frozenset(name for name, value in changes.items() if before[name] != value)
    transaction.on_commit(partial(settings_changed.send, sender=PlatformSettings, names=changed))
    return row
