"""The page "What fits?": the memory that a model needs, and which flavors of a team hold it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View
from typing_extensions import override

from advisor.advice import Advice, advise
from advisor.demand import demand_of
from advisor.fitting import USABLE_PERCENT, Fit, Isolation, Place
from advisor.memory_sum import SOURCES, Term
from advisor.model_text import GRAMMAR, TEXT_LENGTH_MAX, Optimizer, Precision, Purpose, Sharding
from advisor.serializers import AdviceRequestSerializer
from console.pages.forms import text as line
from console.pages.forms import whole
from console.pages.queries import submit_teams, teams_of
from foundation import clock
from foundation.errors import FieldProblem, Invalid, NotFound
from foundation.http.problems import flatten
from teams.models import Team

EXAMPLES: Final = (
    "7B fp16",
    "llama 2 13B int4 inference",
    "70B bf16 inference",
    "7B bf16 training adam zero-3 checkpointing",
)
NUMBERS: Final = ("parameters", "sequence_length", "batch_size", "layers", "hidden_size", "kv_heads", "cards")
CHOICES: Final = ("purpose", "precision", "optimizer", "sharding", "isolation")
DETAILS: Final = (
    "purpose",
    "precision",
    "optimizer",
    "sharding",
    "sequence_length",
    "batch_size",
    "cards",
    "kv_heads",
    "parameters",
    "layers",
    "hidden_size",
)
# A box that is ticked, and what that means in the body.
BOXES: Final = {
    "gradient_checkpointing": ("gradient_checkpointing", True),
    "stored_scores": ("fused_attention", False),
    "pure_16_bits": ("master_weights", False),
}
_BOX_OF: Final = {field: box for box, (field, _) in BOXES.items()}


def _chosen(label: str, kinds: Iterable[str], nothing: str, help_text: str = "") -> forms.ChoiceField:
    """A choice whose first item says what is taken where nothing is chosen."""
    choices = [("", nothing), *((str(kind), str(kind)) for kind in kinds)]
    return forms.ChoiceField(label=label, choices=choices, required=False, help_text=help_text)


def _number(label: str, help_text: str = "") -> forms.CharField:
    return line(label, help_text, inputmode="numeric")


class AdviceForm(forms.Form):
    """The fields of `advice/` as an address brings them; what is right is said by its serializer alone."""

    text = line(
        "Model",
        "Size, family, precision, purpose, optimizer: in any order.",
        placeholder="7B fp16",
        width="wide",
    )
    team = forms.ChoiceField(label="Team", required=False)
    isolation = _chosen("Isolation", Isolation, "none", "What neighbours on a card must not touch.")
    purpose = _chosen("Purpose", Purpose, "as the model says")
    precision = _chosen("Precision", Precision, "as the model says")
    optimizer = _chosen(
        "Optimizer", (optimizer for optimizer in Optimizer if optimizer != "none"), "as the model says"
    )
    sharding = _chosen("Sharding", Sharding, "as the model says", "ZeRO 1, 2, 3 or FSDP.")
    sequence_length = _number("Sequence length", "Tokens.")
    batch_size = _number("Sequences at a time", "In training on each card.")
    cards = _number("Cards", "Exactly so many; else the fewest.")
    parameters = _number("Parameters", "Such as 7000000000.")
    layers = _number("Layers", "With the hidden size.")
    hidden_size = _number("Hidden size", "With the layers.")
    kv_heads = _number("Key and value heads", "Where there are fewer.")
    gradient_checkpointing = forms.BooleanField(label="Gradient checkpointing", required=False)
    stored_scores = forms.BooleanField(label="Attention stores its scores", required=False)
    pure_16_bits = forms.BooleanField(label="No copy of the weights in fp32", required=False)

    def __init__(self, *args: Any, teams: Iterable[Team], **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self.fields["text"].widget.attrs["maxlength"] = TEXT_LENGTH_MAX
        choices = [(team.slug, f"{team.name} ({team.slug})") for team in teams]
        self.fields["team"].choices = choices  # type: ignore[attr-defined]
        self.body: dict[str, Any] = {}

    @override
    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        self.body = _body(values)
        serializer = AdviceRequestSerializer(data=self.body)
        if not serializer.is_valid():
            self.add_problems(flatten(serializer.errors))
        return values

    def add_problems(self, problems: Iterable[FieldProblem]) -> None:
        """Each at the field that it is about."""
        for problem in problems:
            name = _BOX_OF.get(problem.field, problem.field)
            if name in self.fields:
                self.add_error(name, problem.message)
            else:
                self.add_error(None, f"{problem.field}: {problem.message}")


def _body(values: Mapping[str, Any]) -> dict[str, Any]:
    """The body of REST; what is left empty is left out."""
    fields = {name: values.get(name) for name in ("team", "text", *CHOICES)}
    fields |= {name: whole(values.get(name) or "") for name in NUMBERS}
    fields |= {field: meaning for box, (field, meaning) in BOXES.items() if values.get(box)}
    return {name: value for name, value in fields.items() if value not in (None, "")}


@dataclass(frozen=True, slots=True)
class ReferencedTerm:
    """A term with the name and the address of its source."""

    term: Term
    reference: str
    url: str


@dataclass(frozen=True, slots=True)
class OfferedFit:
    """How one flavor can be asked for; `url` opens the form, and is empty where the reader may not submit."""

    fit: Fit
    place: Place
    url: str


class AdvicePage(LoginRequiredMixin, View):
    """GET is the page, its question in the address; with `HX-Target: answer` the part that answers."""

    def get(self, request: HttpRequest) -> HttpResponse:
        teams = teams_of(request)
        wanted = request.GET.get("team", "")
        team = next((visible for visible in teams if visible.slug == wanted), None)
        if wanted and team is None:
            raise NotFound("There is no such team, or you are not a member of it.")
        team = team or (teams[0] if teams else None)
        asked = any(request.GET.get(name) for name in AdviceForm.base_fields if name != "team")
        data = {**request.GET.dict(), "team": team.slug} if asked and team else None
        form = AdviceForm(data, teams=teams, initial={"team": team.slug if team else ""})
        advice = _advice(form, team) if asked and team else None
        fragment = "#answer" if request.headers.get("HX-Target") == "answer" else ""
        context = {
            "form": form,
            "team": team,
            "examples": EXAMPLES,
            "grammar": GRAMMAR,
            "usable": USABLE_PERCENT,
            "aloud": bool(fragment),
            "details": [form[name] for name in DETAILS],
            "boxes": [form[name] for name in BOXES],
            "detailed": any(form[name].value() or form[name].errors for name in (*DETAILS, *BOXES)),
            **(_answer(advice, team, may_submit=team in submit_teams(request)) if advice and team else {}),
        }
        return render(request, f"portal/advice.html{fragment}", context)


def _advice(form: AdviceForm, team: Team) -> Advice | None:
    """The answer; None where the form says what is wrong."""
    if not form.is_valid():
        return None
    body = form.body
    try:
        return advise(
            demand=demand_of(body),
            team=team,
            isolation=Isolation(body.get("isolation", Isolation.NONE)),
            cards=body.get("cards"),
            now=clock.now(),
        )
    except Invalid as error:
        form.add_problems(error.errors)
        return None


def _answer(advice: Advice, team: Team, *, may_submit: bool) -> dict[str, Any]:
    holding = [fit for fit in advice.fits if fit.holds]
    return {
        "advice": advice,
        "lines": [ReferencedTerm(term, *SOURCES[term.source]) for term in advice.memory.terms],
        "offers": [
            OfferedFit(fit, place, _form_url(advice, team, fit, place) if may_submit else "")
            for fit in holding
            for place in fit.places
            if not place.refused
        ],
        "unfit": [fit for fit in advice.fits if not fit.holds],
    }


def _form_url(advice: Advice, team: Team, fit: Fit, place: Place) -> str:
    """The form of a new run or endpoint, filled in with what was advised."""
    query = {
        "team": team.slug,
        "flavor": fit.offered.facts.name,
        "capacity": place.capacity_type,
        "gpus": place.units_each,
    }
    if not advice.demand.trains:
        return f"{reverse('inference:endpoint-new')}?{urlencode(query)}"
    return f"{reverse('jobs:run-new')}?{urlencode({**query, 'replicas': place.replicas})}"
