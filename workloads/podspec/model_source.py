"""The init containers that bring a model from an object store, or look whether it is there, as pure functions to JSON.

Each is one program with an array of arguments: what a user wrote is never part of a shell line.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

Manifest = dict[str, Any]

FETCH = "model-fetch"
CHECK = "model-check"
VOLUME = "model"
DEFAULT_SIZE_LIMIT = "50Gi"
S3 = "s3"
GS = "gs"
HTTPS = "https"
HUGGING_FACE = "hf"
SCHEMES = (S3, GS, HTTPS, HUGGING_FACE)
CREDENTIALS: Mapping[str, Mapping[str, bool]] = {
    S3: {
        "AWS_ACCESS_KEY_ID": True,
        "AWS_SECRET_ACCESS_KEY": True,
        "AWS_SESSION_TOKEN": False,
        "AWS_DEFAULT_REGION": False,
        "AWS_ENDPOINT_URL": False,
    },
    HTTPS: {"AZURE_STORAGE_ACCESS_KEY": True},
    HUGGING_FACE: {"HF_TOKEN": True},
}
"""By scheme: keys of a Secret that become variables of that name, and whether it must have them."""
ENVIRONMENT: Mapping[str, str] = {
    "HOME": "/tmp",  # noqa: S108 - of a container
    "HF_HUB_DISABLE_TELEMETRY": "1",
}


def scheme_of(uri: str) -> str:
    return urlsplit(uri).scheme


def needed_keys(uri: str) -> tuple[str, ...]:
    """Keys that a Secret for this address must have; empty where it takes none."""
    return tuple(name for name, needed in CREDENTIALS.get(scheme_of(uri), {}).items() if needed)


def fetch_container(
    uri: str, *, secret: str | None, image: str, mount: Manifest, common: Manifest
) -> Manifest:
    """The container that brings what lies at the address into the mounted folder.

    The image's own program takes the source and the target, like KServe's and Seldon's storage initializers. `common`
    are the fields that every helper of the pod has.
    """
    return {
        "name": FETCH,
        "image": image,
        **copy.deepcopy(common),
        "args": [uri, mount["mountPath"]],
        "env": [{"name": name, "value": value} for name, value in ENVIRONMENT.items()]
        + _credentials(uri, secret),
        "volumeMounts": [mount],
    }


def check_container(paths: Sequence[str], *, image: str, common: Manifest) -> Manifest:
    """The container that ends with an error naming each of the paths that is not there.

    It has the server's image, so that no other image is pulled, and sees what the server sees.
    """
    return {"name": CHECK, "image": image, **copy.deepcopy(common), "command": ["ls", "-d", "--", *paths]}


def _credentials(uri: str, secret: str | None) -> list[Manifest]:
    if secret is None:
        return []
    return [
        {
            "name": name,
            "valueFrom": {
                "secretKeyRef": {"name": secret, "key": name, **({} if needed else {"optional": True})}
            },
        }
        for name, needed in CREDENTIALS[scheme_of(uri)].items()
    ]
