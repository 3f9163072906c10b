"""The files of a result: JSON, one HTML page, the table for a forum."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gb10 import __version__
from gb10.errors import UsageError
from gb10.serving.trial.result_page import Page, html, markdown

RESULT: Final = "result.json"
PAGE: Final = "page.html"
TABLE: Final = "table.md"
MADE: Final = f"measured by gb10 {__version__}"


def write_results(folder: Path, document: Mapping[str, object], page: Page) -> None:
    """Write them; raises UsageError."""
    texts = {RESULT: json.dumps(document, indent=1) + "\n", PAGE: html(page), TABLE: markdown(page)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}", where=error.strerror, hint="--out DIR names another folder"
        ) from error
