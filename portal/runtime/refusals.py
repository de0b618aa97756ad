"""Why the processes refuse to start, in one place: the system checks and `up` say the same."""

from __future__ import annotations

from portal.settings.env import Bind, Environment

EXPOSED_HINT = "Keep {name} on 127.0.0.1, or set PORTAL_KUBECONFIG to a real cluster."


def exposed_message(name: str, bind: Bind) -> str:
    """The sentence about one address that other machines can reach."""
    return (
        f"{name} is {bind}, which other machines can reach, while the embedded cluster is in use: "
        "it runs the commands of pods as processes on this machine."
    )


def refusals(environment: Environment) -> list[str]:
    """Complete sentences; empty when the processes may start."""
    return [
        f"{exposed_message(name, bind)} {EXPOSED_HINT.format(name=name)}"
        for name, bind in environment.exposed_binds().items()
    ]
