"""The page about an image: one HTML file without a script, a font or a picture from elsewhere. Pure."""

from collections.abc import Mapping
from typing import Final

from jinja2 import DictLoader, Environment, StrictUndefined

from gb10.image.build.build_log import Build
from gb10.image.inspect.report_values import against, bars, columns, heat, life, tiles
from gb10.image.inspect.summary import Portrait
from gb10.image.proof.arch_match import MEANING

TEMPLATE: Final = "report.html.j2"


def page(
    one: Portrait, templates: Mapping[str, str], *, built: Build | None = None, before: Build | None = None
) -> str:
    """The page: with the build that made the image, and the one before, if they are kept."""
    judged = one.verdict.judged if one.verdict else ()
    names = columns(judged, one.verdict.arch.capability) if one.verdict else []
    jinja = Environment(
        loader=DictLoader({TEMPLATE: templates[TEMPLATE]}),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"mb": megabytes, "time": duration}
    jinja.tests["linked"] = linked
    return jinja.get_template(TEMPLATE).render(
        one=one,
        plan=one.plan,
        tiles=tiles(one, one.groups),
        columns=names,
        heat=heat(judged, names),
        fits=[(fit, count, MEANING[fit]) for fit, count in one.verdict.counts.items() if count] if one.verdict else [],
        built=built,
        bars=bars(built) if built else (),
        before=before,
        against=against(one, before) if before else (),
        life=life,
        rules=sorted(one.plan.slim, key=lambda rule: -rule.mb) if one.plan else [],
    )


def linked(address: str) -> bool:
    """Whether the page makes a link of what a patch names as its upstream: never of a ``javascript:``."""
    return address.startswith("https://")


def megabytes(size: float) -> str:
    """``1,068.7 MB``, ``7.23 GB``."""
    return f"{size / 1e9:.2f} GB" if abs(size) >= 2e9 else f"{size / 1e6:,.1f} MB"


def duration(seconds: float) -> str:
    """``12.3 s``, ``9 min 6 s``, ``1 h 2 min``."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
