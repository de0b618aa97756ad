"""The log under its tab, as the server writes it: its lines have addresses, are read backwards, and searched in context."""

from __future__ import annotations

import re
from html import unescape

import pytest

from workloads.models import LogChunk, PodRecord

pytestmark = pytest.mark.django_db
MANY = 1200


def page(client, run, query="", **headers) -> str:
    return client.get(f"/runs/{run.public_id}/?tab=logs{query}", headers=headers).content.decode()


def fragment(client, run, query, target: str) -> str:
    return page(client, run, query, **{"HX-Request": "true", "HX-Target": target})


def numbers(html: str) -> list[int]:
    return [int(number) for number in re.findall(r'class="log-n"[^>]*>(\d+)<', html)]


def marked(html: str) -> list[str]:
    return re.findall(r'class="log-line marked" id="([^"]+)"', html)


def link(html: str, mark: str) -> str:
    """The query of the link with that mark, less what every one begins with."""
    return unescape(re.search(rf'{mark}[^>]*href="[^"?]+\?tab=logs([^"]*)"', html)[1])


@pytest.fixture
def run(made, world):
    """One that has written more than a page shows."""
    lines = [f"step {number}" for number in range(1, MANY + 1)]
    lines[299], lines[899] = "Needle one", "a <b>needle</b> two"
    lines[399], lines[799] = "WARNING: slow", "ValueError: first"
    lines[999] = "ERROR second"
    LogChunk.objects.filter(workload=made["resnet50"]).delete()
    world.log(made["resnet50"].pods.get(), *lines)
    return made["resnet50"]


@pytest.fixture
def ranks(made, world):
    """One of two pods, that write by turns."""
    run = made["resnet50"]
    first = run.pods.get()
    LogChunk.objects.filter(workload=run).delete()
    for name, text in (("resnet50-worker-0", "zero"), ("resnet50-worker-1", "one")):
        pod = PodRecord.objects.create(
            uid=name,
            namespace=first.namespace,
            name=name,
            workload=run,
            attempt=1,
            resource_version="1",
            phase="Running",
            created_at=first.created_at,
            started_at=first.started_at,
        )
        world.log(pod, f"{text} a", f"{text} b")
    first.delete()
    return run


def test_the_last_lines_are_shown_and_the_older_ones_page_by_page_before_them(ana, run):
    html = page(ana, run)
    assert numbers(html) == list(range(MANY - 499, MANY + 1))
    older = fragment(ana, run, link(html, 'id="log-older"[^>]*><a'), "log-older")
    assert numbers(older) == list(range(MANY - 999, MANY - 499))
    assert 'id="log-more"' not in older
    oldest = fragment(ana, run, link(older, 'id="log-older"[^>]*><a'), "log-older")
    assert numbers(oldest) == list(range(1, MANY - 999))
    assert "Beginning of the log." in oldest


def test_older_lines_are_a_page_of_their_own_without_a_script_and_lead_back(ana, run):
    html = page(ana, run, f"&before=L{MANY - 600}")
    assert numbers(html)[-1] == MANY - 601
    assert "To the newest lines" in html


def test_a_line_that_is_asked_for_is_shown_among_its_neighbours_and_marked(ana, run):
    html = page(ana, run, "&attempt=1&line=L120")
    assert (marked(html), numbers(html)) == (["L120"], list(range(1, 370)))
    assert "autofocus" in html
    assert "autofocus" not in fragment(ana, run, "&line=L120", "log-view")
    newer = unescape(re.search(r'id="log-more"[^>]*hx-get="[^"?]+\?tab=logs([^"]+)"', html)[1])
    assert numbers(fragment(ana, run, newer, "log-more"))[0] == 370


def test_a_line_that_was_never_written_is_said_so_above_the_last_ones(ana, run):
    html = page(ana, run, "&line=L99999")
    assert "Line L99999 is not kept, or was never written." in html
    assert numbers(html)[-1] == MANY


@pytest.mark.parametrize("query", ["&line=120", "&before=L0", "&before=2026-99-01T00:00:00.000000000Z"])
def test_what_names_no_line_is_refused(ana, run, query):
    assert ana.get(f"/runs/{run.public_id}/?tab=logs{query}").status_code == 400


def test_a_search_shows_the_first_match_in_context_and_goes_on_to_the_next(ana, run):
    html = page(ana, run, "&search=NEEDLE")
    assert "1 of 2 lines" in html
    assert (marked(html), "<mark>Needle</mark> one" in html) == (["L300"], True)
    assert "step 299" in html
    assert 'id="log-previous"' not in html
    second = page(ana, run, link(html, 'id="log-next"'))
    assert "2 of 2 lines" in second
    assert marked(second) == ["L900"]
    assert "&lt;b&gt;<mark>needle</mark>&lt;/b&gt;" in second
    assert marked(page(ana, run, link(second, 'id="log-previous"'))) == ["L300"]


def test_only_what_matches_is_shown_where_that_is_asked_for_and_followed(ana, run):
    html = page(ana, run, "&search=needle&only=1")
    assert (numbers(html), "2 lines" in html) == ([300, 900], True)
    more = re.search(r'id="log-more"[^>]*hx-get="([^"]+)"', html)[1]
    assert "search=needle" in more
    assert "only=1" in more
    # Its number leads to the line among all.
    context = re.search(r'class="log-n" href="[^"?]+\?tab=logs([^"#]+)#L300"', html)[1]
    assert 301 in numbers(page(ana, run, unescape(context)))
    assert "search=needle" in re.search(r'href="([^"]+)" download>[^D]*Download these lines', html)[1]


def test_a_level_leaves_out_the_lines_below_it(ana, run):
    html = page(ana, run, "&level=error")
    assert numbers(html) == [800, 1000]
    assert "2 lines" in html
    assert ana.get(f"/runs/{run.public_id}/?tab=logs&level=severe").status_code == 400


def test_one_jumps_to_the_first_error_of_a_log_that_has_any(ana, run, made):
    html = page(ana, run)
    assert marked(page(ana, run, link(html, "button-small"))) == ["L800"]
    assert "No line of it is an error." in page(ana, made["vit-small"], "&line=first-error")


def test_lines_of_several_pods_say_whose_they_are_and_are_told_apart_by_pod(ana, ranks):
    html = page(ana, ranks)
    assert (
        re.findall(r'class="log-pod (rank-\d)" title="([^"]+)">([^<]+)', html)
        == [
            ("rank-0", "resnet50-worker-0", "0"),
            ("rank-1", "resnet50-worker-1", "1"),
        ]
        * 2
    )
    assert 'id="resnet50-worker-1-L2"' in html
    assert marked(page(ana, ranks, "&line=resnet50-worker-1-L2")) == ["resnet50-worker-1-L2"]
    alone = page(ana, ranks, "&pod=resnet50-worker-1&line=L2")
    assert (marked(alone), "zero a" in alone) == (["L2"], False)


def test_a_link_to_a_line_means_its_attempt_and_the_only_pod_for_ever(ana, run):
    (shared,) = re.findall(r'data-link="([^"]+)"', page(ana, run))
    assert unescape(shared) == "tab=logs&attempt=1&pod=resnet50-x-0"


def test_the_whole_log_is_downloaded_with_its_name_and_times(ana, run):
    whole = re.search(r'href="([^"]+)" download>[^D]*Download the whole log', page(ana, run))[1]
    answer = ana.get(unescape(whole))
    lines = answer.getvalue().decode().splitlines()
    assert len(lines) == MANY
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\S+Z step 1200", lines[-1])
    assert "resnet50" in answer["Content-Disposition"]


@pytest.mark.parametrize("part", ["log-view", "log-older", "log-more"])
def test_a_part_of_the_log_is_none_of_another_tab(ana, made, part):
    headers = {"HX-Request": "true", "HX-Target": part}
    address = f"/endpoints/{made['digits'].public_id}/"
    assert "<html" in ana.get(address, headers=headers).content.decode()
    assert "<html" not in ana.get(f"{address}?tab=logs", headers=headers).content.decode()
