"""Checks that the objects which a request names in the team's namespace exist, as far as the portal can know.

Reads rows only, so that preview and submission agree and make no cluster call.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from cluster import quantities
from foundation.errors import FieldProblem, Invalid
from teams.models import Team
from teams.queries import secrets_of
from tenancy import workload_policy
from tenancy.team_secrets import PULL_SECRET_KEY
from workloads.models import ClaimRecord, ResourceFlavor
from workloads.nodes.capacity import claims_in, hosts_of, rooms_of
from workloads.podspec.specs import ClaimUse, ContainerSpec

WRITE_MANY = "ReadWriteMany"
READ_MANY = "ReadOnlyMany"


def check_references(spec: ContainerSpec, team: Team, *, now: datetime) -> None:
    """Raise Invalid naming every field that asks for what the team is not let, or that refers to a missing object or to
    one that so many pods cannot share.
    """
    problems = [
        *workload_policy.problems(spec, team),
        *_secret_problems(spec, team),
        *_claim_problems(spec, team, now),
        *_extra_problems(spec),
        *_shm_problems(spec),
    ]
    if problems:
        raise Invalid.of_problems(problems)


def _secret_problems(spec: ContainerSpec, team: Team) -> Iterator[FieldProblem]:
    """Problems of Secrets: only those that the portal wrote or a lead registered may be used."""
    named, pulled = spec.secret_uses(), spec.image_pull_secrets
    if not named and not pulled:
        return
    known = {row.name: row.keys for row in secrets_of(team)}
    for index, name in enumerate(pulled):
        if PULL_SECRET_KEY not in known.get(name, ()):
            fitting = [secret for secret, keys in known.items() if PULL_SECRET_KEY in keys]
            message = (
                f"The portal knows no secret {name} of team {team.slug} with the key {PULL_SECRET_KEY}; it knows: "
                f"{', '.join(fitting) or 'none'}. Give its value on the team's page or by REST; a lead can register one."
            )
            yield FieldProblem(field=f"image_pull_secrets.{index}", code="unknown_secret", message=message)
    for use in named:
        field, secret, key = use.field, use.secret, use.key
        if secret not in known:
            there = ", ".join(known) or "none"
            message = (
                f"The portal knows no secret {secret} of team {team.slug}; it knows: {there}. Give its values on "
                "the team's page or by REST; a lead can register one that was made with kubectl."
            )
            yield FieldProblem(field=f"{field}.secret", code="unknown_secret", message=message)
        elif key not in known[secret]:
            message = f"Secret {secret} has no key {key}; it has: {', '.join(known[secret])}."
            where = f"{field}.key" if field.startswith("env.") else f"{field}.secret"
            yield FieldProblem(field=where, code="unknown_key", message=message)


def _extra_problems(spec: ContainerSpec) -> Iterator[FieldProblem]:
    """Problems of extended resources that no eligible node offers; none if nodes may be provisioned or none is seen."""
    if not spec.extra_resources:
        return
    flavors = {flavor.resource: flavor.name for flavor in ResourceFlavor.objects.all()}
    flavor = ResourceFlavor.objects.filter(name=spec.flavor).first() if spec.gpus_per_replica else None
    hosts = hosts_of(flavor.facts if flavor else None, spec.first_capacity)
    unknown = not hosts or (
        flavor is not None and rooms_of(flavor, spec.first_capacity).provisionable_block > 0
    )
    for name, units in spec.extra_resources.items():
        if name in flavors:
            message = f"{name} is what flavor {flavors[name]} consists of: ask for the flavor, and gpus_per_replica."
            yield FieldProblem(field="extra_resources", code="reserved_name", message=message)
            continue
        most = max((int(quantities.parse(host.others.get(name, "0"))) for host in hosts), default=0)
        if units > most and not unknown:
            where = f"node of flavor {flavor.name} ({spec.first_capacity})" if flavor else "node"
            message = (
                f"No {where} offers {units} {name}; the most is {most}. Take another flavor, or leave it out."
            )
            yield FieldProblem(field="extra_resources", code="never_fits", message=message)


def _shm_problems(spec: ContainerSpec) -> Iterator[FieldProblem]:
    """The problem of shared memory above a filled-in memory limit; explicit limits are checked by the serializer."""
    if spec.shm is not None and quantities.parse(spec.shm) > quantities.parse(spec.memory.limit):
        message = (
            f"Shared memory counts as memory: {spec.shm} is above the {spec.memory.limit} that a pod gets here. Give "
            "memory, and more of it."
        )
        yield FieldProblem(field="shm", code="shm_above_memory", message=message)


def _claim_problems(spec: ContainerSpec, team: Team, now: datetime) -> Iterator[FieldProblem]:
    uses = spec.claim_uses()
    known = claims_in(team.namespace_name, now=now) if uses else None
    if known is None:
        return
    for use in uses:
        record = known.get(use.claim)
        if record is None:
            there = ", ".join(sorted(known)) or "none"
            message = (
                f"There is no claim {use.claim} in {team.namespace_name}; there is: {there}. Make it with "
                f"POST /api/v1/teams/{team.slug}/volumes/ or kubectl."
            )
            yield FieldProblem(field=f"{use.field}.claim", code="unknown_claim", message=message)
        else:
            yield from _mode_problems(use, record, spec.pods_at_once)


def _mode_problems(use: ClaimUse, record: ClaimRecord, pods: int) -> Iterator[FieldProblem]:
    modes = set(record.access_modes)
    if record.phase in {"Terminating", "Lost"}:
        message = (
            f"Claim {use.claim} is {record.phase.lower()}: its data cannot be relied on. Choose another one."
        )
        yield FieldProblem(field=f"{use.field}.claim", code="claim_unusable", message=message)
    elif modes == {READ_MANY} and not use.read_only:
        message = (
            f"Claim {use.claim} can only be read (ReadOnlyMany): mount it read-only, or choose another one."
        )
        yield FieldProblem(field=f"{use.field}.claim", code="read_only_claim", message=message)
    elif pods > 1 and not _has_many(modes, use):
        message = (
            f"Claim {use.claim} is {' and '.join(sorted(modes))}, so that only one {_place(modes)} may have it, and "
            f"the {pods} pods of this request cannot be promised that. Take a claim with ReadWriteMany"
            f"{', or ReadOnlyMany for a mount that only reads' if use.read_only else ''}; or ask for one pod."
        )
        yield FieldProblem(field=f"{use.field}.claim", code="not_shareable", message=message)


def claims_of_one_node(spec: ContainerSpec, team: Team, *, now: datetime) -> list[ClaimRecord]:
    """The spec's PersistentVolumeClaims that pods on two nodes cannot mount at once, as far as claims are watched."""
    uses = spec.claim_uses()
    known = (claims_in(team.namespace_name, now=now) or {}) if uses else {}
    claims = {}
    for use in uses:
        record = known.get(use.claim)
        if record is not None and not _has_many(set(record.access_modes), use):
            claims[use.claim] = record
    return list(claims.values())


def _has_many(modes: set[str], use: ClaimUse) -> bool:
    return WRITE_MANY in modes or (READ_MANY in modes and use.read_only)


def _place(modes: set[str]) -> str:
    return "node" if modes - {"ReadWriteOncePod"} else "pod"
