"""Answers that are CSV files: streamed, and without anything that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.http import StreamingHttpResponse
from rest_framework.renderers import JSONRenderer

MEDIA_TYPE = "text/csv"
FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r")


class CsvRenderer(JSONRenderer):
    """Stands for `Accept: text/csv` where a view offers both; errors are JSON there, too."""

    media_type = MEDIA_TYPE
    format = "csv"


def csv_file(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, filename: str
) -> StreamingHttpResponse:
    """The rows as a file to be saved, each sent when it is read."""
    headers = {"Content-Disposition": f'attachment; filename="{filename}"'}
    content_type = f"{MEDIA_TYPE}; charset=utf-8"
    return StreamingHttpResponse(csv_lines(columns, rows), content_type=content_type, headers=headers)


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """One line a row after the names of the columns."""
    yield ",".join(columns) + "\r\n"
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    for row in rows:
        writer.writerow([_harmless(value) for value in row])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _harmless(value: Any) -> Any:
    """A text that begins like a formula is shown as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_BEGINS) else value
