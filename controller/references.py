"""What a request names by name in the team's namespace: whether it is there, as far as the portal can know.

Asked of rows alone, so that preview and submission say the same and make no call.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.specs import ContainerSpec
from foundation.errors import FieldProblem, Invalid
from teams.models import Team
from teams.queries import secrets_of


def check_references(spec: ContainerSpec, team: Team) -> None:
    """Raises Invalid naming every field that names what is not there."""
    problems = list(_secret_problems(spec, team))
    if problems:
        raise Invalid(problems[0].message, code=problems[0].code, errors=problems)


def _secret_problems(spec: ContainerSpec, team: Team) -> Iterator[FieldProblem]:
    """Only Secrets that the portal wrote, or that a lead vouched for, may be named: any other could be anybody's."""
    if not any(item.secret for item in spec.env):
        return
    known = {row.name: row.keys for row in secrets_of(team)}
    for index, item in enumerate(spec.env):
        if item.secret is None:
            continue
        if item.secret not in known:
            there = ", ".join(known) or "none"
            message = (
                f"The portal knows no secret {item.secret} of team {team.slug}; it knows: {there}. Give its values on "
                "the team's page or by REST; a lead can register one that was made with kubectl."
            )
            yield FieldProblem(field=f"env.{index}.secret", code="unknown_secret", message=message)
        elif item.key not in known[item.secret]:
            message = f"Secret {item.secret} has no key {item.key}; it has: {', '.join(known[item.secret])}."
            yield FieldProblem(field=f"env.{index}.key", code="unknown_key", message=message)
