"""Rows that every app needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Self, cast

from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models.expressions import RawSQL
from typing_extensions import override

from foundation import clock
from foundation.optional_kinds import offered_by_default
from foundation.pod_security import PodSecurity
from foundation.validators import validate_image_prefixes

DEFAULT_GIT_IMAGE = "alpine/git:v2.49.1"
DEFAULT_STORAGE_IMAGE = "kserve/storage-initializer:v0.20.0"
validate_image = RegexValidator(
    r"\A[A-Za-z0-9][-A-Za-z0-9_./:@]*\Z",
    "Write an image as [registry/]name[:tag][@digest].",
    code="invalid_image",
)


validate_server_url = RegexValidator(
    r"\Ahttps?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[-A-Za-z0-9._~/]*)?\Z",
    "Write a URL as http://server:9090, without a query.",
    code="invalid_url",
)


validate_jobs = RegexValidator(
    r"\A[A-Za-z0-9_./:-]+(\|[A-Za-z0-9_./:-]+)*\Z",
    "Write names of Prometheus' jobs as dcgm-exporter, several as dcgm-exporter|nvidia-dcgm-exporter.",
    code="invalid_jobs",
)


RETENTION_DAYS_MIN = 31
"""Longer than a run may take, and than the past by which estimates are judged."""
GANG_SCHEDULERS = ("volcano", "coscheduling")


def default_optional_kinds() -> list[str]:
    """Named here for the migrations."""
    return offered_by_default()


class PlatformSettings(models.Model):
    """What a platform admin may change while the portal runs: one row, its defaults being the design's."""

    SINGLETON_PK: ClassVar[int] = 1

    class DcgmLabels(models.TextChoices):
        EXPORTED = "exported"
        PLAIN = "plain"

    id = models.PositiveSmallIntegerField(primary_key=True, default=SINGLETON_PK, editable=False)
    minimum_run_seconds = models.PositiveIntegerField(
        default=300, help_text="A run younger than this is never preempted."
    )
    grace_seconds = models.PositiveIntegerField(default=60, help_text="Between SIGTERM and SIGKILL.")
    fair_share_half_life_hours = models.PositiveIntegerField(default=168, validators=[MinValueValidator(1)])
    default_time_limit_seconds = models.PositiveIntegerField(
        default=86_400, validators=[MinValueValidator(1)]
    )
    spot_fallback_seconds = models.PositiveIntegerField(default=600)
    image_pull_deadline_seconds = models.PositiveIntegerField(default=900, validators=[MinValueValidator(1)])
    schedule_deadline_seconds = models.PositiveIntegerField(default=600, validators=[MinValueValidator(1)])
    log_retention_days = models.PositiveIntegerField(default=30, validators=[MinValueValidator(1)])
    record_retention_days = models.PositiveIntegerField(
        default=400,
        validators=[MinValueValidator(RETENTION_DAYS_MIN)],
        help_text="How long rows of pods, objects and nodes are kept that have gone; the ledger stays.",
    )
    estimate_retention_days = models.PositiveIntegerField(
        default=180,
        validators=[MinValueValidator(RETENTION_DAYS_MIN)],
        help_text="How long it is kept when a workload was expected to start.",
    )
    lost_work_credit_seconds = models.PositiveIntegerField(
        default=3600,
        db_default=3600,
        help_text="The most work of an attempt that the platform destroyed for which its team gets its money back; 0: none.",
    )
    git_image = models.CharField(
        max_length=512,
        default=DEFAULT_GIT_IMAGE,
        validators=[validate_image],
        help_text="The image of the init containers that fetch `source.git`; it has git and a shell.",
    )
    storage_image = models.CharField(
        max_length=512,
        default=DEFAULT_STORAGE_IMAGE,
        validators=[validate_image],
        help_text="The image of the init container that fetches `model.uri`: its program takes where from and where to.",
    )
    optional_kinds = models.JSONField(default=default_optional_kinds, blank=True)
    gang_scheduler = models.CharField(
        max_length=16,
        default="",
        blank=True,
        choices=[(name, name) for name in GANG_SCHEDULERS],
        help_text="Places the pods of a gang together, where the cluster has it; empty leaves that to admission.",
    )
    scaler_prometheus_url = models.CharField(
        max_length=200,
        default="",
        blank=True,
        validators=[validate_server_url],
        help_text="Where scalers inside the cluster ask Prometheus; empty: where the portal itself asks.",
    )
    dcgm_labels = models.CharField(
        max_length=8,
        choices=DcgmLabels.choices,
        default=DcgmLabels.EXPORTED,
        help_text="How Prometheus labels the pods of DCGM's metrics: exported_pod, unless its scrapes honour labels.",
    )
    dcgm_job = models.CharField(
        max_length=200,
        default="",
        blank=True,
        validators=[validate_jobs],
        help_text="Prometheus' job of DCGM's metrics, several joined by |; empty: whoever publishes them is believed.",
    )
    image_prefixes = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_image_prefixes],
        help_text="Registries or beginnings of image names for teams without a list of their own; empty: any image.",
    )
    pod_security = models.CharField(
        max_length=16,
        choices=PodSecurity.choices,
        default=PodSecurity.AUTOMATIC,
        help_text="The profile of Pod Security in namespaces of teams that have none of their own; automatic: restricted, or "
        "baseline while a kind is offered whose pods restricted refuses.",
    )
    password_exchange = models.BooleanField(
        default=True, help_text="Whether a user's name and password get an API token over REST."
    )
    ceiling_cpus = models.PositiveIntegerField(
        default=8192,
        null=True,
        blank=True,
        help_text="CPU cores that a team may hold, unless it has a ceiling of its own; empty for no ceiling.",
    )
    ceiling_memory_gib = models.PositiveIntegerField(
        default=65_536,
        null=True,
        blank=True,
        help_text="GiB of memory that a team may hold, unless it has a ceiling of its own; empty for no ceiling.",
    )
    ceiling_ephemeral_storage_gib = models.PositiveIntegerField(
        default=65_536,
        null=True,
        blank=True,
        help_text="GiB of ephemeral storage that a team may hold, unless it has a ceiling of its own; empty for no ceiling.",
    )
    ceiling_pods = models.PositiveIntegerField(
        default=5000,
        null=True,
        blank=True,
        help_text="Pods that a team may hold, unless it has a ceiling of its own; empty for no ceiling.",
    )
    ceiling_volumes = models.PositiveIntegerField(
        default=500,
        null=True,
        blank=True,
        help_text="Volumes that a team may have, unless it has a ceiling of its own; empty for no ceiling.",
    )
    ceiling_volume_storage_gib = models.PositiveIntegerField(
        default=102_400,
        null=True,
        blank=True,
        help_text="GiB that a team's volumes may have together, unless it has a ceiling of its own; empty for no ceiling.",
    )
    open_sweeps = models.PositiveIntegerField(
        default=50,
        null=True,
        blank=True,
        help_text="Sweeps of a team whose members have not all ended; empty for no limit.",
    )
    open_workloads = models.PositiveIntegerField(
        default=10_000,
        null=True,
        blank=True,
        help_text="Runs and endpoints of a team that have not ended, those that wait among them; empty for no limit.",
    )
    team_log_gib = models.PositiveIntegerField(
        default=200,
        null=True,
        blank=True,
        help_text="GiB of logs that are kept of a team; beyond it the oldest are deleted first. Empty for no limit.",
    )
    reads_per_minute = models.PositiveIntegerField(
        default=3000,
        validators=[MinValueValidator(1)],
        help_text="Requests to REST that read, of one user; a token has half of it.",
    )
    writes_per_minute = models.PositiveIntegerField(
        default=600,
        validators=[MinValueValidator(1)],
        help_text="Requests to REST that change or submit, of one user; a token has half of it.",
    )
    expensive_per_minute = models.PositiveIntegerField(
        default=120,
        validators=[MinValueValidator(1)],
        help_text="Of these, imports, advice, exports and tries of a query, of one user; a token has half of it.",
    )
    anonymous_per_minute = models.PositiveIntegerField(
        default=300,
        validators=[MinValueValidator(1)],
        help_text="Requests to REST without a credential that holds, of one address.",
    )
    pages_per_minute = models.PositiveIntegerField(
        default=1200,
        validators=[MinValueValidator(1)],
        help_text="Pages, their parts and forms, of one user, or of one address of who is not signed in.",
    )
    version = models.PositiveBigIntegerField(default=1, editable=False)
    updated_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        verbose_name = "platform settings"
        verbose_name_plural = "platform settings"
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="platform_settings_single_row"),
            models.CheckConstraint(
                condition=models.Q(
                    fair_share_half_life_hours__gte=1,
                    default_time_limit_seconds__gte=1,
                    image_pull_deadline_seconds__gte=1,
                    schedule_deadline_seconds__gte=1,
                    log_retention_days__gte=1,
                ),
                name="platform_settings_positive",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    record_retention_days__gte=RETENTION_DAYS_MIN,
                    estimate_retention_days__gte=RETENTION_DAYS_MIN,
                ),
                name="platform_settings_retention",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    reads_per_minute__gte=1,
                    writes_per_minute__gte=1,
                    expensive_per_minute__gte=1,
                    anonymous_per_minute__gte=1,
                    pages_per_minute__gte=1,
                ),
                name="platform_settings_rates",
            ),
            models.CheckConstraint(
                condition=models.Q(pod_security__in=PodSecurity.values),
                name="platform_settings_pod_security",
            ),
        ]

    @override
    def __str__(self) -> str:
        return "platform settings"

    @classmethod
    def current(cls) -> Self:
        """The settings in force; the defaults, unsaved, as long as no one has changed anything."""
        held = _held.get()
        if held is None:
            return cls._read()
        if not held:
            held.append(cls._read())
        return cast("Self", held[0])

    @classmethod
    @contextmanager
    def held(cls, known: PlatformSettings | None = None) -> Iterator[None]:
        """Inside, the settings are read once at most: one piece of work goes by one version of them, by the `known` one
        where they were read already.
        """
        token = _held.set([] if known is None else [known])
        try:
            yield
        finally:
            _held.reset(token)

    @classmethod
    def as_json(cls) -> RawSQL:
        """The row as one value, for a statement that reads something else anyway; `of_json` takes it.

        Every page reads it: a row as PostgreSQL makes it costs less than sixty columns that are named one by one.
        """
        row = "(SELECT to_jsonb(s) FROM foundation_platformsettings AS s WHERE s.id = %s)"
        return RawSQL(row, [cls.SINGLETON_PK], output_field=models.JSONField())  # noqa: S611 - no word of it is a user's

    @classmethod
    def of_json(cls, row: Mapping[str, Any] | None) -> Self:
        """As `current`, by that value."""
        if row is None:
            return cls()
        return cls(
            **{field.attname: field.to_python(row[field.attname]) for field in cls._meta.concrete_fields}
        )

    @classmethod
    def _read(cls) -> Self:
        return cls.objects.filter(pk=cls.SINGLETON_PK).first() or cls()


_held: ContextVar[list[PlatformSettings] | None] = ContextVar("platform_settings", default=None)


class Lease(models.Model):
    """Who may do a periodic job now. `fencing` grows with every new holder, so that a late one is seen."""

    name = models.CharField(max_length=100, unique=True)
    holder = models.CharField(max_length=200)
    fencing = models.PositiveBigIntegerField(default=1)
    expires_at = models.DateTimeField()

    @override
    def __str__(self) -> str:
        return f"{self.name} held by {self.holder}"


class Heartbeat(models.Model):
    """When a process last said that it is alive."""

    process = models.CharField(max_length=200, unique=True)
    at = models.DateTimeField()
    detail = models.JSONField(default=dict, blank=True)

    @override
    def __str__(self) -> str:
        return f"{self.process} at {self.at:%Y-%m-%dT%H:%M:%SZ}"


class IdempotencyKey(models.Model):
    """The first answer to a POST that named an Idempotency-Key, kept for 24 hours."""

    class State(models.TextChoices):
        IN_FLIGHT = "in-flight"
        DONE = "done"

    principal = models.CharField(max_length=64, help_text="Who sent it, such as user:12.")
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of method, path and body.")
    method = models.CharField(max_length=8)
    path = models.CharField(max_length=2000)
    state = models.CharField(max_length=16, choices=State.choices, default=State.IN_FLIGHT)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.BinaryField(
        null=True, help_text="Null while in flight, and for answers that hold a secret."
    )
    created_at = models.DateTimeField(default=clock.now, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["principal", "key"], name="idempotency_key_once_per_principal"),
            models.CheckConstraint(
                condition=(
                    models.Q(state="in-flight", status__isnull=True, body__isnull=True)
                    | models.Q(state="done", status__isnull=False)
                ),
                name="idempotency_key_done_has_status",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.method} {self.path} by {self.principal}"
