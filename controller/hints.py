"""Hints about requests that are allowed but rarely intended: shown before submission, never a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from budgets.standings import budget_of
from costs.queries import PriceBook, exact_rate_now, spans_by_card
from foundation.models import PlatformSettings
from policy.pool_snapshot import TeamFacts
from teams.models import Team
from workloads.models import ResourceFlavor
from workloads.nodes.sizing import is_shared, knows_nodes, share_of
from workloads.placement import SPOT
from workloads.podrequests import CPU, said_of, units_of
from workloads.podspec.grammar import image_version
from workloads.podspec.specs import SPOT_FIRST, ContainerSpec

CHOSEN_BY_THE_PLUGIN = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"})


@dataclass(frozen=True)
class Hint:
    """A sentence about one field; the code is stable."""

    field: str
    code: str
    message: str


def hints_of(spec: ContainerSpec, *, sized: ContainerSpec) -> list[Hint]:
    """The hints for a request. `spec` is the request as sent, before defaults; `sized` has them filled in."""
    return [
        *_image(spec),
        *_devices(spec),
        *_spot(spec),
        *_falls_back(spec),
        *_shared_memory(spec),
        *_filled_in(spec, sized),
    ]


def money_hints(spec: ContainerSpec, *, team: Team, now: datetime) -> list[Hint]:
    """What a submission of the team is told of its budget: whether what it asks for has no price."""
    if not spec.gpus_per_replica or budget_of(team, now=now) is None:
        return []
    flavor = ResourceFlavor.objects.get(name=spec.flavor)
    if exact_rate_now(flavor, spec.first_capacity, 1, spans_by_card(), now) is not None:
        return []
    return [_no_price(flavor.name, spec.first_capacity, team.slug)]


def price_hints(
    flavor: ResourceFlavor, capacity_type: str, team: TeamFacts | None, price_book: PriceBook, now: datetime
) -> tuple[Hint, ...]:
    """The same of a team as its pool's snapshot has it."""
    if team is None or team.budget is None:
        return ()
    priced = exact_rate_now(flavor, capacity_type, 1, price_book, now) is not None
    return () if priced else (_no_price(flavor.name, capacity_type, team.slug),)


def _no_price(flavor: str, capacity_type: str, team: str) -> Hint:
    """The hint for a team with a budget, which does not hold what has no price."""
    message = (
        f"No price is set for {flavor} ({capacity_type}), so nothing of it counts in the budget of team {team}: "
        "ask a quota manager for one."
    )
    return Hint("flavor", "no_price", message)


def _image(spec: ContainerSpec) -> Iterator[Hint]:
    tag = image_version(spec.image)
    if tag in {None, "latest"}:
        description = "no tag, which means latest" if tag is None else "the tag latest"
        message = f"The image has {description}: a retry may run other code than the first attempt. Name a version or a digest."
        yield Hint("image", "image_tag_latest", message)


def _devices(spec: ContainerSpec) -> Iterator[Hint]:
    for index, item in enumerate(spec.env):
        if item.name in CHOSEN_BY_THE_PLUGIN:
            message = (
                f"{item.name} is set by hand. Which GPUs a pod sees is for the device plugin to say: a wrong list hides "
                "the ones that it was given. Leave it out."
            )
            yield Hint(f"env.{index}.name", "visible_devices_set", message)


def _spot(spec: ContainerSpec) -> Iterator[Hint]:
    if spec.first_capacity == SPOT and not spec.resumes:
        message = (
            "Spot capacity may be taken back at any moment, and without checkpoints a run starts again from nothing. "
            "Name a checkpoint folder, or take on-demand."
        )
        yield Hint("checkpoint", "spot_without_checkpoint", message)


def _falls_back(spec: ContainerSpec) -> Iterator[Hint]:
    if spec.capacity == SPOT_FIRST:
        seconds = PlatformSettings.current().spot_fallback_seconds
        message = f"After {seconds} s without spot capacity it waits for on-demand, at that price."
        yield Hint("capacity", "falls_back", message)


def _shared_memory(spec: ContainerSpec) -> Iterator[Hint]:
    if spec.gpus_per_replica > 1 and spec.shm is None:
        message = (
            "Several GPUs of a pod talk through /dev/shm, and so do data loaders; a container has 64 MiB of it unless "
            "the request names more. Give shm."
        )
        yield Hint("shm", "small_shm", message)


def _basis(spec: ContainerSpec, sized: ContainerSpec) -> str:
    """Where the filled-in amounts come from. A share may equal the plain default: then the nodes decide."""
    if is_shared(sized) or share_of(spec):
        return "the share of its GPUs in a node"
    if not knows_nodes(spec):
        return "no node of the flavor is known"
    return f"no known node of the flavor holds {spec.gpus_per_replica} and says its CPU and memory"


def _filled_in(spec: ContainerSpec, sized: ContainerSpec) -> Iterator[Hint]:
    if not (spec.left_out and spec.gpus_per_replica):
        return
    why = _basis(spec, sized)
    for name in sorted(spec.left_out):
        limit = getattr(sized, name).limit
        amount = said_of(CPU, units_of(CPU, limit)) if name == CPU else limit
        yield Hint(name, "filled_in", f"{name} is left out: each pod gets {amount} ({why}).")
