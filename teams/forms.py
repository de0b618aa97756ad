from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from typing_extensions import override

from foundation.errors import PortalError
from teams.credentials import TOKEN_DAYS_DEFAULT, TOKEN_DAYS_MAX
from teams.models import ApiToken, Team


class SignInForm(forms.Form):
    username = forms.CharField(
        max_length=150, widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True})
    )
    password = forms.CharField(
        max_length=1000, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


class PasswordForm(forms.Form):
    old_password = forms.CharField(
        max_length=1000, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )
    new_password = forms.CharField(
        max_length=1000,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least eight characters, and none of the common ones.",
    )
    new_password_again = forms.CharField(
        max_length=1000, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "new-password"})
    )

    @override
    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if values.get("new_password") != values.get("new_password_again"):
            self.add_error("new_password_again", "The two are not the same.")
        return values


class TokenForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="What will use it, such as ci.")
    scopes = forms.MultipleChoiceField(
        choices=ApiToken.Scope.choices, initial=["read"], widget=forms.CheckboxSelectMultiple
    )
    expires_in_days = forms.IntegerField(min_value=1, max_value=TOKEN_DAYS_MAX, initial=TOKEN_DAYS_DEFAULT)
    team = forms.ModelChoiceField(
        queryset=Team.objects.none(), required=False, to_field_name="slug", empty_label="All my teams"
    )

    def __init__(self, *args: Any, teams: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]


def add_errors(form: forms.Form, error: PortalError, names: Mapping[str, str] | None = None) -> None:
    """Say what a service finds wrong at its fields, and the rest above them. `names` says what the form calls a field that
    the error calls otherwise.
    """
    if not error.errors:
        form.add_error(None, error.message)
    for problem in error.errors:
        field = (names or {}).get(problem.field, problem.field)
        form.add_error(field if field in form.fields else None, problem.message)
