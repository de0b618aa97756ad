"""What the components of `templates/cotton` write for the pages that use them."""

from __future__ import annotations

import re

import pytest
from django import forms
from django.conf import settings
from django.http import HttpResponse
from django.template import Context, Template
from django_cotton.compiler_regex import CottonCompiler

from tests.tables import each_row
from tests.web.test_escaping import PAYLOADS, harm_in

ROW = '<c-field id="id_size" name="size" label="Size" :help="help" :error="error" :value="value" maxlength="9" />'
LINK = r'<a class="button" href="([^"]+)"'


def drawn(source: str, **context) -> str:
    """The HTML of a piece of a page, its white space made single spaces."""
    return " ".join(Template(CottonCompiler().process(source)).render(Context(context)).split())


def described_by(html: str) -> list[str]:
    return re.search(r'aria-describedby="([^"]*)"', html)[1].split(" ")


@pytest.mark.parametrize(
    ("said", "ids"),
    [
        ({"help": "Such as 4Gi."}, ["id_size_helptext"]),
        ({"error": "Too large."}, ["id_size_error"]),
        ({"help": "Such as 4Gi.", "error": "Too large."}, ["id_size_helptext", "id_size_error"]),
    ],
)
def test_a_control_names_the_help_and_the_error_of_its_row(said, ids):
    html = drawn(ROW, **said)
    assert described_by(html) == ids
    assert [f'id="{each}">{text}</p>' in html for each, text in zip(ids, said.values(), strict=True)] == [
        True for _ in ids
    ]


def test_a_row_that_is_wrong_says_so_and_has_the_focus():
    right, wrong = drawn(ROW, value="4Gi"), drawn(ROW, value="4Gi", error="Too large.")
    for mark in ("field-invalid", "aria-invalid", "autofocus", "aria-describedby"):
        assert (mark in right, mark in wrong) == (False, True)
    assert (
        '<label for="id_size">Size</label> <input id="id_size" name="size" value="4Gi" maxlength="9"' in right
    )


@pytest.mark.parametrize("given", [None, ""])
def test_a_row_without_a_value_shows_none(given):
    assert 'value=""' in drawn(ROW, value=given)
    assert 'value="0"' in drawn(ROW, value=0)


@each_row("payload", PAYLOADS)
@each_row("control", ["input", "textarea", "select"])
def test_what_people_typed_is_escaped_in_a_row(control, payload):
    html = drawn(
        f'<c-field control="{control}" id="id_x" name="x" label="X" :value="value" :error="value" :help="value" '
        'placeholder="{{ value }}"><c-slot name="label">{{ value }}</c-slot>{{ value }}</c-field>',
        value=payload,
    )
    assert harm_in(HttpResponse(html)) == []


def test_a_list_to_choose_from_and_a_text_keep_what_they_hold():
    chosen = '<option value="a" selected>A</option>'
    assert f'<select id="id_x" name="x" > {chosen}</select>' in drawn(
        f'<c-field control="select" id="id_x" name="x" label="X">{chosen}</c-field>'
    )
    text = Template(
        CottonCompiler().process('<c-field control="textarea" id="id_x" name="x" :value="value" />')
    )
    # A text area's first line break is not part of its text: the second is.
    assert ">\n\n  two</textarea>" in text.render(Context({"value": "\n  two"}))


def test_a_bound_field_keeps_its_own_label_help_and_error():
    class SizeForm(forms.Form):
        size = forms.CharField(help_text="Such as 4Gi.", max_length=3)
        kinds = forms.MultipleChoiceField(choices=[("a", "A")], widget=forms.CheckboxSelectMultiple)
        sure = forms.BooleanField()

    html = drawn(
        '<c-field :field="form.size" width="w-6" /><c-field :field="form.kinds" /><c-field :field="form.sure" />',
        form=SizeForm({"size": "4000Gi"}),
    )
    assert html.count('class="field field-invalid') == 3
    assert '<div class="field field-invalid w-6"> <label for="id_size">Size</label> <input' in html
    assert described_by(html) == ["id_size_helptext", "id_size_error"]
    assert '<fieldset aria-describedby="id_kinds_error"> <legend>Kinds</legend>' in html
    assert re.search(
        r'<label class="check" for="id_sure"><input type="checkbox"[^>]*><span>Sure</span>', html
    )


def test_a_pager_leads_to_the_pages_that_there_are():
    pager = '<c-pager :previous="newer" :next="older" />'
    both = drawn(pager, newer="?cursor=a&page=1", older="?cursor=b")
    assert re.findall(LINK, both) == ["?cursor=a&amp;page=1", "?cursor=b"]
    assert re.findall(LINK, drawn(pager, newer=None, older="?cursor=b")) == ["?cursor=b"]
    assert "nav" not in drawn(pager, newer=None, older="")


def test_an_empty_state_says_why_and_what_to_do_next():
    html = drawn(
        '<c-empty-state card icon="runs" title="No runs yet">Nobody began.<c-slot name="action"><a>Begin</a></c-slot>'
        "</c-empty-state>"
    )
    assert re.fullmatch(
        r'(<[^>]*>)? ?<div class="card empty"> <svg.*</svg> <h2>No runs yet</h2> <p>Nobody began.</p> <a>Begin</a> </div>',
        html,
    )
    assert drawn("<c-empty-state>Nothing.</c-empty-state>") == '<div class="empty"> <p>Nothing.</p> </div>'


def test_a_table_has_a_head_and_a_foot_only_where_it_has_one():
    html = drawn(
        '<c-table class="mini"><c-slot name="head"><th scope="col">X</th></c-slot><tr><td>1</td></tr></c-table>'
    )
    assert html == (
        '<table class="mini"> <thead><tr><th scope="col">X</th></tr></thead> <tbody><tr><td>1</td></tr></tbody> </table>'
    )
    foot = drawn('<c-table><c-slot name="foot"><tr></tr></c-slot></c-table>', caption="of the page")
    assert '<table class="table">' in foot
    assert "<tfoot><tr></tr></tfoot>" in foot
    assert "caption" not in foot, "what a component is not given is none of what the page has by that name"


def test_no_style_of_a_page_asks_whether_scripts_run():
    """If one did, a page whose scripts do not load would look unlike one in a browser without JavaScript; the sweeps take the
    one for the other (`tests/web/sweeping.py`)."""
    styles = (settings.BASE_DIR / "static" / "portal").glob("*.css")
    assert [each.name for each in styles if "(scripting" in each.read_text(encoding="utf-8")] == ["admin.css"]
