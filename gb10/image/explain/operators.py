"""The operators that a compiled module registers: their schemas are text in its bytes. Pure."""

import re
from typing import Final

SCHEMA: Final = re.compile(rb"\x00([A-Za-z_]\w{0,99}(?:\.\w{1,40})?\([^\x00]{0,3000}?\)\s*->\s*[^\x00]{1,200})(?=\x00)")
"""``name(arguments) -> results`` between two zero bytes; the second may be the first of the next text."""
CPP: Final = (b"std", b"::")
"""Parts of a C++ name, which no schema has."""


def schemas(module: bytes) -> tuple[str, ...]:
    """Every operator's schema, in order of its text."""
    found = {text for text in SCHEMA.findall(module) if not any(word in text for word in CPP)}
    return tuple(sorted(text.decode("ascii", "replace") for text in found))
