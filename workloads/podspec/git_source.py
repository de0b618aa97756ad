"""The init containers that fetch a git repository, as pure functions to JSON.

Each is one git command as an array, so that no shell ever sees what a user wrote; the one script there is, which hands
out the credentials, is a constant that reads two quoted variables.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from workloads.podspec.specs import GIT_PASSWORD_KEY, GitSource

Manifest = dict[str, Any]

CONTAINER_PREFIX = "git-"
"""Of the names of all containers that bring code, and of none that the user's command runs in."""
USERNAME_KEY = "username"
DEFAULT_USERNAME = "git"
"""The user name for hosts that check the password alone."""
ENVIRONMENT: Mapping[str, str] = {
    "HOME": "/tmp",  # noqa: S108 - of a container
    "GIT_TERMINAL_PROMPT": "0",
    # A server may answer with another address: none but https is followed.
    "GIT_ALLOW_PROTOCOL": "https",
}
CREDENTIALS = (
    '!f() { printf "username=%s\\npassword=%s\\n" "${GIT_USERNAME:-'
    + DEFAULT_USERNAME
    + '}" "$GIT_PASSWORD"; }; f'
)


def fetch_containers(git: GitSource, *, image: str, mount: Manifest, common: Manifest) -> list[Manifest]:
    """Three containers that make the repository in the mounted folder, fetch one revision of it and check that out.

    `common` are the fields that every helper of the pod has.
    """
    path = mount["mountPath"]
    commands = {
        f"{CONTAINER_PREFIX}init": ["init", "--quiet", path],
        f"{CONTAINER_PREFIX}fetch": ["-C", path, "fetch", "--depth", "1", "--", git.url, git.ref],
        f"{CONTAINER_PREFIX}checkout": ["-C", path, "checkout", "--quiet", "--detach", "FETCH_HEAD"],
    }
    container = {
        "image": image,
        **common,
        "env": _environment(git),
        "volumeMounts": [mount],
    }
    return [
        {"name": name, **copy.deepcopy(container), "command": ["git", *words]}
        for name, words in commands.items()
    ]


def _environment(git: GitSource) -> list[Manifest]:
    # The folder of a volume belongs to root, and git would distrust it as another user's.
    config = {"safe.directory": "*"}
    env: list[Manifest] = [{"name": name, "value": value} for name, value in ENVIRONMENT.items()]
    if git.secret is not None:
        address = urlsplit(git.url)
        config[f"credential.{address.scheme}://{address.netloc}.helper"] = CREDENTIALS
        env += [
            _from_secret("GIT_USERNAME", git.secret, USERNAME_KEY, optional=True),
            _from_secret("GIT_PASSWORD", git.secret, GIT_PASSWORD_KEY, optional=False),
        ]
    env.append({"name": "GIT_CONFIG_COUNT", "value": str(len(config))})
    for index, (key, value) in enumerate(config.items()):
        env += [
            {"name": f"GIT_CONFIG_KEY_{index}", "value": key},
            {"name": f"GIT_CONFIG_VALUE_{index}", "value": value},
        ]
    return env


def _from_secret(name: str, secret: str, key: str, *, optional: bool) -> Manifest:
    reference = {"name": secret, "key": key, **({"optional": True} if optional else {})}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}
