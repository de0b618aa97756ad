"""The form that changes a rule by which alerts open."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views import View
from typing_extensions import override

from console.pages.detail import see_other
from foundation import clock
from foundation.errors import Invalid, PreconditionFailed
from teams.actors import actor_of
from teams.forms import add_errors
from teams.permissions import check_global_role
from telemetry.queries import rule_in_force, version_of_rule
from telemetry.rules import THRESHOLD_MAX, UNITS, WINDOW_MINUTES_MAX, WINDOW_MINUTES_MIN, GpuRule
from telemetry.services import change_rule
from workloads.kinds import kinds

TEAMS_LENGTH_MAX = 200 * 64


class AlertRuleForm(forms.Form):
    """`version` is what the rule said when the form was shown."""

    threshold = forms.FloatField(min_value=0, max_value=THRESHOLD_MAX)
    window_minutes = forms.IntegerField(
        label="For so many minutes", min_value=WINDOW_MINUTES_MIN, max_value=WINDOW_MINUTES_MAX
    )
    kinds = forms.MultipleChoiceField(
        label="Of", required=False, widget=forms.CheckboxSelectMultiple, help_text="None: of all kinds."
    )
    teams = forms.CharField(
        required=False,
        max_length=TEAMS_LENGTH_MAX,
        help_text="Their short names, with commas between them; empty: all teams.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    enabled = forms.BooleanField(label="Switched on", required=False)
    version = forms.CharField(max_length=64, widget=forms.HiddenInput)

    def __init__(self, rule: GpuRule, data: Any = None) -> None:
        values = {name: getattr(rule, name) for name in ("window_minutes", "kinds", "enabled")}
        values |= {"threshold": f"{rule.threshold:g}", "teams": ", ".join(rule.teams)}
        super().__init__(data, initial=values | {"version": version_of_rule(rule)})
        self.fields["threshold"].label = f"Threshold ({UNITS[rule.metric]})"
        choices = [(kind.name, f"{kind.noun}s") for kind in kinds()]
        self.fields["kinds"].choices = choices  # type: ignore[attr-defined]

    def clean_teams(self) -> list[str]:
        """Each once, as they were typed."""
        names = [name.strip() for name in self.cleaned_data["teams"].split(",")]
        return list(dict.fromkeys(name for name in names if name))


class AlertRulePage(LoginRequiredMixin, View):
    """GET is the form of one rule, POST changes it; for quota managers."""

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated:
            check_global_role(request.user, "quota-manager")
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        rule = rule_in_force(name)
        return self._page(request, rule, AlertRuleForm(rule))

    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        rule = rule_in_force(name)
        form = AlertRuleForm(rule, request.POST)
        if not form.is_valid():
            return self._page(request, rule, form, status=422)
        changes = dict(form.cleaned_data)
        seen = frozenset({changes.pop("version")})
        try:
            rule = change_rule(
                name=name, changes=changes, actor=actor_of(request), now=clock.now(), expected_versions=seen
            )
        except Invalid as error:
            add_errors(form, error)
            return self._page(request, rule, form, status=422)
        except PreconditionFailed:
            # What was typed stays; saved again, it goes on from what the rule says now.
            rule, typed = rule_in_force(name), request.POST.copy()
            typed["version"] = version_of_rule(rule)
            return self._page(request, rule, AlertRuleForm(rule, typed), status=412, was_changed=True)
        messages.success(request, f"The rule {rule.title} is changed. It holds from the next look on.")
        return see_other(reverse("portal:idle"))

    def _page(
        self, request: HttpRequest, rule: GpuRule, form: AlertRuleForm, *, status: int = 200, **extra: Any
    ) -> HttpResponse:
        context = {"rule": rule, "form": form, **extra}
        return render(request, "portal/alert_rule.html", context, status=status)
