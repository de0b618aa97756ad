"""Flavors in the admin console. They stand here, as a new one begins with what the nodes of the cluster report."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from typing_extensions import override

from foundation import clock
from portal.flavors.forms import FlavorForm, written
from portal.flavors.proposals import Proposal, covering, proposals
from teams.actors import actor_of
from teams.admin import ServiceAdmin
from workloads.catalogue import set_flavor
from workloads.models import ResourceFlavor
from workloads.nodes import capacity
from workloads.placement import FlavorFacts, NodeFacts

OFFER = "offer"
EMPTY: dict[str, Any] = {"offered": [{"kind": "on-demand"}]}


@admin.register(ResourceFlavor)
class FlavorAdmin(ServiceAdmin):
    """A new flavor begins with a choice: what nodes report and no flavor offers, or an empty form."""

    role = "quota-manager"
    form = FlavorForm
    can_delete = False
    change_form_before_template = "admin/flavors/nodes.html"
    list_display = ("name", "card", "resource", "gpu_fraction", "memory_gib", "sharing", "enabled")
    list_filter = ("enabled", "sharing")
    search_fields = ("name", "card", "resource")
    fieldsets = (
        ("What people choose", {"fields": ("name", "card", "memory_gib", "enabled")}),
        ("A unit of it", {"fields": ("resource", "sharing", "gpu_fraction")}),
        ("On which nodes", {"fields": ("labels", "tolerations")}),
        ("Capacity", {"fields": ("offered",)}),
    )

    @override
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("name",) if obj else ()

    @override
    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """The choice first; the form once something is chosen."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        key = request.GET.get(OFFER)
        if request.method != "GET" or key == "":
            return super().add_view(request, form_url, extra_context)
        nodes, flavors = capacity.nodes(), _flavors()
        found = proposals(nodes, flavors)
        chosen = next((each for each in found if each.key == key), None)
        if key is None or chosen is None:
            if key is not None:
                messages.warning(request, "The nodes no longer report that, or a flavor offers it by now.")
            return self._choices(request, nodes, flavors, found)
        return super().add_view(request, form_url, {"proposal": chosen, **(extra_context or {})})

    @override
    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> Any:
        """A proposal fills the fields, unless something was typed into them."""
        proposal: Proposal | None = context.get("proposal")
        form: Any = context["adminform"].form
        if not form.is_bound and not form.instance.pk:
            form.initial = form.initial | (written(proposal) if proposal else EMPTY)
        if form.instance.pk:
            facts, there = form.instance.facts, capacity.nodes()
            context["taking"] = [node for node in there if covering(node, facts.resource, [facts])]
            context["units"] = sum(node.allocatable[facts.resource] for node in context["taking"])
        return super().render_change_form(request, context, *args, **kwargs)

    def _choices(
        self,
        request: HttpRequest,
        nodes: list[NodeFacts],
        flavors: list[FlavorFacts],
        found: list[Proposal],
    ) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": "Add flavor",
            "opts": self.opts,
            "proposals": found,
            "offered": _offered(nodes, flavors),
            "nodes": nodes,
        }
        return TemplateResponse(request, "admin/flavors/choices.html", context)

    @override
    def save_model(self, request: HttpRequest, obj: ResourceFlavor, form: Any, change: bool) -> None:
        made, _ = set_flavor(name=obj.name, **form.values(), actor=actor_of(request), now=clock.now())
        obj.pk = made.pk


def _flavors() -> list[FlavorFacts]:
    return [flavor.facts for flavor in ResourceFlavor.objects.all()]


def _offered(nodes: list[NodeFacts], flavors: list[FlavorFacts]) -> list[tuple[str, int, int]]:
    """Each flavor that takes nodes: its name, how many nodes, and their units of it."""
    rows = []
    for flavor in flavors:
        taking = [node for node in nodes if covering(node, flavor.resource, [flavor])]
        if taking:
            rows.append((flavor.name, len(taking), sum(node.allocatable[flavor.resource] for node in taking)))
    return rows
