"""The form behind "new run" and "new endpoint": text fields that become the JSON body of REST, and nothing else.

The serializer of REST alone decides what is right; its errors are brought back to the fields they came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar
from uuid import uuid4

import yaml
from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.forms.renderers import Jinja2
from rest_framework.serializers import Serializer
from typing_extensions import override

from console.pages.command_line import read_arguments, write_arguments
from foundation.errors import FieldProblem, NotAllowed, PortalError
from foundation.http.problems import flatten
from teams.models import Team
from workloads.podspec.grammar import FILES_BYTES_MAX
from workloads.states import Priority

_WHOLE = re.compile(r"-?[0-9]{1,18}\Z", re.ASCII)
GPUS_MAX = 10**6
"""From so many on what was typed counts as no number of GPUs."""
_SECRET_LINE = re.compile(r"[^=]+=[^/]+/.+")
_PRIORITIES = [(priority.value, priority.value) for priority in Priority]
CAPACITIES = [("on-demand", "on-demand"), ("spot", "spot: cheaper, may be reclaimed")]
SPOT_FIRST_CHOICE = ("spot-first", "spot first, on-demand if none comes in time")


def text(label: str, help_text: str = "", *, width: str = "", **attrs: Any) -> forms.CharField:
    """One line of text; the serializer of REST decides what may stand in it."""
    widget = forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "class": width, **attrs})
    return forms.CharField(label=label, help_text=help_text, required=False, max_length=2000, widget=widget)


class ArgumentsField(forms.CharField):
    """A command or its arguments, as `console.pages.command_line` reads them."""

    @override
    def validate(self, value: str) -> None:
        super().validate(value)
        try:
            read_arguments(unix(value))
        except ValueError as error:
            raise forms.ValidationError(str(error), code="not_split") from error


def lines(
    label: str,
    help_text: str = "",
    *,
    rows: int = 3,
    placeholder: str = "",
    field: type[forms.CharField] = forms.CharField,
) -> forms.CharField:
    """Several lines, one item each."""
    attrs = {"rows": rows, "spellcheck": "false", "class": "code", "placeholder": placeholder}
    widget = forms.Textarea(attrs=attrs)
    return field(label=label, help_text=help_text, required=False, strip=False, widget=widget)


class ContainerForm(forms.Form):
    """The part that runs and endpoints share. Subclasses say their serializer, and extend `body` and `PATHS`."""

    default_renderer = Jinja2()
    """One for all forms: it compiles its templates once."""
    serializer_class: ClassVar[type[Serializer[Any]]]
    PATHS: ClassVar[Mapping[str, str]] = {
        "team": "team",
        "name": "name",
        "image": "image",
        "command": "command",
        "env": "env",
        "flavor": "flavor",
        "capacity": "capacity",
        "gpus_per_replica": "gpus",
        "cpu": "cpu",
        "memory": "memory",
        "shm": "shm",
        "ephemeral_storage": "storage",
        "image_pull_secrets": "pull_secrets",
        "volumes": "volumes",
        "extra_resources": "extra_resources",
        "priority": "priority",
        "labels": "labels",
        "source": "upload",
        "source.git": "git_url",
        "source.git.ref": "git_ref",
        "source.git.subdir": "git_subdir",
        "source.git.secret": "git_secret",
        "replaces": "replaces",
    }
    """Where in the form a field of the body comes from; the longest prefix of a dotted path counts."""

    token = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    name = text("Name", "Small letters, digits and hyphens.", maxlength=40, placeholder="resnet50")
    team = forms.ChoiceField(label="Team", required=False)
    image = text("Image", width="wide", placeholder="registry.example.org/train:1.4")
    command = lines(
        "Command",
        "One line, split as a shell would, or one argument per line. No shell runs it: for &&, | or $HOME write sh -c '…'.",
        rows=2,
        placeholder="python train.py --epochs=10",
        field=ArgumentsField,
    )
    env = lines("Environment", "One NAME=value per line.", placeholder="EPOCHS=10")
    env_secrets = lines(
        "Environment from secrets", "One NAME=secret/key per line.", rows=2, placeholder="HF_TOKEN=hf/token"
    )
    flavor = forms.CharField(label="GPU", required=False, max_length=253)
    # A question to the adviser, which is no part of the request.
    fits = text("What fits?", placeholder="7B fp16", maxlength=200)
    capacity = forms.ChoiceField(label="Capacity", choices=CAPACITIES, required=False)
    gpus = text("GPUs", "For each pod.", inputmode="numeric")
    cpu = text("CPU cores", "Such as 4 or 500m. Empty: the GPUs' share of a node.")
    memory = text("Memory", "Such as 16Gi. Empty: the GPUs' share.")
    shm = text("Shared memory", "For data loaders, such as 8Gi. Part of the memory.")
    storage = text("Ephemeral storage", "What it may write outside of volumes, such as 100Gi.")
    pull_secrets = text(
        "Registry secrets",
        "Names of secrets with an account of the image's registry, by commas.",
        placeholder="registry",
    )
    priority = forms.ChoiceField(label="Priority", choices=_PRIORITIES, required=False)
    volumes = lines(
        "Volumes", "One claim:/path per line; add :ro for read-only.", placeholder="datasets:/data:ro"
    )
    labels = lines("Labels", "One name=value per line.", placeholder="project=vision")
    extra_resources = lines(
        "Further resources",
        "One name=count per line, for each pod.",
        rows=2,
        placeholder="vpc.amazonaws.com/efa=1",
    )
    # Drawn as a box to tick beside the name of the one that waits.
    replaces = forms.CharField(label="In place of", required=False, max_length=36, widget=forms.HiddenInput)
    upload = forms.FileField(
        label="Upload files",
        required=False,
        help_text="Text files, together at most 1 MiB.",
        widget=forms.ClearableFileInput,
    )

    git_url = text("Repository", placeholder="https://git.example.org/vision/train.git", width="wide")
    git_ref = text("Revision", "Branch, tag or whole commit hash.", placeholder="main")
    git_subdir = text("Folder in it", "Where the command starts.")
    git_secret = text("Secret", "Of a private one: with the key password, and username if need be.")

    def __init__(
        self, *args: Any, teams: Sequence[Team], files_sent: Iterable[UploadedFile[Any]] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        choice = self.fields["team"]
        # The permissions decide which team it may be, so that another's team is distinguished from none.
        choice.choices = [(team.slug, f"{team.name} ({team.slug})") for team in teams]  # type: ignore[attr-defined]
        self.teams = {team.slug: team for team in teams}
        self.files_sent = list(files_sent)
        self.serializer: Serializer[Any] | None = None
        self.body: dict[str, Any] = {}
        self.sources: list[tuple[str, str]] = []

    files_fixed: bool = False
    """Whether no user may change the source files here."""
    flavor_fixed: bool = False
    """Whether no user may choose another GPU here."""

    @property
    def without_gpu(self) -> bool:
        """Whether "No GPU" is chosen, which says how many they are, too. To choose nothing is not to choose that."""
        if self.is_bound:
            return self.data.get("flavor") == ""
        return not self.initial.get("flavor") and str(self.initial.get("gpus") or "0") == "0"

    @property
    def gpus_each(self) -> int:
        """GPUs of a pod, as far as a number is typed."""
        return counted_or_one(self["gpus"].value())

    @property
    def pods(self) -> int:
        """How many pods it claims GPUs for, as far as a number is typed."""
        return counted_or_one(self["replicas"].value()) if "replicas" in self.fields else 1

    @property
    def code_rows(self) -> list[tuple[str, str]]:
        """The source files so far and, unless they are fixed, one row to fill in."""
        files = self.sources or self.initial.get("sources", [])
        return files if self.files_fixed else [*files, ("", "")]

    @property
    def posted_token(self) -> str:
        """Distinguishes this form from another one of the same page, so that a second click makes nothing."""
        return str(self.data.get("token", "")) if self.is_bound else ""

    @property
    def fresh_token(self) -> str:
        return self.posted_token or uuid4().hex

    @override
    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        self.sources = self._sources()
        self.body = {
            key: value for key, value in self.to_body(values).items() if value not in (None, "", [], {})
        }
        serializer = self.serializer_class(data=self.body)
        if serializer.is_valid():
            self.serializer = serializer
        else:
            self.add_problems(flatten(serializer.errors))
        return values

    def clean_env_secrets(self) -> str:
        value = str(self.cleaned_data["env_secrets"])
        for number, line in enumerate(filter(str.strip, split_lines(value)), start=1):
            if not _SECRET_LINE.fullmatch(line.strip()):
                raise forms.ValidationError(f"Line {number}: write NAME=secret/key.", code="invalid")
        return value

    def to_body(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON body of REST; what is left empty is left out."""
        return {
            "team": values.get("team", ""),
            "name": values.get("name", ""),
            "image": values.get("image", ""),
            "command": arguments_of(values.get("command", "")),
            "env": [
                *_filled(_pair, values.get("env", "")),
                *_filled(_secret_key, values.get("env_secrets", "")),
            ],
            "flavor": values.get("flavor", ""),
            "capacity": values.get("capacity", ""),
            "gpus_per_replica": 0 if self.is_bound and self.without_gpu else whole(values.get("gpus", "")),
            "cpu": values.get("cpu", ""),
            "memory": values.get("memory", ""),
            "shm": values.get("shm", ""),
            "ephemeral_storage": values.get("storage", ""),
            "image_pull_secrets": values.get("pull_secrets", "").replace(",", " ").split(),
            "volumes": _filled(_volume, values.get("volumes", "")),
            "extra_resources": dict(
                _units(line) for line in split_lines(values.get("extra_resources", "")) if line.strip()
            ),
            "priority": values.get("priority", ""),
            "labels": dict(_label(line) for line in split_lines(values.get("labels", "")) if line.strip()),
            "source": self._source(values),
            "replaces": values.get("replaces", ""),
        }

    def _source(self, values: Mapping[str, Any]) -> dict[str, Any] | None:
        names = ("url", "ref", "subdir", "secret")
        git = {name: value for name in names if (value := values.get(f"git_{name}"))}
        files = {"files": dict(self.sources)} if self.sources else {}
        return {**files, **({"git": git} if git else {})} or None

    @property
    def replaced_id(self) -> str | None:
        """Id of the waiting workload that this one replaces."""
        return self.body.get("replaces")

    def add_problems(self, problems: Iterable[FieldProblem]) -> None:
        """Each at the form field that the body's field came from; what has none stands above the form."""
        for problem in problems:
            field = self._field_of(problem.field)
            # A field with an input of its own shows the message alone; for the others the path is shown, too.
            named = field is not None and field != "more"
            message = problem.message if named else f"{problem.field}: {problem.message}".lstrip(": ")
            place = re.search(r"\.([0-9]+)(\.|$)", problem.field)
            if field and named and place and problem.field.split(".")[0] in {"env", "volumes", "command"}:
                field, line = self._line(field, int(place[1]))
                message = f"{'Argument' if field == 'command' else 'Line'} {line + 1}: {message}"
            self.add_error(field, message)

    def _line(self, field: str, index: int) -> tuple[str, int]:
        """The field and its line: the variables of the body come from two fields, one after the other."""
        plain = len(_filled(_pair, self.cleaned_data.get("env", ""))) if field == "env" else index + 1
        return (field, index) if index < plain else ("env_secrets", index - plain)

    def add_portal_error(self, error: PortalError) -> None:
        """What a service said. Raises it again where it is no fault of the form."""
        if isinstance(error, NotAllowed) and not error.errors:
            raise error
        self.add_problems(error.errors or [FieldProblem(field="", code=error.code, message=error.message)])

    def _field_of(self, path: str) -> str | None:
        parts = path.split(".")
        for length in range(len(parts), 0, -1):
            field = self.PATHS.get(".".join(parts[:length]))
            if field:
                return field
        return None

    def judged_by(self, judged: ContainerForm, *, sources: bool) -> None:
        """Take over what is wrong with a form that has a part of what was typed here, and judge nothing of the rest.

        `sources` says whether the source files are of that part.
        """
        self._errors = judged.errors
        self.cleaned_data = getattr(judged, "cleaned_data", {})
        self.sources = judged.sources if sources else self._sources()

    def _sources(self) -> list[tuple[str, str]]:
        getlist: Callable[[str], list[str]] = getattr(self.data, "getlist", lambda _: [])
        typed = zip(getlist("file_name"), getlist("file_content"), strict=False)
        rows = [(name.strip(), unix(content)) for name, content in typed if name.strip() or content.strip()]
        for sent in self.files_sent:
            if (sent.size or 0) > FILES_BYTES_MAX:
                self.add_error("upload", f"{sent.name} is larger than 1 MiB.")
                continue
            try:
                rows.append((str(sent.name), sent.read().decode()))
            except UnicodeDecodeError:
                self.add_error(
                    "upload", f"{sent.name} is not a text file in UTF-8; put it into a volume or the image."
                )
        return rows


def initial_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The form's values for a stored spec: the way back from `to_body`."""
    return {
        "image": spec.get("image", ""),
        "command": write_arguments([*spec.get("command", []), *spec.get("args", [])]),
        "env": "\n".join(
            f"{item['name']}={item['value']}" for item in spec.get("env", []) if "value" in item
        ),
        "env_secrets": "\n".join(
            f"{item['name']}={item['secret']}/{item['key']}"
            for item in spec.get("env", [])
            if item.get("secret")
        ),
        "flavor": spec.get("flavor") or "",
        "capacity": spec.get("capacity", "on-demand"),
        "gpus": str(spec.get("gpus_per_replica", 0)),
        "cpu": _amount(spec.get("cpu")),
        "memory": _amount(spec.get("memory")),
        "shm": spec.get("shm") or "",
        "storage": _amount(spec.get("ephemeral_storage")),
        "pull_secrets": ", ".join(spec.get("image_pull_secrets") or ()),
        "priority": spec.get("priority", "normal"),
        "volumes": "\n".join(
            f"{item['claim']}:{item['path']}{':ro' if item.get('read_only') else ''}"
            for item in spec.get("volumes", [])
        ),
        "extra_resources": "\n".join(
            f"{name}={units}" for name, units in (spec.get("extra_resources") or {}).items()
        ),
        "labels": "\n".join(f"{name}={value}" for name, value in spec.get("labels", {}).items()),
        **{
            f"git_{name}": value or ""
            for name, value in ((spec.get("source") or {}).get("git") or {}).items()
        },
        "sources": list(((spec.get("source") or {}).get("files") or {}).items()),
    }


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they are, so that a script can be read."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def yaml_of(body: Mapping[str, Any]) -> str:
    """The body as a file of YAML, its fields in the order of the form."""
    return yaml.dump(dict(body), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def curl_of(body: Mapping[str, Any], *, url: str) -> str:
    """The same request for a terminal; the token comes from the environment."""
    quoted = json.dumps(body, indent=2, ensure_ascii=False).replace("'", "'\\''")
    return (
        f"curl --fail-with-body {url} \\\n"
        '  -H "Authorization: Bearer $PORTAL_TOKEN" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  --data '{quoted}'"
    )


def split_lines(value: str) -> list[str]:
    """Lines as typed, whatever the browser puts between them."""
    return unix(value).split("\n")


def arguments_of(value: str) -> list[str]:
    """The arguments that were typed; none where the text cannot be split, which its field says."""
    try:
        return read_arguments(unix(value))
    except ValueError:
        return []


def whole(value: str) -> int | str:
    """A number where it is one; else the text itself, for the serializer to refuse."""
    return int(value) if _WHOLE.match(value) else value


def unix(value: str) -> str:
    """The text with ends of lines of one kind."""
    return value.replace("\r\n", "\n").replace("\r", "\n")


def _filled(read: Callable[[str], dict[str, Any]], typed: str) -> list[dict[str, Any]]:
    """What each line says that is not empty."""
    return [read(line) for line in split_lines(typed) if line.strip()]


def _secret_key(line: str) -> dict[str, Any]:
    name, _, rest = line.partition("=")
    secret, _, key = rest.strip().partition("/")
    return {"name": name.strip(), "secret": secret, "key": key}


def _pair(line: str) -> dict[str, Any]:
    name, _, value = line.partition("=")
    return {"name": name.strip(), "value": value}


def _label(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name.strip(), value.strip()


def _units(line: str) -> tuple[str, int | str]:
    name, _, value = line.partition("=")
    return name.strip(), whole(value.strip())


def _volume(line: str) -> dict[str, Any]:
    claim, _, rest = line.strip().partition(":")
    path, colon, mode = rest.partition(":")
    mount: dict[str, Any] = {"claim": claim, "path": path}
    return {**mount, "read_only": True} if mode == "ro" else {**mount, "path": f"{path}{colon}{mode}"}


def _amount(value: Any) -> str:
    return str(value.get("limit", "")) if isinstance(value, Mapping) else str(value or "")


def counted_or_one(typed: Any) -> int:
    """A count as it is typed in a field; 1 for none and for what is no count."""
    count = whole(str(typed or "1"))
    return count if isinstance(count, int) and 0 <= count < GPUS_MAX else 1
