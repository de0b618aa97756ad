from __future__ import annotations

from typing import Any

from django import forms
from typing_extensions import override

from notices.addresses import URL_LENGTH_MAX
from notices.events import TOPIC_LABELS
from notices.models import NAME_LENGTH_MAX, Channel, NoticeSubscription
from notices.services import DIGEST_MINUTES_MAX, WAIT_MINUTES_MAX

_TIME = {"type": "time"}


class SubscriptionForm(forms.Form):
    """One for making and for changing: what exists keeps its channel, and its address unless another is typed."""

    name = forms.CharField(max_length=NAME_LENGTH_MAX, help_text="What you call it, such as on-call.")
    channel = forms.ChoiceField(choices=Channel.choices, label="By")
    url = forms.CharField(
        label="Address",
        max_length=URL_LENGTH_MAX,
        required=False,
        help_text="Of a webhook or chat: https://…; it is kept encrypted. Mail goes to the addresses of accounts.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    topics = forms.MultipleChoiceField(
        label="Tell when",
        choices=[(topic.value, label) for topic, label in TOPIC_LABELS.items()],
        initial=["failed", "finished"],
        widget=forms.CheckboxSelectMultiple,
    )
    wait_minutes = forms.IntegerField(
        label="A wait is long after (minutes)", min_value=1, max_value=WAIT_MINUTES_MAX, initial=30
    )
    quiet_from = forms.TimeField(label="Quiet from", required=False, widget=forms.TimeInput(attrs=_TIME))
    quiet_until = forms.TimeField(
        label="Quiet until",
        required=False,
        widget=forms.TimeInput(attrs=_TIME),
        help_text="Nothing is sent between the two; it follows afterwards.",
    )
    time_zone = forms.CharField(
        label="Time zone",
        max_length=64,
        initial="UTC",
        help_text="Of quiet hours and of reports, such as Europe/Zurich.",
    )
    digest_minutes = forms.IntegerField(
        label="Gather for (minutes)",
        min_value=0,
        max_value=DIGEST_MINUTES_MAX,
        initial=0,
        help_text="What happens meanwhile goes in one notice; 0: each at once.",
    )
    enabled = forms.BooleanField(label="Switched on", required=False, initial=True)

    def __init__(self, *args: Any, of: NoticeSubscription | None = None, mail: bool, **kwargs: Any) -> None:
        if of is not None:
            kwargs["initial"] = {name: getattr(of, name) for name in self.base_fields if name != "url"}
        super().__init__(*args, **kwargs)
        if of is not None:
            del self.fields["channel"]
            self.fields["url"].help_text = f"Kept encrypted. Now {of.origin}/…; leave empty to keep it."
            if of.channel == Channel.MAIL:
                del self.fields["url"]
        elif not mail:
            choices = [choice for choice in Channel.choices if choice[0] != Channel.MAIL]
            self.fields["channel"].choices = choices  # type: ignore[attr-defined]

    @override
    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        if not values.get("url"):
            values.pop("url", None)
        return values
