"""What an endpoint may ask for and yet seldom means: shown before it is deployed, and never refused."""

from __future__ import annotations

from collections.abc import Iterator

from controller import hints
from controller.hints import Hint
from inference.runtimes import VLLM
from inference.specs import EndpointSpec
from workloads.models import ResourceFlavor
from workloads.placement import SPOT, Sharing

SHARED = frozenset({Sharing.TIME_SLICING.value, Sharing.MPS.value})


def hints_of(spec: EndpointSpec, *, sized: EndpointSpec) -> list[Hint]:
    """`spec` is the request as it came, before cpu and memory were filled in; `sized` is what it came to."""
    return [*hints.hints_of(spec, sized=sized), *_single_on_spot(spec), *_whole_card(spec)]


def _single_on_spot(spec: EndpointSpec) -> Iterator[Hint]:
    if spec.first_capacity == SPOT and spec.min_replicas == 1:
        message = (
            "Spot capacity may be taken back at any moment, and with one replica nobody answers until another node has "
            "come and loaded the model. Ask for two, or for on-demand."
        )
        yield Hint("min_replicas", "one_replica_on_spot", message)


def _whole_card(spec: EndpointSpec) -> Iterator[Hint]:
    """A share of a card is unknown to vLLM: it reserves by the size of the card."""
    if spec.runtime != VLLM or "gpu_memory_utilization" in spec.runtime_options:
        return
    flavor = ResourceFlavor.objects.filter(name=spec.flavor).first()
    if flavor is not None and flavor.sharing in SHARED:
        message = (
            f"vLLM takes nine tenths of the card's memory, and {flavor.name} shares its cards: the second pod on one ends "
            "for want of memory. Give the share that is meant, such as 0.4."
        )
        yield Hint("runtime_options.gpu_memory_utilization", "takes_the_whole_card", message)
