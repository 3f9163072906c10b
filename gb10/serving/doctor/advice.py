"""What to try about an error that no family knows: whose code it is, what it says itself, what to leave out. Pure."""

import re
from typing import Final

from gb10.serving.doctor.error_case import ENGINES, Case, distribution_of
from gb10.serving.doctor.families_packages import DRAFTS, part_of
from gb10.serving.doctor.option_names import option_of_this_part, options_named

BASE: Final = frozenset(
    ("", "torch", "triton", "pydantic", "pydantic_core", "asyncio", "concurrent", "uvloop", "numpy")
)
"""Packages, and files of none, that raise what others asked for: who asked says more."""
OF_PYTHON: Final = frozenset(
    (
        *("NameError", "UnboundLocalError", "TypeError", "AttributeError", "IndexError", "ZeroDivisionError"),
        *("RecursionError", "SyntaxError", "IndentationError", "KeyError", "UnicodeDecodeError", "OverflowError"),
    )
)
"""What Python raises by itself when code has a fault, or is given what it did not count on."""
OF_DRAFTS: Final = re.compile(r"spec_(?:decod|util|token)|speculat|draft|eagle|\bmtp\b|nextn", re.IGNORECASE)
STATE: Final = re.compile(
    r"^assert (?P<what>[\w.]{2,80}(?:\(\))?) is not None\b|^assert hasattr\((?P<of>[\w., '\"]{2,80})\)"
)
"""A check of what an earlier step of the same program must have made."""
CHECKS: Final = ("raise", "assert", "return ", "self._op(")

VERBS: Final = (
    *("use", "set", "build with", "install", "run", "pass", "specify", "add", "enable", "disable", "upgrade"),
    *("downgrade", "increase", "decrease", "reduce", "remove", "switch to", "choose", "select", "provide", "ensure"),
    *("make sure", "rebuild", "reinstall", "uninstall", "unset", "check", "verify", "lower", "raise", "change"),
    *("restart", "export", "replace", "re-?run", "download"),
    *("update", "configure", "try"),
    *("start", "stop", "mount", "copy", "allow", "point", "turn o(?:n|ff)", "free", "append", "convert", "regenerate"),
)
GERUNDS: Final = (
    *("using", "setting", "running", "installing", "passing", "adding", "enabling", "disabling", "upgrading"),
    *("increasing", "decreasing", "reducing", "removing", "raising", "lowering", "replacing", "restarting"),
    *("changing", "switching to", "rebuilding", "choosing"),
)
"""Verbs that say what to do behind a word of advice alone: by itself ``Using mode X`` says what a program does."""
BEFORE: Final = (
    r"(?:(?:you(?:'ll| will)? (?:can|may|should|must|need to|have to|could|might want to)|please|try(?: to)?|consider|"
    r"either|instead,?|or|(?:we|it is) recommend(?:ed)?(?: to)?|be sure to|(?:hint|help|tip|fix|solution|workaround):|"
    r"to (?:fix|disable|enable|use|avoid|override|bypass)[^,.\n]{2,60},) )"
)
IMPERATIVE: Final = re.compile(
    rf"(?:^|(?<=[.;:!?] )|(?<=\n)|(?<=, ))(?P<advice>(?:{BEFORE}?(?:{'|'.join(VERBS)})|{BEFORE}"
    rf"(?:{'|'.join(GERUNDS)}))\b[^\n]{{4,220}}?)"
    r"(?=\.(?:\s|$)|\n|$|;)",
    re.IGNORECASE,
)
"""A clause that begins with what to do."""
PASSIVE: Final = re.compile(
    r"(?:^|(?<=[.;:!?,] )|(?<=\n))(?P<advice>[^.;\n]{3,120}? (?:can|should|must|needs? to|has to|may|could) be "
    r"(?:set|enabled|disabled|installed|increased|decreased|reduced|raised|lowered|changed|passed|removed|updated|"
    r"upgraded|replaced|fixed|avoided|resolved|turned o(?:n|ff))\b[^\n]{0,160}?|[Dd]id you (?:forget|mean|install|run|"
    r"set)\b[^\n?]{2,160}\?|(?:hint|help|tip|suggestion): ?[^\n]{4,200}?)(?=\.(?:\s|$)|\n|$|;|(?<=\?))",
    re.IGNORECASE,
)
"""What to do in the passive, as a question, or behind its name: ``hint: …``."""


STATES: Final = re.compile(
    r"(?!ensure|make sure|check|verify)(?:(?!if|when|so|that|which|where|as|until|and|or)\S{1,80} ){1,14}?"
    r"(?:is|are|was|were|has|have|failed|exceed(?:s|ed)?)\b",
    re.IGNORECASE,
)
"""A clause whose first word only looks like what to do: ``Free memory on device … is less than …``."""
BEGINS: Final = "The message itself says:"


def own_advice(text: str) -> str:
    """What a message itself says to do, in its own words; empty where it says nothing."""
    own = sorted((*IMPERATIVE.finditer(text[:2000]), *PASSIVE.finditer(text[:2000])), key=lambda one: one.start())
    found = [advice for one in own if not STATES.match(advice := one["advice"].strip())]
    return f"{BEGINS} {'; '.join(dict.fromkeys(found[:2]))}." if found else ""


def advice_of(case: Case) -> str:
    """What there is to say and to try; empty where neither frames nor the message say anything."""
    raised = case.raised
    own = next((one for one in reversed(raised.frames) if one.package not in BASE), None)
    said = own_advice(raised.message)
    if own is None:
        file = raised.place.partition(":")[0]
        feature, leave = part_of((), file)
        return _joined(f"{file} tells it, of the part for {feature}. {leave}" if feature else "", said)
    feature, leave = part_of(raised.frames)
    drafts = DRAFTS[1] if DRAFTS[1] != leave and _names_drafts(case) else ""
    part = f", in its part for {feature}" if feature else ""
    own_option = option_of_this_part(case)
    set_here = f"This part has its name from an option of this log: {own_option}." if own_option else ""
    named = options_named(case, case.first_line)
    if named and named not in own_option:
        set_here = f"{set_here} The message speaks of an option of this log: try {named}.".strip()
    captures = "It was raised while CUDA graphs were captured: --enforce-eager (SGLang: --disable-cuda-graph) starts "
    captures = f"{captures}without them, and answers slower." if case.captures else ""
    code = raised.frames[-1].code
    line = f" The line that stops: {code}" if code and not code.startswith("raise") else ""
    fault = (
        " That is no check of a setting: the code itself fails there, so it is a fault of this release with this model "
        "and these options, or a file was mounted or patched over its own."
        if raised.name in OF_PYTHON and code and not code.startswith(CHECKS)
        else ""
    )
    unmade = STATE.match(code) if raised.name == "AssertionError" and not raised.message else None
    if unmade:
        fault = (
            f" An earlier step of {own.package} should have made {unmade['what'] or unmade['of']}, and did not: no "
            "option is wrong by itself, this release does not go through that step with these together. The likely "
            "ones are parallel ranks (data or expert parallel), drafts, and a backend that was chosen: leave out one "
            "at a time."
        )
    return _joined(
        f"It comes from {own.package}'s own code ({own.path}){part}.{line}{fault}",
        said,
        set_here,
        captures,
        leave,
        drafts,
        _releases(case, own.package),
    )


def _joined(*parts: str) -> str:
    return re.sub(" {2,}", " ", " ".join(filter(None, parts)))


def _names_drafts(case: Case) -> bool:
    """Whether the error is of drafts, or may be of them because they are on, though its file is of another part."""
    if case.drafts:
        return True
    frames = " ".join(f"{one.function} {one.code}" for one in case.raised.frames[-4:])
    return OF_DRAFTS.search(f"{frames} {case.text[:400]}") is not None


def _releases(case: Case, package: str) -> str:
    """Which releases to try: of the package, and of the engine that called it."""
    engine = next((one.package for one in reversed(case.raised.frames) if one.package in ENGINES), "")
    if engine and package not in ENGINES:
        distribution = distribution_of(package)
        return (
            f"{ENGINES[engine]} called it: an engine and {package} of different times do not fit, and a newer "
            f"{package} than the engine knows is as wrong as an older one. "
            f"{case.fitting(distribution) or f'Install the {distribution} that the engine requires.'}"
        )
    newer = case.newer
    which = f" ({newer.version} is the next one)" if newer and package == case.engine else ""
    return (
        f"A newer release of {package}{which} is the other thing to try, the one before where it worked, or the "
        "release that this model or recipe names."
    )
