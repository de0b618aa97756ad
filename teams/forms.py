from __future__ import annotations

from typing import Any

from django import forms

from teams.credentials import TOKEN_DAYS_DEFAULT, TOKEN_DAYS_MAX
from teams.models import ApiToken, Team


class SignInForm(forms.Form):
    username = forms.CharField(
        max_length=150, widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True})
    )
    password = forms.CharField(
        max_length=1000, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


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
