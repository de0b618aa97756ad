"""What each section of the bootstrap file holds."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers
from typing_extensions import override

from budgets.serializers import BudgetWriteSerializer
from costs.api.price_serializers import PriceWriteSerializer
from foundation.http.serializers import StrictSerializer
from jobs.template_serializers import TemplateWriteSerializer
from quotas.api.request_serializers import CohortCreateSerializer, PolicySerializer, QuotaWriteSerializer
from teams.api.serializers import WorkloadPolicySerializer
from teams.models import ApiToken, Membership


class TeamSection(WorkloadPolicySerializer):
    slug = serializers.CharField()
    name = serializers.CharField(required=False)
    cohort = serializers.CharField(required=False, allow_null=True, allow_blank=True)
    namespace = serializers.CharField(required=False, allow_null=True)
    pod_security = serializers.CharField(required=False)
    mlflow_tracking_uri = serializers.CharField(required=False, allow_blank=True)
    policy = PolicySerializer(required=False)


class UserSection(StrictSerializer):
    username = serializers.CharField()
    password_env = serializers.CharField(required=False)
    roles = serializers.ListField(
        child=serializers.ChoiceField(choices=["quota-manager", "platform-admin"]), default=list
    )


class MembershipSection(StrictSerializer):
    team = serializers.CharField()
    user = serializers.CharField()
    role = serializers.ChoiceField(choices=Membership.Role.choices)


class TokenSection(StrictSerializer):
    user = serializers.CharField()
    name = serializers.CharField()
    token_env = serializers.CharField()
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=ApiToken.Scope.choices))


class CohortSection(CohortCreateSerializer):
    """As REST has it."""


class QuotaSection(QuotaWriteSerializer):
    team = serializers.CharField()
    reason = serializers.CharField(default="bootstrap")


class PriceSection(PriceWriteSerializer):
    reason = serializers.CharField(default="bootstrap")

    @override
    def get_fields(self) -> dict[str, Any]:
        """`from`, as the file calls it, is no name that a Python class can declare."""
        fields = super().get_fields()
        fields["from"] = fields.pop("valid_from")
        fields["from"].required = True
        return fields


class BudgetSection(BudgetWriteSerializer):
    """As REST has it."""


class TemplateSection(TemplateWriteSerializer):
    each_flavor = serializers.BooleanField(default=False)
