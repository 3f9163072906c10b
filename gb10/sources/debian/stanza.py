"""Debian's control format (deb822): stanzas of ``Field: value`` lines, continued by indented lines. Pure."""

from collections.abc import Iterator, Mapping


def parse(text: str) -> Iterator[dict[str, str]]:
    """Each stanza of a text as a dict; continuation lines keep their newline and indent, comments are dropped."""
    fields: dict[str, str] = {}
    last = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield fields
            fields = {}
        elif line[0] in " \t":
            fields[last] += f"\n{line}"
        else:
            last, _, value = line.partition(":")
            fields[last] = value.strip()


def render(fields: Mapping[str, str]) -> str:
    """One stanza as text, without the blank line that ends it; a value that starts with a newline stands below."""
    return "".join(f"{name}:{'' if value.startswith(chr(10)) else ' '}{value}\n" for name, value in fields.items())
