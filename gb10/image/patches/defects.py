"""The page of defects: every patch's record, and advice that does not hold, as Markdown. Pure."""

from collections.abc import Iterable, Sequence

from gb10.core.fields import Model, Sentence
from gb10.image.patches.series import Patch

HEAD = """# Defects of the field, and what is done about them

Made from `patches/` (`make check` fails when it is stale). Which release has which defect, now and for a release
nobody listed: `./build.py patches status`. How each is shown without a GB10 stands beside it. On a GB10:
[`moe-default-tiles`](claims.md#kernels), [`attention-choice`](claims.md#kernels),
[`b12x-kernels`](claims.md#kernels), [`readers-park`](claims.md#kernels).
"""


class Advice(Model):
    """Something widely repeated that does not hold."""

    claim: Sentence
    truth: Sentence
    measured: Sentence


class AdviceList(Model):
    """All of it."""

    advice: tuple[Advice, ...]


def page(patches: Iterable[Patch], advice: Sequence[Advice]) -> str:
    """docs/defects.md."""
    parts = [HEAD]
    by_source: dict[str, dict[str, list[Patch]]] = {}
    for patch in patches:
        by_source.setdefault(patch.source, {}).setdefault(patch.id, []).append(patch)
    for source, ids in by_source.items():
        parts.append(f"\n## {source}\n")
        parts += [_section(variants) for variants in ids.values()]
    parts.append("\n## Widely repeated, and not so\n")
    parts += [f"\n**{_line(one.claim)}** {_line(one.truth)} Measured: {_line(one.measured)}\n" for one in advice]
    return "".join(parts)


def _section(variants: Sequence[Patch]) -> str:
    record = variants[0].record
    ranges = "; ".join(f"`{patch.header.get('X-Applies-To')}`" for patch in variants)
    upstream = f"; upstream: <{record.upstream}>" if record.upstream else ""
    since = f"since {record.since}" if record.since else "since before the releases looked at"
    until = f"until {record.until}" if record.until else "in every release so far"
    left = "".join(f" Left so on `{releases}`: {_line(why)}" for releases, why in record.left.items())
    return f"""
### {variants[0].id}

{_line(record.defect)} {_line(record.fix)}

Applies to {ranges} ({since}, {until}{upstream}).{left} Shown: {_line(record.proven)}
"""


def _line(text: str) -> str:
    return " ".join(text.split())
