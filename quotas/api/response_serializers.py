"""Answers about quotas, cohorts, changes of them, requests, queues and decisions: the words of REST v1."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from typing_extensions import override

from foundation.http.serializers import TextOrNullField
from policy.verdicts import Outcome, Victim
from quotas.ceilings import COLUMNS, ceiling_lines
from quotas.decisions import ANOTHER_TEAM
from quotas.models import CohortUsage, QuotaRequest, TeamPolicy


class FenceSerializer(serializers.Serializer[Any]):
    """The ResourceQuota in the team's namespace, in units of the flavor's resource name, which flavors share."""

    derived = serializers.IntegerField(help_text="What the team's quotas of this resource name add up to.")
    observed = serializers.IntegerField(
        allow_null=True, help_text="What the API server was last seen to hold."
    )
    in_step = serializers.BooleanField()
    checked_at = serializers.DateTimeField()


class FiguresSerializer(serializers.Serializer[Any]):
    """Limits and counters of a quota, in units of the flavor."""

    nominal = serializers.IntegerField(source="quota.nominal", help_text="Guaranteed to the team.")
    borrowing_limit = serializers.IntegerField(
        source="quota.borrowing_limit",
        allow_null=True,
        help_text="Most that is borrowed; null for no limit.",
    )
    lending_limit = serializers.IntegerField(
        source="quota.lending_limit", allow_null=True, help_text="Most of nominal that is lent; null for all."
    )
    user_limit = serializers.IntegerField(
        source="quota.user_limit", allow_null=True, help_text="Most that one member holds; null for no limit."
    )
    max_time_limit_seconds = serializers.IntegerField(
        source="quota.max_time_limit_seconds",
        allow_null=True,
        help_text="Longest time limit of a run; null for no limit.",
    )
    used = serializers.IntegerField(source="quota.used", help_text="What open claims hold.")
    borrowed = serializers.IntegerField(help_text="Of what is used, what others of the cohort lend.")
    lent = serializers.IntegerField(
        help_text="Of nominal, what others of the cohort use: each lender's part in proportion to what it leaves idle."
    )
    pending = serializers.IntegerField(help_text="Units that the team's queue waits for.")
    ceiling = serializers.IntegerField(help_text="The most that may ever be used, borrowing included.")
    available = serializers.IntegerField(
        help_text="What may still be claimed, borrowing included; negative after a cut below use."
    )
    over_use = serializers.IntegerField(help_text="Units used above the ceiling, after a cut.")
    headroom = serializers.IntegerField(
        source="quota.headroom", help_text="Of what is used: reserved by endpoints for growth."
    )
    lent_headroom = serializers.IntegerField(
        source="quota.lent_headroom", help_text="Of headroom: what preemptible runs of the team live on."
    )


class QuotaSerializer(FiguresSerializer):
    """A team's quota of a flavor and capacity type."""

    id = serializers.UUIDField(source="quota.public_id")
    team = serializers.CharField(source="quota.team.slug")
    flavor = serializers.CharField(source="quota.flavor.name")
    capacity = serializers.CharField(source="quota.capacity_type")
    cohort = serializers.CharField(allow_blank=True, help_text="Empty for a team that is in none.")
    fence = serializers.SerializerMethodField()

    @extend_schema_field(FenceSerializer(allow_null=True))
    def get_fence(self, figures: Any) -> Any:
        """The team's fence in the cluster, of this flavor's resource name."""
        fence = self.context.get("fence")
        if fence is None:
            return None
        resource = figures.quota.flavor.resource
        derived = fence.derived.get(resource, 0)
        observed = None if fence.observed is None else fence.observed.get(resource)
        shown = {
            "derived": derived,
            "observed": observed,
            "in_step": fence.observed is None or observed == derived,
            "checked_at": fence.checked_at,
        }
        return FenceSerializer(shown).data


class UsageSerializer(serializers.Serializer[Any]):
    """What one live workload of a team holds."""

    workload = serializers.UUIDField(source="workload.public_id")
    kind = serializers.CharField(source="workload.kind")
    name = serializers.CharField(source="workload.name")
    owner = serializers.CharField(source="workload.owner.username")
    phase = serializers.CharField(source="workload.phase")
    flavor = serializers.CharField(source="quota.flavor.name")
    capacity = serializers.CharField(source="quota.capacity_type")
    units = serializers.IntegerField()
    headroom = serializers.IntegerField(help_text="Of the units: for pods that no load asks for yet.")
    lent = serializers.BooleanField(help_text="Whether it lives on headroom of the team's endpoints.")
    state = serializers.CharField()
    reserved_at = serializers.DateTimeField()


class CeilingSerializer(serializers.Serializer[Any]):
    """What a team may hold of something in all pools and without GPUs, and what it holds; amounts as Kubernetes writes
    them.
    """

    resource = serializers.CharField(help_text="As a ResourceQuota calls it.")
    ceiling = serializers.CharField(allow_null=True, help_text="Null for no ceiling.")
    held = serializers.CharField()
    own = serializers.BooleanField(help_text="Whether the team has one of its own, and not the platform's.")


class PolicyAnswerSerializer(serializers.ModelSerializer[TeamPolicy]):
    team = serializers.CharField(source="team.slug")
    ceilings = serializers.SerializerMethodField(help_text="In force, with what the team holds.")

    class Meta:
        model = TeamPolicy
        fields = [
            "team",
            "weight",
            "high_priority",
            "shows_name",
            "may_reserve_headroom",
            *COLUMNS,
            "ceilings",
        ]

    @extend_schema_field(CeilingSerializer(many=True))
    def get_ceilings(self, policy: TeamPolicy) -> list[dict[str, Any]]:
        return list(CeilingSerializer(ceiling_lines(policy), many=True).data)


class QueuePoolSerializer(serializers.Serializer[Any]):
    flavor = serializers.CharField(allow_null=True, help_text="Null for what asks for no GPU.")
    capacity = serializers.CharField()
    workloads = serializers.IntegerField()
    units = serializers.IntegerField()


class QueueSerializer(serializers.Serializer[Any]):
    """A team's queue: whether anything of it is admitted, and what waits."""

    team = serializers.CharField()
    stopped = serializers.BooleanField()
    reason = serializers.CharField(allow_blank=True)
    by = serializers.CharField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True)
    waiting = QueuePoolSerializer(many=True)


class CohortSerializer(serializers.Serializer[Any]):
    """Teams that lend each other what they do not use."""

    id = serializers.UUIDField(source="public_id")
    name = serializers.CharField()
    # The metaclass takes declared fields off the class, so DRF's own attribute of this name stays what it is.
    parent = serializers.CharField(source="parent.name", allow_null=True, default=None)  # type: ignore[assignment]
    teams = serializers.SerializerMethodField()

    def get_teams(self, cohort: Any) -> list[str]:
        """Slugs of the members that the caller may know of."""
        teams: list[str] = self.context["members"].get(cohort.name, [])
        return teams


class CohortLimitsSerializer(serializers.ModelSerializer[CohortUsage]):
    """What the members of a cohort lend of a flavor and capacity type, and what of it is used."""

    cohort = serializers.CharField(source="cohort.name")
    flavor = serializers.CharField(source="flavor.name")
    capacity = serializers.CharField(source="capacity_type")

    class Meta:
        model = CohortUsage
        fields = [
            "cohort",
            "flavor",
            "capacity",
            "borrowing_limit",
            "lending_limit",
            "guaranteed",
            "ceiling",
            "used",
        ]


class QuotaRequestSerializer(serializers.ModelSerializer[QuotaRequest]):
    id = serializers.UUIDField(source="public_id")
    team = serializers.CharField(source="team.slug")
    flavor = serializers.CharField(source="flavor.name")
    capacity = serializers.CharField(source="capacity_type")
    requested_by = serializers.CharField(source="requested_by.username")
    decided_by = serializers.CharField(source="decided_by.username", allow_null=True, default=None)

    class Meta:
        model = QuotaRequest
        fields = [
            "id", "team", "flavor", "capacity", "units", "until", "reason", "state", "requested_by", "requested_at",
            "decided_by", "decided_at", "comment", "returned_at",
        ]  # fmt: skip


# --- changes


class LimitValuesSerializer(serializers.Serializer[Any]):
    """The limits that people set; null is no limit."""

    nominal = serializers.IntegerField()
    borrowing_limit = serializers.IntegerField(allow_null=True, default=None)
    lending_limit = serializers.IntegerField(allow_null=True, default=None)
    user_limit = serializers.IntegerField(allow_null=True, default=None)
    max_time_limit_seconds = serializers.IntegerField(allow_null=True, default=None)


class QuotaChangeSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    team = serializers.CharField(source="team_slug")
    flavor = serializers.CharField(source="flavor_name")
    capacity = serializers.CharField(source="capacity_type")
    old_nominal = serializers.IntegerField(allow_null=True)
    new_nominal = serializers.IntegerField(allow_null=True)
    before = LimitValuesSerializer(allow_null=True, help_text="Null before there was a quota.")
    after = LimitValuesSerializer(allow_null=True, help_text="Null after it was removed.")
    actor = serializers.CharField()
    reason = serializers.CharField()
    change_set = serializers.UUIDField(
        source="change_set.public_id", allow_null=True, default=None, help_text="What it was a part of."
    )


class ChangeSetSerializer(serializers.Serializer[Any]):
    """Changes that were applied together or not at all."""

    id = serializers.UUIDField(source="public_id")
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    reason = serializers.CharField()
    evicts = serializers.BooleanField()
    undoes = serializers.UUIDField(source="undoes.public_id", allow_null=True, default=None)
    undone_by = serializers.UUIDField(source="undone_by.public_id", allow_null=True, default=None)
    changes = serializers.SerializerMethodField()

    @extend_schema_field(QuotaChangeSerializer(many=True))
    def get_changes(self, change_set: Any) -> Any:
        """Those of teams that the caller may know of."""
        rows = change_set.changes.filter(team_slug__in=self.context["slugs"]).select_related("change_set")
        return QuotaChangeSerializer(rows.order_by("pk"), many=True).data


class ChangedQuotaSerializer(serializers.Serializer[Any]):
    team = serializers.CharField(source="change.team.slug")
    flavor = serializers.CharField(source="change.flavor.name")
    capacity = serializers.CharField(source="change.capacity_type")
    before = FiguresSerializer(allow_null=True, help_text="Null where there is no quota yet.")
    after = FiguresSerializer()


class _OfWorkload(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="workload.public_id")
    kind = serializers.CharField(source="workload.kind")
    name = serializers.CharField(source="workload.name")
    team = serializers.CharField(source="workload.team.slug")
    owner = serializers.CharField(source="workload.owner.username")
    units = serializers.IntegerField(source="workload.units")


class MovedWorkloadSerializer(_OfWorkload):
    reason = serializers.CharField(help_text="What it would be told.")
    message = serializers.CharField()


class EvictedWorkloadSerializer(_OfWorkload):
    lost_seconds = serializers.IntegerField(help_text="Work since its last checkpoint.")


class PromisedSerializer(serializers.Serializer[Any]):
    """All nominal quotas of a flavor and capacity type together, beside the units that there are."""

    flavor = serializers.CharField(source="flavor.name")
    capacity = serializers.CharField(source="capacity_type")
    before = serializers.IntegerField()
    after = serializers.IntegerField()
    exist = serializers.IntegerField(help_text="What nodes offer, or may still bring.")
    over = serializers.BooleanField(help_text="Whether more would be promised than exists.")
    revision = serializers.IntegerField(help_text="Of the pool: another one means that this is old.")


class ChangePreviewSerializer(serializers.Serializer[Any]):
    """What applying the changes would do now."""

    changes = ChangedQuotaSerializer(many=True, source="rows")
    waits = MovedWorkloadSerializer(many=True, help_text="Would be admitted now, and not after.")
    starts = MovedWorkloadSerializer(many=True, help_text="Would be admitted after, and not now.")
    evicted = EvictedWorkloadSerializer(many=True, help_text="Would have to leave; empty unless asked for.")
    promised = PromisedSerializer(many=True)


# --- decisions


class DecisionEvidenceSerializer(serializers.Serializer[Any]):
    fact = serializers.CharField()
    value = serializers.IntegerField()
    unit = serializers.CharField()


class DecisionVictimSerializer(serializers.Serializer[Victim]):
    id = serializers.CharField(allow_null=True, help_text="Null for a run of a team that has no name here.")
    team = serializers.CharField()
    lost_seconds = serializers.IntegerField()
    cause = serializers.CharField()

    @override
    def to_representation(self, instance: Victim) -> dict[str, Any]:
        shown = super().to_representation(instance)
        hidden = {} if instance.team in self.context["named"] else {"id": None, "team": ANOTHER_TEAM}
        return {**shown, **hidden}


# For objects with a verdict as `decided`; victims of teams that are not in the context's `named` have no names.
class DecidedSerializer(serializers.Serializer[Any]):
    """A verdict with its numbers, as waiting cards show it."""

    verdict = serializers.ChoiceField(
        choices=[outcome.value for outcome in Outcome], source="decided.outcome"
    )
    reason = serializers.CharField(source="decided.reason")
    message = serializers.CharField(source="decided.message")
    rule = serializers.CharField(help_text="The step of the policy that decided.", source="decided.rule")
    evidence = DecisionEvidenceSerializer(many=True, source="decided.evidence")
    victims = DecisionVictimSerializer(many=True, source="decided.victims")
    lent = serializers.BooleanField(
        help_text="Whether it was admitted on headroom of the team's endpoints.", source="decided.lent"
    )
    backfilled = serializers.BooleanField(
        help_text="Whether it was admitted past somebody who waits.", source="decided.backfilled"
    )


class DecisionSerializer(DecidedSerializer):
    id = serializers.UUIDField(source="public_id")
    workload = serializers.UUIDField(source="workload.public_id")
    at = serializers.DateTimeField()
    policy = serializers.CharField(help_text="Name and version of the policy that decided.")
    revision = serializers.IntegerField(help_text="Of the pool when it was decided.")
    supply_digest = serializers.CharField(
        allow_null=True,
        help_text="SHA-256 of the inputs; null where none were needed, or they have expired.",
        source="supply_id",
    )


class ReplaySerializer(serializers.Serializer[Any]):
    """A stored verdict, and what its inputs give when they are judged again."""

    decision = DecisionSerializer()
    replayed = DecidedSerializer(allow_null=True)
    same = serializers.BooleanField()
    unknown_because = TextOrNullField(help_text="Why it could not be judged again.")
    supply = serializers.DictField(
        allow_null=True, help_text="The inputs, where asked for; what belongs to other teams has no name."
    )
