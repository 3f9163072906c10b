"""Families: what a message states by itself: two quantities, two releases, a name nearly right, a variable, a remedy.

Pure. They read the form of a sentence (what is wanted, what is there), not what it is about; that decides the remedy.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from packaging.version import InvalidVersion, Version

from gb10.core.log_words import unprefixed
from gb10.serving.doctor.advice import advice_of, own_advice
from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.error_case import Case
from gb10.serving.doctor.families_options import VARIABLE, WRITTEN
from gb10.serving.doctor.option_names import option_with

MOST: Final = 900
"""Characters of a message in which two quantities are sought."""
UNIT: Final = (
    r"(?: ?(?:[KMGT]i?B|bytes)\b| (?:tokens?|blocks?|GPUs?|devices?|workers?|ranks?|nodes?|SMs?|entries|layers?|heads?|"
    r"experts?|files?|threads?|pages?|slots?|replicas?|cores?)\b)?"
)
NUMBER: Final = r"(?<![\w.])v?\d{1,3}(?:,\d{3})+|(?<![\w.])v?\d{1,15}(?:\.\d{1,6}){0,4}(?:[a-z.+-][\w.+-]{0,20})?"
GAP: Final = r"[^\d\n;]{0,60}?"
WANTS: Final = (
    r"\b(?:expect(?:s|ed|ing)?|requir(?:es?|ed|ing)|needs?|needed|wants?|must be|should be|must have|at least|minimum|"
    r"min|built (?:with|for|against)|compiled (?:with|for|against)|saved (?:with|by)|requested|asked for)\b"
)
IS_THERE: Final = (
    r"(?:\b(?:got|found|received|only|actual(?:ly)?|current(?:ly)?|available|detected|installed|running|given|provided|"
    r"have|has|had|is|are|was|were|saw|usable|using)\b)"
)
AFTER: Final = r"(?:available|found|installed|running|given|detected|left|free|usable|present|provided|visible)"
WANTED_FIRST: Final = re.compile(
    rf"{WANTS}{GAP}(?P<need>(?:{NUMBER}){UNIT}){GAP}{IS_THERE}{GAP}(?P<have>(?:{NUMBER}){UNIT})", re.IGNORECASE
)
COUNTED: Final = re.compile(
    rf"(?P<need>(?:{NUMBER}){UNIT}) (?:required|requested|needed|wanted)\b{GAP}(?P<have>(?:{NUMBER}){UNIT}) {AFTER}\b",
    re.IGNORECASE,
)
"""Each number with its word behind it."""
NEEDED: Final = re.compile(
    rf"(?P<need>(?:{NUMBER}){UNIT})['\"`)]? (?:or (?:newer|later|higher|above|more) )?(?:is|are|was) (?:required|"
    rf"needed|"
    rf"expected|wanted){GAP}{IS_THERE}{GAP}(?P<have>(?:{NUMBER}){UNIT})",
    re.IGNORECASE,
)
THERE_FIRST: Final = re.compile(
    rf"{IS_THERE}{GAP}(?P<have>(?:{NUMBER}){UNIT}){GAP}{WANTS}{GAP}(?P<need>(?:{NUMBER}){UNIT})", re.IGNORECASE
)
LEFT: Final = re.compile(
    rf"{WANTS}{GAP}(?P<need>(?:{NUMBER}){UNIT}){GAP}(?P<have>(?:{NUMBER}){UNIT})[^\d\n;]{{0,20}}? {AFTER}\b",
    re.IGNORECASE,
)
MORE_THAN: Final = re.compile(
    rf"(?P<need>(?:{NUMBER}){UNIT})[)\]'\"`]? ?(?:exceeds?|(?:is |are |was )?(?:larger|greater|more|higher|bigger|"
    rf"longer) "
    rf"than|>(?!=)){GAP}(?P<have>(?:{NUMBER}){UNIT})",
    re.IGNORECASE,
)
LESS_THAN: Final = re.compile(
    rf"(?P<have>(?:{NUMBER}){UNIT})[)\]'\"`]? ?(?:(?:is |are |was )?(?:less|smaller|lower|fewer|shorter) than|is below|"
    rf"is under|<(?!=)){GAP}(?P<need>(?:{NUMBER}){UNIT})",
    re.IGNORECASE,
)
UNEQUAL: Final = re.compile(
    rf"(?P<need>(?:{NUMBER}){UNIT})[)\]'\"`]?{GAP}(?:(?:does|do)(?: not|n't) match|differs? from|is not equal to|!=|"
    rf"\bvs\b\.?|but (?:the |its )?[\w ]{{2,30}}? (?:has|have|is|got)|mismatch){GAP}(?P<have>(?:{NUMBER}){UNIT})",
    re.IGNORECASE,
)
MADE_BY: Final = re.compile(
    rf"(?:built|serialized|created|saved|exported|compiled|written|produced|generated)\b[^\d\n]{{0,40}}?"
    rf"(?P<need>{NUMBER})[^\d\n]{{1,60}}?\b(?:current|running|runtime|installed|loaded|this|here|"
    rf"reader)\b[^\d\n]{{0,40}}?"
    rf"(?P<have>{NUMBER})",
    re.IGNORECASE,
)
A_FILE: Final = re.compile(r"\b(?:engine|plan|cache|file|checkpoint|artifact|index|archive|state)s?\b", re.IGNORECASE)
UNITS: Final = re.compile(r"\d ?(?:(?P<scale>[KMGT]?)i?B|bytes)\b", re.IGNORECASE)
FORMS: Final = (
    (COUNTED, "need"), (WANTED_FIRST, "need"), (NEEDED, "need"), (THERE_FIRST, "need"), (LEFT, "need"),
    (MORE_THAN, "limit"), (LESS_THAN, "need"), (UNEQUAL, "unequal"),
)  # fmt: skip
KINDS: Final = (
    ("memory", r"[KMGT]i?B\b|\bbytes\b|\bmemory\b|VRAM|\bRAM\b"),
    ("driver", r"\bdriver\b"),
    (
        "release",
        r"version|release|\bABI\b|\b[A-Za-z][\w-]{1,40} ?[<>=~]=+ ?\d+\.\d|\bv\d|"
        r"(?<![\d.])\d+\.\d+\.\d+(?!\.?\d)|\bdriver\b|toolkit",
    ),
    ("capability", r"capabilit|\bsm_?\d|\barch"),
    ("tokens", r"token|context|n_ctx|seq(?:uence)?[ _]?len|prompt|position|max_(?:model_)?len|input length"),
    (
        "ranks",
        r"world[ _]?size|\branks?\b|\bGPUs?\b|\bdevices?\b|workers?\b|\bnodes?\b|replicas?\b|process(?:es)?\b|"
        r"(?:tensor|pipeline|data|expert)[ _-]parallel|\b[tped]p[ _]size",
    ),
    ("pages", r"\bpages?\b|page[ _]size|block[ _]size|\bslots?\b"),
    (
        "sizes",
        r"vocab|hidden|head|layer|expert|dim|shape|entries|channel|embedding|tensor|param|columns|rows|size of",
    ),
)
"""What two numbers count, by words around them; the first that fits."""


@dataclass(frozen=True, slots=True)
class Quantities:
    """Two numbers of a message. ``relation``: a need that is not met, a limit that is passed, or just unequal."""

    need: str
    """What is wanted, or what was asked for."""
    have: str
    """What is there, or what fits."""
    relation: str
    kind: str
    """What they count; empty where no word says so."""


def quantities_of(text: str) -> Quantities | None:
    """The two numbers that a message compares; None without such."""
    text = " ".join(text[:MOST].split())
    for form, relation in FORMS:
        for found in form.finditer(text):
            need, have = found["need"].rstrip(".,"), found["have"].rstrip(".,")
            if need == have or _agrees(need, have, relation, found[0]):
                continue
            around = text[max(0, found.start() - 60) : found.end() + 30]
            kind = next((name for name, words in KINDS if re.search(words, around, re.IGNORECASE)), "")
            return Quantities(need, have, relation, kind)
    return None


def _agrees(need: str, have: str, relation: str, said: str) -> bool:
    """Whether two numbers are no contradiction, so that the words were about something else."""
    if relation != "need" or not re.search(r"at least|minimum|\bmin\b|>=|or (?:newer|later|higher)", said):
        return False
    try:
        if UNITS.search(need) or UNITS.search(have):
            return _bytes(have) >= _bytes(need)
        return Version(_bare(have)) >= Version(_bare(need))
    except (InvalidVersion, ValueError):
        return False


def _bytes(number: str) -> float:
    """A size in bytes, of 1,024 each; raises ValueError for a number without a unit."""
    unit = UNITS.search(number)
    if unit is None:
        raise ValueError(number)
    return float(_bare(number)) * 1024.0 ** "BKMGT".index((unit["scale"] or "B").upper())


def _bare(number: str) -> str:
    return re.sub(r"[^\d.].*$", "", number.lstrip("v").replace(",", ""))


WHAT_TO_DO: Final = {
    "memory": "What is there is less than what is wanted. Free some (`free -g`, nvidia-smi: other servers, the page "
    "cache of a download), or ask for less: a smaller or more quantized model, --max-model-len, --max-num-seqs, "
    "--gpu-memory-utilization (SGLang: --mem-fraction-static; llama.cpp: -c, -np). A GB10's 128 GB are the CPU's and "
    "the GPU's together.",
    "release": "Two parts are of different releases. {install}Bring the one that reports {have} to {need}, in this "
    "very environment, or take the release of the other that was made for {have}; of a driver: on the host.",
    "driver": "The driver is of the host, and no image brings another one: there, a driver of {need} or newer (its "
    "release in `nvidia-smi`; a reboot after it; on a Spark by its system updates), or an image and packages that were "
    "made for {have}: an earlier release of the same image. CUDA 13.0 begins at driver 580; programs of a "
    "later CUDA 13 run there, too, if they bring machine code for the GPU.",
    "capability": "A GB10 is 12.1. Code that wants {need} is for another GPU: another backend or kernel.",
    "tokens": "Send less, or give the server more room: --max-model-len (SGLang: --context-length; llama.cpp: -c, "
    "which is shared by -np slots), within what the model was trained for and the cache holds.",
    "ranks": "The number of processes or GPUs is not what is wanted. One GB10 has one GPU: the sizes "
    "(--tensor-parallel-size x --pipeline-parallel-size x --data-parallel-size) are the number of nodes, and all must "
    "run. What was saved or built for {need} ranks is made anew for {have}.",
    "sizes": "Two files are of different models or of different settings: a draft and its model, an adapter or "
    "projector and its base, a tokenizer and the weights, a config.json that was copied. Take those that belong "
    "together, or start without the second one.",
    "pages": "Parts of the cache do not have pages of one size: layers of two kinds, or a model and its draft. The "
    "same --kv-cache-dtype and --attention-backend for both (auto, as the draft may not take a quantized cache), "
    "--block-size left out, or no drafts.",
    "": "Bring one to the other: the option, field or file that the message names; a file that was built or saved "
    "with one of them is made anew.",
}


def _of_frames(case: Case) -> str:
    """What the frames of a traceback advise, beside the message's own words."""
    return advice_of(case).replace(own_advice(case.text), "").strip() if case.raised.frames else ""


def _with_its_name(said: str, number: str) -> str:
    """A number with the name that stands before it in a message: ``max_batch_size = 64``."""
    named = re.search(rf"(?P<name>[A-Za-z_][\w.]*_[\w.]*) ?[=:(\[]{{1,2}} ?{re.escape(number)}", said)
    return f"{named['name']} = {number}" if named else number


OWN_BUFFER: Final = re.compile(r"workspace|buffer|arena|scratch", re.IGNORECASE)
"""Memory that the program itself laid out: more of the machine's does not help."""


def two_quantities(case: Case) -> Verdict | None:
    """A message that compares what is wanted with what is there, in numbers."""
    compared = (
        (line, two) for one in case.text.splitlines() if (two := quantities_of(line := unprefixed(one).strip()))
    )
    said, found = next(compared, None) or (case.said, quantities_of(case.text))
    own = case.raised.name == "AssertionError" and OWN_BUFFER.search(said)
    if found is None or (own and found.kind == "memory") or (found.kind in ("", "sizes", "tokens") and case.asserts):
        return None
    need, have = (_with_its_name(said, number) for number in (found.need, found.have))
    words = {
        "need": f"{need} is wanted, and {have} is there",
        "limit": f"{need} was asked for, and {have} is the most",
        "unequal": f"{need} and {have} should be the same",
    }[found.relation]
    wanted = found.need.partition(" ")[0]
    package = re.search(rf"(?P<name>[A-Za-z][\w-]{{1,40}}) ?(?:>=|==|~=) ?{re.escape(wanted)}", said)
    install = f"Install {package[0].replace(' ', '')} (for aarch64, and CUDA 13 if it has kernels). " if package else ""
    todo = WHAT_TO_DO[found.kind].format(need=wanted, have=found.have, install=install)
    rest = "" if found.kind else _of_frames(case)
    return Verdict(
        code="release-not-allowed" if found.kind in ("release", "driver") else "numbers-do-not-agree",
        meaning=f"By the message's own numbers {words}: {said[:300].rstrip('.')}.",
        action=" ".join(filter(None, (own_advice(case.text), _named(case), todo, rest))),
        evidence="the two numbers of the message, and what they count",
    )


def file_of_another_release(case: Case) -> Verdict | None:
    """A file that another release of the program wrote: it is made again, not repaired."""
    found = MADE_BY.search(case.first_line)
    if (
        found is None
        or found["need"] == found["have"]
        or "." not in found["need"]
        or not A_FILE.search(case.first_line[: found.end("need")])
    ):
        return None
    if not re.search(r"version|release|runtime", case.first_line, re.IGNORECASE) or re.search(
        r"CUDA|NumPy", case.first_line
    ):
        return None  # libraries, not files
    return Verdict(
        code="file-of-another-release",
        meaning=(
            f"The file was written by release {found['need']}, and {found['have']} reads it: "
            f"{case.said[:300].rstrip('.')}."
        ),
        action=(
            f"Build or export it again with {found['have']} (engines, plans and caches are of one release), or run the "
            f"release {found['need']} that wrote it."
        ),
        evidence="the two releases of the message",
    )


MEANT: Final = re.compile(
    r"(?:[Dd]id you mean|[Mm]aybe you meant|[Pp]erhaps you meant|[Cc]losest (?:match(?:es)?|name)(?: is| are|:)?|"
    r"a similar (?:name|argument|command|option|value|subcommand) (?:exists|is))[:, ]{0,3}(?:the |to use |to say )?"
    r"[`'\"](?P<name>[^`'\"\n]{2,80})[`'\"]"
)
OF_CODE: Final = frozenset(("AttributeError", "NameError", "TypeError", "ImportError", "ModuleNotFoundError"))
"""Where Python itself guesses: the name is one of code, and its release is at fault."""


def name_nearly_right(case: Case) -> Verdict | None:
    """A name that the program does not know, with the one that it proposes."""
    found = MEANT.search(case.text)
    if found is None or case.raised.name in OF_CODE:
        return None
    given = re.findall(r"[`'\"]([^`'\"\n]{2,80})[`'\"]", case.text[: found.start()])
    wrong = f" {given[0]}" if given else ""
    return Verdict(
        code="name-misspelled",
        meaning=f"The program does not know the name{wrong}; the nearest that it has is {found['name']}.",
        action=f"Write {found['name']}, if that was meant; else this release has no such thing: see its help.",
        evidence="the message's own proposal",
    )


UNSET: Final = re.compile(
    r"(?:environment variable|env(?:ironment)? ?var(?:iable)?|"
    r"\benv)[: ]{1,2}[`'\"$]{0,2}(?P<after>[A-Z][A-Z0-9_]{2,60})\b"
    r"|\b(?P<before>[A-Z][A-Z0-9]*_[A-Z0-9_]{1,60})[`'\"]? (?:environment variable|env(?:ironment)? ?var|(?:is|was|"
    r"are) "
    r"(?:not set|unset|not defined|undefined|empty)|not set|must be set|needs to be set)"
)
ABSENT: Final = re.compile(
    r"not set|unset|missing|not (?:found|defined|provided|specified)|undefined|required|must be set|needs? to be set|"
    r"please set|no value|empty",
    re.IGNORECASE,
)


def variable_not_given(case: Case) -> Verdict | None:
    """An environment variable that the program wants and does not have."""
    found = UNSET.search(case.text) if case.raised.type or ABSENT.search(case.text) else None
    of_python = case.raised.name == "KeyError" and any(
        "os.environ" in one.code or "environ" in one.function or one.file.rpartition("/")[2] == "os.py"
        for one in case.raised.frames
    )
    name = (found["after"] or found["before"]) if found and ABSENT.search(case.text) else ""
    name = name or (case.first_line.strip("'\"") if of_python else "")
    if not name:
        return None
    return Verdict(
        code="variable-not-given",
        meaning=f"The program wants the environment variable {name}, and this process does not have it.",
        action=" ".join(
            filter(
                None,
                (
                    own_advice(case.text),
                    f"Set {name} where the process starts: `-e {name}=…` of docker run, environment: of a compose "
                    "file, env: of a pod, Environment= of a unit; an export in another shell does not reach it. "
                    "Variables of ranks (MASTER_ADDR, RANK, WORLD_SIZE, NODE_RANK) are set by torchrun, srun or "
                    "mpirun.",
                ),
            )
        ),
        evidence="the message's own name of a variable",
    )


KIND: Final = re.compile(
    r"(?:(?P<what>[\w' .`\"/-]{2,80}?) )?(?:(?:must|should|to|has to|needs to) be (?:one of|either|in|an?|of type)|"
    r"(?:is |are )?only (?:supported|implemented|available|valid|defined|tested|allowed) (?:for|with|on|when|if)|"
    r"only (?:supports?|takes?|accepts?|allows?|works? with)|(?:expects?|expected|wants?|takes|accepts|"
    r"supports)(?: an?| one of)?)"
    r"[: ]{1,2}(?P<these>[^\n]{1,240}?)[,;.)]? {1,2}(?:but |and |\()?(?:instead )?(?:was |is |it |we |you )?"
    r"(?:got|given|received|found|gave|not(?! (?:on|for|with|in|when|if|by|from|to|as|at)\b))"
    r"[: ]{1,2}(?P<have>[\[('\"`]?[\w.:/+-]{1,80})",
    re.IGNORECASE,
)
"""A value, with the kind or the list of those that go there."""


def value_of_another_kind(case: Case) -> Verdict | None:
    """A value that is not of the kind, or not one of those, that the message says."""
    said = case.said
    found = KIND.search(said[:400])
    if found is None or case.asserts or case.raised.name in ("TypeError", "AttributeError"):
        return None
    have = found["have"].strip("[('\"`.,:")
    option = option_with(case, have) or next(iter(WRITTEN.findall(said)), "")
    where = f"It is {option}{' in this log' if have in case.scan.start.arguments else ''}. " if option else ""
    return Verdict(
        code="value-not-known",
        meaning=f"{(found['what'] or 'A value').strip()} goes with {found['these'].strip()}, and {have} was given: "
        f"{said[:300].rstrip('.')}.",
        action=" ".join(
            filter(
                None,
                (
                    own_advice(case.text),
                    f"{where}Give one of those: {found['these'].strip()}. Where it comes from a model's own files "
                    "(config.json), another model or another part of the program (a backend, a data type, a "
                    "quantization) is the way.",
                    _named(case),
                    _of_frames(case),
                ),
            )
        ),
        evidence="the message's own list, and what it got",
    )


LIMITS: Final = re.compile(
    r"(?P<ulimit>ulimit|RLIMIT_\w{2,20})|(?P<sysctl>\b(?:vm|net|kernel|fs)\.[a-z_.]{3,40})|(?P<shm>--shm-size|/dev/shm)"
)
INSTALLS: Final = re.compile(r"\b(?:re)?install(?:ed|ing)?\b|pip |apt |conda ", re.IGNORECASE)


def _named(case: Case) -> str:
    """Where to set what a message names: options with their values in this log, variables, limits of the system."""
    return " ".join(_places(case))


def _places(case: Case) -> Iterator[str]:
    text = case.text
    options = [one for one in dict.fromkeys(WRITTEN.findall(text)) if one != "--help"][:4]
    known = [f"{one} is {value}" for one in options if (value := case.scan.start.option(one[2:].replace("-", "_")))]
    if known:
        yield f"In this log {', '.join(known)}."
    variables = list(dict.fromkeys(VARIABLE.findall(text)))[:4]
    if variables:
        yield f"{', '.join(variables)}: a variable of the server's process (`-e` of docker run), not of another shell."
    limit = LIMITS.search(text)
    if limit and limit["ulimit"]:
        yield "For a container: --ulimit memlock=-1 --ulimit nofile=65536 (of a service: LimitMEMLOCK, LimitNOFILE)."
    elif limit and limit["sysctl"]:
        yield f"On the host: sudo sysctl -w {limit['sysctl'].rstrip('.')}=…, and in /etc/sysctl.d to keep it."
    elif limit:
        yield "For a container: --ipc=host, or --shm-size 16g."


def remedy_stated(case: Case) -> Verdict | None:
    """A message that nothing else knows, and that says itself what to do."""
    said = own_advice(case.text)
    if not said:
        return None
    message = case.said[:400].rstrip(".")
    install = (
        "Install it in this very environment or image, for aarch64 and CUDA 13." if INSTALLS.search(case.text) else ""
    )
    return Verdict(
        code="message-says",
        meaning=f"No rule knows it, but the message says what is wrong: {message}.",
        action=" ".join(filter(None, (said, _named(case), install, _of_frames(case)))),
        evidence="the message's own words",
    )
