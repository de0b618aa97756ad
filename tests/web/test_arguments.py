"""A command in a form: one line as a shell splits it, or one argument a line; shown as it will be started."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.pages.command_line import read_arguments, write_arguments
from jobs.models import TrainingRun
from quotas.models import Quota
from tests.web.test_forms import NEW, filled, text
from workloads.models import Workload
from workloads.states import Phase, Reason


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        ("", []),
        (" \n ", []),
        ("nvidia-smi", ["nvidia-smi"]),
        ("python train.py --epochs=10\n", ["python", "train.py", "--epochs=10"]),
        ('sh -c "echo $HOME && ls | wc -l"', ["sh", "-c", "echo $HOME && ls | wc -l"]),
        ("sh -c 'exit 3'", ["sh", "-c", "exit 3"]),
        (r"run a\ b 'c d' e\'f", ["run", "a b", "c d", "e'f"]),
        ("torchrun --node_rank=$(RANK) train.py", ["torchrun", "--node_rank=$(RANK)", "train.py"]),
        ("torchrun \\\n  --nnodes 2 \\\n  train.py", ["torchrun", "--nnodes", "2", "train.py"]),
        ('bash -c "\nset -e\npython train.py"', ["bash", "-c", "\nset -e\npython train.py"]),
        ("python\ntrain.py\n--name=it's; rm -rf $HOME", ["python", "train.py", "--name=it's; rm -rf $HOME"]),
        ("sh\n-c\necho 'a b' | cat", ["sh", "-c", "echo 'a b' | cat"]),
    ],
)
def test_a_command_is_split_as_a_shell_would(typed, arguments):
    assert read_arguments(typed) == arguments


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ('sh -c "echo', "No shell could split this line (no closing quotation)"),
        ("python train.py && echo done", "&& means something to a shell"),
        ("python train.py | tee log", "| means something to a shell"),
        ("python train.py > log", "> means something to a shell"),
        ("python train.py --to $HOME/x", "$HOME means something to a shell"),
        ("run $(date +%s)", "$(date means something to a shell"),
        ("LR=0.1 python train.py", "LR=… sets a variable in a shell only: write it under Environment."),
        ("python train.py # the first try", "# begins a comment"),
        ("sh -c 'one\ntwo'\nls", "These are several commands"),
    ],
)
def test_what_only_a_shell_can_do_is_refused_with_a_way_out(typed, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read_arguments(typed)


words = st.text(st.sampled_from("ab '\"\\$&|;#=\n-"), max_size=6)


@given(st.lists(words, max_size=4))
def test_what_is_written_is_read_as_the_same_arguments(arguments):
    written = write_arguments(arguments)
    assert read_arguments(written) == arguments if written else True
    if not any("\n" in each or not each for each in arguments) and "=" not in "".join(arguments):
        assert written or not arguments


# --- on the pages


@pytest.mark.django_db
def test_a_pasted_line_becomes_arguments_which_preview_and_page_show(ana, world):
    line = 'sh -c "python train.py && echo done"'
    html = text(ana.post(NEW, filled(command=line, action="check")))
    argv = re.search(r'<p class="argv">(.*?)</p>', html, re.DOTALL)[1]
    shown = ["sh", "-c", "python train.py && echo done"]
    assert re.findall(r"<code>(.*?)</code>", argv) == shown
    assert f">{line}</textarea>" in html.replace("\n", "")
    location = ana.post(NEW, filled(command=line))["Location"]
    assert TrainingRun.objects.get().spec["command"] == shown
    argv = re.search(r'<p class="argv">(.*?)</p>', text(ana.get(location)), re.DOTALL)[1]
    assert re.findall(r"<code>(.*?)</code>", argv) == shown


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["/runs/new/", "/endpoints/new/"])
def test_a_line_that_cannot_be_split_is_an_error_at_the_command(ana, world, address):
    response = ana.post(address, filled(command='sh -c "echo'))
    assert response.status_code == 422
    assert list(response.context["form"].errors) == ["command"]
    assert not Workload.objects.exists()


@pytest.mark.django_db
def test_what_did_not_start_says_so_and_points_to_no_log(ana, made, world):
    run = made["resnet50"]
    said = 'Container main did not start: exec: "trian": executable file not found in $PATH'
    world.move(run, Phase.FAILED, Reason.START_ERROR, said, at=world.now)
    html = text(ana.get(f"/runs/{run.public_id}/?tab=spec"))
    assert "did not start" in html
    assert "The program never ran, so it wrote no log." in html
    assert "Its last lines are in the logs" not in html


# --- which GPU a form begins with


def chosen(html: str) -> tuple[str | None, str]:
    flavor = re.search(r'name="flavor" value="([^"]*)" checked', html)
    gpus = re.search(r'name="gpus" value="([^"]*)"', html)[1]
    return flavor and flavor[1], gpus


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["/runs/new/", "/endpoints/new/"])
def test_an_untouched_form_asks_for_the_cheapest_flavor_with_room(ana, made, world, address):
    assert chosen(text(ana.get(address))) == ("a100-mig-1g.10gb", "1")
    # Of slices there are four in the quota: one that is not left is no choice, nor is more than one in a pod.
    assert chosen(text(ana.get(f"{address}?gpus=2"))) == ("a100-40gb", "2")
    for name in ("a", "b", "c"):
        world.start(world.endpoint(name))
    assert chosen(text(ana.get(address))) == ("a100-40gb", "1")


@pytest.mark.django_db
def test_a_team_without_quota_begins_without_a_gpu(stranger, world):
    Quota.objects.filter(team=world.other).delete()
    assert chosen(text(stranger.get(NEW))) == ("", "0")


@pytest.mark.django_db
def test_no_gpu_says_how_many_they_are(ana, world):
    assert ana.post(NEW, filled(flavor="", gpus="1")).status_code == 303
    spec = TrainingRun.objects.get().spec
    assert (spec["flavor"], spec["gpus_per_replica"]) == (None, 0)


@pytest.mark.django_db
def test_to_choose_nothing_is_not_to_choose_no_gpu(ana, world):
    sent = filled(gpus="1")
    del sent["flavor"]
    response = ana.post(NEW, sent)
    assert response.status_code == 422
    assert chosen(text(response))[0] is None
