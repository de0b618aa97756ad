"""What names, images, paths, labels and environment names may look like, as pure checks.

Each check answers None, or a Fault: a stable code and a sentence for a person. The limits are those of
Kubernetes 1.36 (apimachinery/pkg/util/validation, core/validation) and of the image reference grammar
(github.com/distribution/reference), narrowed where the portal needs room for its own suffixes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

WORKLOAD_NAME_LENGTH_MAX = 40
"""A workload name stays readable in an object name of at most 40 characters, which shortens it if need be."""
IMAGE_LENGTH_MAX = 512
PATH_LENGTH_MAX = 512
LABELS_MAX = 32
FILES_MAX = 200
FILES_BYTES_MAX = 1024 * 1024
PORTAL_ENV_PREFIX = "PORTAL_"
EXTRA_RESOURCES_MAX = 8
GPU_DOMAINS = frozenset({"nvidia.com", "amd.com", "gpu.intel.com"})
RESERVED_FOLDERS = ("/proc", "/sys", "/dev", "/var/run/secrets", "/run/secrets")
RESERVED_LABEL_DOMAINS = ("mlportal.dev", "kubernetes.io", "k8s.io", "x-k8s.io")
RESERVED_LABELS = frozenset({"job-name", "controller-uid", "pod-template-hash"})

_WORKLOAD_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_LABEL_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FILE_NAME = re.compile(r"[-._A-Za-z0-9]{1,253}", re.ASCII)
_URL_PATH = re.compile(r"/[!#$%&'()*+,\-./0-9:;=?@A-Z_a-z~]*", re.ASCII)
_GIT_REF = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.+/@]{0,254}", re.ASCII)
_MODEL_URI = re.compile(
    r"(?:s3|gs)://[a-z0-9][a-z0-9._-]{1,221}(?:/[-A-Za-z0-9._~+=@]+)*/?"
    r"|https://[A-Za-z0-9][-A-Za-z0-9.]*(?::[0-9]{1,5})?(?:/[-A-Za-z0-9._~+=@%]+)+"
    r"|hf://[A-Za-z0-9][-A-Za-z0-9._]*/[A-Za-z0-9][-A-Za-z0-9._]*(?::[-A-Za-z0-9._]+)?",
    re.ASCII,
)
_SERVED_MODEL = re.compile(
    r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*=)?[A-Za-z0-9][-A-Za-z0-9_.]*(?:/[A-Za-z0-9][-A-Za-z0-9_.]*)*", re.ASCII
)
_MODEL_WORD = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_./]*", re.ASCII)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")

_HOST_PART = r"(?:[A-Za-z0-9]|[A-Za-z0-9][-A-Za-z0-9]*[A-Za-z0-9])"
_HOST = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[0-9A-Fa-f:]+\])(?::[0-9]{{1,5}})?"
_GIT_URL = re.compile(rf"https://{_HOST}(?:/[-A-Za-z0-9._~%+]+)+/?", re.ASCII)
_IMAGE_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"[A-Za-z0-9_][-.A-Za-z0-9_]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,128}"
_IMAGE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_IMAGE_PART}(?:/{_IMAGE_PART})*)(?::{_TAG})?(?:@{_DIGEST})?", re.ASCII
)


class Fault(NamedTuple):
    """Why a value is refused."""

    code: str
    message: str


def workload_name(text: str) -> Fault | None:
    if len(text) > WORKLOAD_NAME_LENGTH_MAX:
        return Fault("max_length", f"A name has at most {WORKLOAD_NAME_LENGTH_MAX} characters.")
    if _WORKLOAD_NAME.fullmatch(text):
        return None
    return Fault(
        "invalid_name",
        "A name begins with a small letter, holds small letters, digits and hyphens, and ends in a letter or digit.",
    )


def object_name(text: str) -> Fault | None:
    """The name of a claim, ConfigMap, Secret or flavor: a DNS subdomain."""
    if len(text) <= 253 and _OBJECT_NAME.fullmatch(text):
        return None
    return Fault(
        "invalid_name",
        "Such a name holds small letters, digits, hyphens and dots, begins and ends in a letter or digit, "
        "and has at most 253 characters.",
    )


def image(text: str) -> Fault | None:
    if len(text) > IMAGE_LENGTH_MAX:
        return Fault("max_length", f"An image reference has at most {IMAGE_LENGTH_MAX} characters.")
    match = _IMAGE.fullmatch(text)
    if match is None:
        return Fault(
            "invalid_image", "Write an image as [registry/]name[:tag][@digest], with a name in small letters."
        )
    if len(match["name"]) > 255:
        return Fault("invalid_image", "The name of an image has at most 255 characters.")
    return None


def image_version(text: str) -> str | None:
    """The tag of an image reference that is right, or its digest where it has one; None where it has neither."""
    name, at, digest = text.partition("@")
    if at:
        return digest
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag or None


def env_name(text: str) -> Fault | None:
    if text.startswith(PORTAL_ENV_PREFIX):
        return Fault("reserved_name", f"Names that begin with {PORTAL_ENV_PREFIX} are the portal's own.")
    if len(text) <= 255 and _ENV_NAME.fullmatch(text):
        return None
    return Fault(
        "invalid_name",
        "The name of a variable holds letters, digits and underscores, does not begin with a digit, "
        "and has at most 255 characters.",
    )


def folder(text: str) -> Fault | None:
    """An absolute path in its shortest form."""
    if len(text) > PATH_LENGTH_MAX:
        return Fault("max_length", f"A path has at most {PATH_LENGTH_MAX} characters.")
    if not text.startswith("/") or text.startswith("//"):
        return Fault("invalid_path", "A path begins with one slash.")
    if ".." in text.split("/") or posixpath.normpath(text) != text:
        return Fault(
            "invalid_path", "Write the path in its shortest form: no '..', no '.', no slash at the end."
        )
    if _UNPRINTABLE.search(text):
        return Fault("invalid_path", "A path holds no control characters.")
    return None


def mount_path(text: str) -> Fault | None:
    """A folder at which something may be mounted."""
    fault = folder(text)
    if fault is not None:
        return fault
    if text == "/" or ":" in text:
        return Fault("invalid_path", "A mount path is not the root folder and holds no colon.")
    for reserved in RESERVED_FOLDERS:
        if is_inside(text, reserved):
            return Fault("reserved_path", f"Nothing may be mounted under {reserved}.")
    return None


def is_inside(path: str, parent: str) -> bool:
    """Whether `path` is `parent` or lies under it."""
    return path == parent or path.startswith(parent.rstrip("/") + "/")


def extra_resource(name: str) -> Fault | None:
    """The name of an extended resource that is neither Kubernetes' own nor a GPU, which has its flavor."""
    domain, slash, part = name.rpartition("/")
    if not slash or not _OBJECT_NAME.fullmatch(domain) or not _LABEL_PART.fullmatch(part):
        return Fault(
            "invalid_name",
            f"{name[:80]!r}: write an extended resource as domain/name, such as vpc.amazonaws.com/efa. cpu, memory and "
            "ephemeral_storage have fields of their own.",
        )
    if len(domain) > 200 or "kubernetes.io/" in name or domain.startswith("requests."):
        return Fault("reserved_name", f"{name[:80]!r} belongs to Kubernetes.")
    if domain in GPU_DOMAINS:
        return Fault(
            "reserved_name", f"{name[:80]!r} is a GPU: name its flavor, and how many in gpus_per_replica."
        )
    return None


def extra_resources(amounts: Mapping[str, int]) -> Fault | None:
    if len(amounts) > EXTRA_RESOURCES_MAX:
        return Fault("too_many", f"At most {EXTRA_RESOURCES_MAX} further resources may be given.")
    return next((fault for fault in map(extra_resource, amounts) if fault is not None), None)


def url_path(text: str) -> Fault | None:
    if len(text) <= 256 and _URL_PATH.fullmatch(text):
        return None
    return Fault(
        "invalid_path",
        "The path of a probe begins with a slash, holds no spaces, and has at most 256 characters.",
    )


def label(key: str, value: str) -> Fault | None:
    """One label that a user wants on the objects."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > 253 or not _OBJECT_NAME.fullmatch(prefix)):
        return Fault("invalid_label", f"The part of label {key[:80]!r} before the slash is not a DNS name.")
    if not _LABEL_PART.fullmatch(name):
        return Fault(
            "invalid_label", f"The label name {name[:80]!r} is not 1 to 63 letters, digits, '-', '_' or '.'."
        )
    if name in RESERVED_LABELS or _has_reserved_domain(prefix):
        return Fault("reserved_name", f"The label {key!r} belongs to Kubernetes or the portal.")
    if value and not _LABEL_PART.fullmatch(value):
        return Fault(
            "invalid_label", f"The value of label {key!r} is not at most 63 letters, digits, '-', '_' or '.'."
        )
    return None


def _has_reserved_domain(prefix: str) -> bool:
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in RESERVED_LABEL_DOMAINS)


def file_name(text: str) -> Fault | None:
    """A key of a ConfigMap."""
    if "/" in text:
        return Fault(
            "invalid_file_name", f"{text[:80]!r}: files lie in one folder; a file name holds no slash."
        )
    if text.startswith("..") or text == "." or not _FILE_NAME.fullmatch(text):
        return Fault(
            "invalid_file_name",
            f"{text[:80]!r}: a file name holds letters, digits, '-', '_' and '.', does not begin with '..', "
            "and has at most 253 characters.",
        )
    return None


def secret_key(text: str) -> Fault | None:
    """A key of a Secret."""
    if text.startswith("..") or text == "." or not _FILE_NAME.fullmatch(text):
        return Fault(
            "invalid_key",
            f"{text[:80]!r}: a key holds letters, digits, '-', '_' and '.', does not begin with '..', "
            "and has at most 253 characters.",
        )
    return None


def secret_values(values: Mapping[str, str]) -> Fault | None:
    """What a Secret is to hold, all of it. No message repeats a value."""
    if not values:
        return Fault("required", "Give at least one key with its value.")
    if len(values) > FILES_MAX:
        return Fault("too_many", f"At most {FILES_MAX} keys may be given.")
    fault = next((candidate for candidate in map(secret_key, values) if candidate is not None), None)
    if fault is not None:
        return fault
    size = sum(len(text.encode()) for text in values.values())
    if size > FILES_BYTES_MAX:
        return Fault(
            "too_large", f"The values have {size} bytes together; at most {FILES_BYTES_MAX} are possible."
        )
    return None


def git_url(text: str) -> Fault | None:
    """The address of a repository: https alone, because ssh needs a key and an account that no pod here has."""
    if len(text) > PATH_LENGTH_MAX:
        return Fault("max_length", f"An address has at most {PATH_LENGTH_MAX} characters.")
    if text.startswith(("ssh://", "git@", "git://", "http://")):
        return Fault(
            "invalid_url",
            "Only https is possible. Most hosts serve the same repository there; a private one takes a secret.",
        )
    if re.match(r"[a-z][a-z0-9+.-]*://[^/@\s]*@", text, re.ASCII):
        return Fault(
            "credentials_in_url",
            "Leave the credentials out of the address: it is stored and shown. Write them into a secret of the team "
            "(keys username and password) and name that in source.git.secret.",
        )
    if not _GIT_URL.fullmatch(text) or "/../" in f"{text}/":
        return Fault("invalid_url", "Write the address as https://host/path/to/repository.git.")
    return None


def git_ref(text: str) -> Fault | None:
    """A branch, a tag or a commit: what git check-ref-format allows, less what could be an option or a pattern."""
    parts = text.split("/")
    fits = _GIT_REF.fullmatch(text) and ".." not in text and "@{" not in text
    if fits and all(
        part and not part.startswith(".") and not part.endswith((".", ".lock")) for part in parts
    ):
        return None
    return Fault(
        "invalid_ref",
        "Write the name of a branch or a tag, or a whole commit hash: letters, digits, '-', '_', '.', '+' and '/', "
        "beginning with a letter, a digit or '_'.",
    )


def git_subdir(text: str) -> Fault | None:
    """A folder of a repository."""
    if len(text) > PATH_LENGTH_MAX or text.startswith(("/", "-")) or _UNPRINTABLE.search(text):
        return Fault("invalid_path", "Write the folder as it stands in the repository, such as train/vision.")
    if ".." in text.split("/") or posixpath.normpath(text) != text or "$(" in text or ":" in text:
        return Fault(
            "invalid_path", "Write the folder in its shortest form: no '..', no '.', no slash at the end."
        )
    return None


def model_uri(text: str) -> Fault | None:
    """The address of a model in an object store, without credentials."""
    if len(text) > PATH_LENGTH_MAX:
        return Fault("max_length", f"An address has at most {PATH_LENGTH_MAX} characters.")
    if re.match(r"[a-z][a-z0-9+.-]*://[^/@\s]*@", text, re.ASCII) or "?" in text:
        return Fault(
            "credentials_in_url",
            "Leave credentials and signatures out of the address: it is stored and shown. Write them into a secret of "
            "the team and name that in model.secret.",
        )
    if not _MODEL_URI.fullmatch(text) or "/../" in f"{text}/":
        return Fault(
            "invalid_uri",
            "Write the address as s3://bucket/folder, gs://bucket/folder, https://host/file or hf://owner/model.",
        )
    return None


def served_model(text: str) -> Fault | None:
    """A model among those in a folder, or NAME=ARCHIVE."""
    if len(text) <= 256 and ".." not in text and _SERVED_MODEL.fullmatch(text):
        return None
    return Fault(
        "invalid_name",
        f"{text[:80]!r}: write a model as its folder or file is called: letters, digits, '-', '_' and '.', beginning "
        "with a letter or digit.",
    )


def model_word(text: str) -> Fault | None:
    """A name or version that is passed to a server."""
    if len(text) <= 128 and _MODEL_WORD.fullmatch(text):
        return None
    return Fault(
        "invalid_name", "It holds letters, digits, '-', '_', '.' and '/', and begins with a letter or digit."
    )


def files(contents: Mapping[str, str]) -> Fault | None:
    """The source files together."""
    if len(contents) > FILES_MAX:
        return Fault("too_many", f"At most {FILES_MAX} files may be given.")
    for name in contents:
        fault = file_name(name)
        if fault is not None:
            return fault
    size = sum(len(name.encode()) + len(text.encode()) for name, text in contents.items())
    if size > FILES_BYTES_MAX:
        return Fault(
            "too_large", f"The files have {size} bytes together; at most {FILES_BYTES_MAX} are possible."
        )
    return None


class Mount(NamedTuple):
    """A place in the container's file tree that is taken; `field` is what asked for it."""

    field: str
    path: str
    sealed: bool
    """Whether nothing else can be mounted inside, because the runtime cannot make a folder there."""


def mount_conflicts(mounts: Iterable[Mount]) -> list[tuple[str, Fault]]:
    """(field, fault) for each mount that takes the place of an earlier one, or lies in a sealed one."""
    conflicts: list[tuple[str, Fault]] = []
    listed = list(mounts)
    for index, mount in enumerate(listed):
        if any(mount.path == earlier.path for earlier in listed[:index]):
            conflicts.append((mount.field, Fault("duplicate", f"{mount.path} is mounted twice.")))
            continue
        outer = next(
            (
                one
                for one in listed
                if one.sealed and one.path != mount.path and is_inside(mount.path, one.path)
            ),
            None,
        )
        if outer is not None:
            message = f"{mount.path} lies inside {outer.path}, which is read-only."
            conflicts.append((mount.field, Fault("inside_read_only", message)))
    return conflicts
