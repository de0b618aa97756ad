"""Templates in Django's admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from typing_extensions import override

from foundation import clock
from foundation.http.problems import flatten
from jobs.catalogue import PARTS, delete_template, set_template
from jobs.models import RunTemplate
from jobs.template_serializers import TemplateWriteSerializer
from teams.actors import actor_of
from teams.admin import ServiceAdmin


class TemplateForm(forms.ModelForm):  # type: ignore[type-arg] # Django's class takes a parameter in the stubs alone
    class Meta:
        model = RunTemplate
        fields = ["name", *PARTS]
        help_texts = {
            "defaults": "Fields of a training run as REST takes them.",
            "minimum": 'Least value by field, such as {"replicas": 2}.',
            "maximum": 'Greatest value by field, such as {"time_limit_seconds": 3600}.',
            "locked": 'Fields that a run may not change, such as ["image"]; each needs a default.',
            "order": "The smallest is offered first.",
        }

    @override
    def clean(self) -> dict[str, Any]:
        """What REST would refuse is refused here, at its field."""
        values: dict[str, Any] = super().clean() or {}
        if not self.errors:
            name = self.instance.name if self.instance.pk else values["name"]
            body = TemplateWriteSerializer(data={"name": name} | {part: values[part] for part in PARTS})
            if not body.is_valid():
                for problem in flatten(body.errors):
                    field, _, inner = problem.field.partition(".")
                    self.add_error(field or None, f"{inner}: {problem.message}" if inner else problem.message)
        return values


@admin.register(RunTemplate)
class RunTemplateAdmin(ServiceAdmin):
    form = TemplateForm
    list_display = ("name", "title", "version", "enabled", "order")
    search_fields = ("name", "title")

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("name",) if obj else ()

    @override
    def save_model(self, request: HttpRequest, obj: RunTemplate, form: Any, change: bool) -> None:
        values = {part: form.cleaned_data[part] for part in PARTS}
        saved, _ = set_template(name=obj.name, **values, actor=actor_of(request), now=clock.now())
        obj.pk = saved.pk

    @override
    def delete_model(self, request: HttpRequest, obj: RunTemplate) -> None:
        delete_template(template=obj, actor=actor_of(request), now=clock.now())
