"""What people give instead of a diff: an empty file, the web page of a pull request, other text. Pure."""

import re
from typing import Final

from gb10.errors import PatchError

START: Final = re.compile(rb"(?m)^(diff --git |--- )")
PAGE: Final = re.compile(rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
HEAD: Final = 1 << 14
"""Bytes in which a page shows that it is one."""
REQUEST: Final = re.compile(r"(https?://[^?#\s]+?/(?:pull|merge_requests|commit)/[0-9a-f]+)(?:[/?#].*)?")
EMPTY: Final = "get it again; a pull request's diff is at its address with .diff at the end"


def check_diff(text: bytes, name: str, url: str = "") -> None:
    """Raise PatchError for what is no diff at all; ``url``: where it came from, if from the web."""
    if not text.strip():
        raise PatchError(f"{name} is empty", where=url or None, hint=EMPTY)
    if PAGE.match(text[:HEAD]):
        found = REQUEST.fullmatch(url)
        hint = f"give the diff itself: --patch {found[1]}.diff" if found else EMPTY
        raise PatchError(f"{name} is a web page, not a diff", where=url or None, hint=hint)
    if not START.search(text):
        raise PatchError(
            f"{name} is not a diff: no line of it begins with `diff --git` or `---`", where=url or None, hint=EMPTY
        )
