"""Whether an image lies below an entry of an allow-list, whatever way it is written in."""

from __future__ import annotations

import pytest

from workloads.podspec import grammar
from workloads.podspec.image_names import full_name, full_prefix, lies_below

DIGEST = "@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("python", "docker.io/library/python"),
        ("python:3.12", "docker.io/library/python"),
        ("python" + DIGEST, "docker.io/library/python"),
        ("python:3.12" + DIGEST, "docker.io/library/python"),
        ("docker.io/python:3", "docker.io/library/python"),
        ("index.docker.io/library/python", "docker.io/library/python"),
        ("DOCKER.io/library/python", "docker.io/library/python"),
        ("pytorch/pytorch:2", "docker.io/pytorch/pytorch"),
        ("example.org", "docker.io/library/example.org"),
        ("localhost/a", "localhost/a"),
        ("GHCR.io/acme/train:1", "ghcr.io/acme/train"),
        ("ghcr.io:443/acme/train:1", "ghcr.io:443/acme/train"),
        ("localhost:5000/a/b:1" + DIGEST, "localhost:5000/a/b"),
    ],
)
def test_two_names_of_one_image_are_one(image, full):
    assert full_name(image) == full


@pytest.mark.parametrize(
    ("prefix", "full"),
    [
        ("ghcr.io", "ghcr.io"),
        ("ghcr.io/acme/", "ghcr.io/acme"),
        ("python", "docker.io/library/python"),
        ("nvidia/cuda", "docker.io/nvidia/cuda"),
        ("Docker.IO", "docker.io"),
        ("docker.io/library", "docker.io/library/library"),
    ],
)
def test_an_entry_may_be_a_registry_alone(prefix, full):
    assert full_prefix(prefix) == full


ALLOWED = ["ghcr.io/acme", "docker.io/library/python", "10.0.0.1:5000"]


@pytest.mark.parametrize(
    "image", ["ghcr.io/acme/train:1", "ghcr.io/acme/a/b", "python:3.12", "10.0.0.1:5000/x", "GHCR.IO/acme/x"]
)
def test_what_lies_below_an_entry_is_allowed(image):
    assert grammar.image(image) is None
    assert lies_below(image, ALLOWED)


@pytest.mark.parametrize(
    "image",
    [
        "ghcr.io/acme-evil/train",
        "ghcr.io/acmeevil",
        "ghcr.io.evil.example/acme/train",
        "ghcr.io:8443/acme/train",
        "evil.example/ghcr.io/acme/train",
        "evil.example/docker.io/library/python",
        "ghcr.io/evil/acme",
        "acme/train",
        "pythonx",
        "someone/python",
        "10.0.0.1:50001/x",
        "10.0.0.1/x",
        "ghcr.io/evil/x:acme",
        "Ghcr/acme/x",
    ],
)
def test_what_only_looks_like_it_is_not(image):
    assert not lies_below(image, ALLOWED)


@pytest.mark.parametrize(
    "image",
    [
        "ghcr.io/acme@evil.example/x",
        "ghcr.io/acme:x@evil.example/x",
        "user@ghcr.io/acme/x",
        "ghcr.io./acme/x",
        "ghcr.io/acme/../evil/x",
        "ghcr.io//acme/x",
        "ghcr.io/acme/x/",
        "ghcr\uff0eio/acme/x",
        "ghcr.i\u043e/acme/x",
        "ghcr.io/ACME/x",
        "ghcr.io/acme/x\n",
        "https://ghcr.io/acme/x",
        "ghcr.io\\acme/x",
        "ghcr.io/acme%2f../x",
    ],
)
def test_what_another_reader_might_take_for_another_image_is_no_image(image):
    assert grammar.image(image) is not None
