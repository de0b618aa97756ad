"""What fetches a repository, carried out with the git of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from jobs.manifests import build_training_run
from jobs.specs import TrainingRunSpec
from tests.manifest_samples import placement
from workloads.podspec.git_source import ENVIRONMENT, fetch_containers
from workloads.podspec.specs import GitSource

GIT = shutil.which("git")
pytestmark = pytest.mark.skipif(GIT is None, reason="no git here")
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "a"), ("EMAIL", "a@example.org"))
}


def run(words, folder=None, given="", **env):
    plain = {"PATH": "/usr/local/bin:/usr/bin:/bin", **env}
    done = subprocess.run(
        words, cwd=folder, env=plain, input=given, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def repository(tmp_path):
    """One with a branch, a tag and three commits; the address, and the hash of the first commit."""
    folder = tmp_path / "repository"
    (folder / "train").mkdir(parents=True)

    def commit(text):
        (folder / "train" / "main.py").write_text(text)
        for words in (["add", "."], ["commit", "-qm", text]):
            assert run(["git", *words], folder, HOME=str(tmp_path), **AUTHOR)[0] == 0

    run(["git", "init", "-q", "-b", "main"], folder, HOME=str(tmp_path))
    run(["git", "config", "uploadpack.allowAnySHA1InWant", "true"], folder, HOME=str(tmp_path))
    commit("first")
    first = run(["git", "rev-parse", "HEAD"], folder, HOME=str(tmp_path))[1].strip()
    run(["git", "tag", "v1"], folder, HOME=str(tmp_path))
    commit("second")
    run(["git", "checkout", "-qb", "feature/x"], folder, HOME=str(tmp_path))
    commit("third")
    run(["git", "checkout", "-q", "main"], folder, HOME=str(tmp_path))
    return f"file://{folder}", first


def fetch(tmp_path, git: GitSource):
    """Run the containers' commands one after the other; what is there then, or what the first failure said."""
    target = tmp_path / "workspace"
    target.mkdir()
    mount = {"name": "source", "mountPath": str(target)}
    for container in fetch_containers(git, image="x", mount=mount, common={}):
        env = {each["name"]: each["value"] for each in container["env"] if "value" in each}
        # A repository of this machine stands for one that is served.
        env |= {"HOME": str(tmp_path), "GIT_ALLOW_PROTOCOL": "file"}
        code, _, said = run(container["command"], **env)
        if code:
            return container["name"], said
    return (target / "train" / "main.py").read_text()


@pytest.mark.parametrize(
    ("ref", "text"),
    [("HEAD", "second"), ("main", "second"), ("v1", "first"), ("feature/x", "third"), (None, "first")],
)
def test_a_branch_a_tag_or_a_commit_lies_in_the_folder(tmp_path, repository, ref, text):
    url, first = repository
    assert fetch(tmp_path, GitSource(url, ref or first)) == text


def test_what_is_not_there_ends_the_init_container_with_gits_own_words(tmp_path, repository):
    name, said = fetch(tmp_path, GitSource(repository[0], "nothing"))
    assert name == "git-fetch"
    assert "couldn't find remote ref nothing" in said


def test_no_protocol_but_https_is_followed(tmp_path, repository):
    env = {**ENVIRONMENT, "HOME": str(tmp_path)}
    code, _, said = run(["git", "ls-remote", repository[0]], **env)
    assert code
    assert "transport 'file' not allowed" in said


def test_credentials_go_to_the_host_of_the_address_alone_and_are_never_carried_out(tmp_path):
    git = GitSource("https://git.example.com:8443/a/b.git", secret="git-read")
    mount = {"name": "source", "mountPath": "/workspace"}
    (container, *_) = fetch_containers(git, image="x", mount=mount, common={})
    env = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    password = "a\"b$(touch hit)`touch hit`\\n%s'"
    env |= {"HOME": str(tmp_path), "GIT_PASSWORD": password, "GIT_USERNAME": "me"}

    def asked(host, **more):
        words = f"protocol=https\nhost={host}\n\n"
        return run(["git", "credential", "fill"], tmp_path, words, **{**env, **more})[1]

    assert f"password={password}\n" in asked("git.example.com:8443")
    assert "username=me\n" in asked("git.example.com:8443")
    assert "username=git\n" in asked("git.example.com:8443", GIT_USERNAME="")
    assert "password" not in asked("elsewhere.example.com")
    assert list(tmp_path.iterdir()) == []
    named = {
        each["name"]: each["valueFrom"]["secretKeyRef"] for each in container["env"] if "valueFrom" in each
    }
    assert named["GIT_PASSWORD"] == {"name": "git-read", "key": "password"}
    assert named["GIT_USERNAME"]["optional"] is True


def test_the_folder_is_writable_and_the_command_starts_in_the_folder_of_the_repository():
    source = {"git": {"url": "https://example.com/x.git", "subdir": "train"}, "path": "/code"}
    spec = TrainingRunSpec.from_json({"name": "a", "image": "b", "source": source, "run_as_user": 0})
    made = build_training_run(spec, placement("a", "training-run"))
    pod = made.primary["spec"]["template"]["spec"]
    assert [each["kind"] for each in made.dependants] == []
    assert pod["containers"][0]["workingDir"] == "/code/train"
    assert pod["volumes"] == [{"name": "source", "emptyDir": {}}]
    assert all("readOnly" not in each for each in pod["containers"][0]["volumeMounts"])
    assert {Path(each["command"][0]).name for each in pod["initContainers"]} == {"git"}
    assert {each["image"] for each in pod["initContainers"]} == {"alpine/git:v2.49.1"}
