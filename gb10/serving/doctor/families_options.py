"""The last family: options of the engine that a message is about, by their own names. Pure."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from gb10.serving.doctor.advice import own_advice
from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.error_case import Case
from gb10.serving.doctor.families_packages import part_of

REFUSES: Final = re.compile(
    (
        r"must (?:be|not|have)|requires?\b|needs?\b|incompatible|not (?:supported|compatible|allowed|divisible)|cannot|"
        r"can't|only (?:supports?|works)"
        r"|is disabled|is enabled|unless|greater than|less than|exceeds?|larger than|smaller than|should be|"
        r"conflict|mutually exclusive|do(?:es)?(?: not|n't)(?: yet| currently)? (?:support|work|handle|allow)|"
        r"not (?:yet |currently )?(?:supported|available|implemented|allowed|compatible)|unsupported|"
        r"\bonly (?:for|with|when|if|in|on)\b|\b[Nn]one of the\b|(?:not|n't) (?:been )?(?:yet )?(?:verified|tested)"
    ),
    re.IGNORECASE,
)
VARIABLE: Final = re.compile(r"\b(?:VLLM|SGLANG|SGL|FLASHINFER|NCCL|HF|PYTORCH|CUDA|TRITON|TORCH)_[A-Z0-9_]{3,60}\b")
FEATURES: Final = (
    (
        r"speculat\w+|spec[ -]?decod\w*|draft (?:model|token)s?|n-?gram",
        r"EAGLE\d?|MTP|DSpark|DFlash",
        "--speculative-config",
        "--speculative-algorithm",
    ),
    (r"lora adapters?", r"LoRAs?", "--enable-lora", "--enable-lora"),
    (r"pipeline[ -]parallel\w*", r"PP", "--pipeline-parallel-size", "--pp-size"),
    (r"tensor[ -]parallel\w*", r"TP", "--tensor-parallel-size", "--tp-size"),
    (r"dp[ -]attention", r"DPA", "--data-parallel-size", "--enable-dp-attention"),
    (r"data[ -]parallel\w*", r"DP", "--data-parallel-size", "--dp-size"),
    (r"expert[ -]parallel\w*", r"EP", "--enable-expert-parallel", "--ep-size"),
    (r"context[ -]parallel\w*", r"[DP]CP", "--decode-context-parallel-size", "--attn-cp-size"),
    (r"prefix[ -]cach\w+|radix[ -]cache", r"APC", "--enable-prefix-caching", "--disable-radix-cache"),
    (r"chunked[ -]prefill", r"CPF", "--enable-chunked-prefill", "--chunked-prefill-size"),
    (r"hierarchical[ -]cache", r"Hi(?:Cache|Sparse)", "--kv-transfer-config", "--enable-hierarchical-cache"),
    (r"cuda ?graphs?|graph capture", r"CUDAGraph", "--enforce-eager", "--disable-cuda-graph"),
    (r"torch\.compile", r"Inductor", "--enforce-eager", "--enable-torch-compile"),
    (
        r"async(?:hronous)?[ -]schedul\w+|overlap[ -]schedul\w+",
        r"SpecV2",
        "--no-async-scheduling",
        "--disable-overlap-schedule",
    ),
    (
        r"structured[ -]outputs?|guided[ -]decoding|grammars?",
        r"EBNF",
        "--structured-outputs-config",
        "--grammar-backend",
    ),
    (r"kv[ -](?:cache )?(?:transfer|connector)|disaggregat\w+", r"PD", "--kv-transfer-config", "--disaggregation-mode"),
    (r"sleep[ -]mode", r"CuMem", "--enable-sleep-mode", "--enable-memory-saver"),
    (r"cpu[ -]offload\w*|weight offload\w*", r"UVA", "--cpu-offload-gb", "--cpu-offload-gb"),
    (r"multi-?modal|images?|videos?|audio", r"MM", "--limit-mm-per-prompt", "--enable-multimodal"),
    (r"sliding[ -]window", r"SWA", "--disable-sliding-window", "--swa-full-tokens-ratio"),
    (r"expert load balanc\w+", r"EPLB", "--enable-eplb", "--enable-eplb"),
    (r"two[ -]batch|dual[ -]batch", r"DBO|TBO", "--enable-dbo", "--enable-two-batch-overlap"),
    (r"pooling|embeddings? models?", r"Pooling", "--runner", "--is-embedding"),
    (
        r"kv[ -]cache(?: data)?[ -]d?type|(?:fp8|int8|nvfp4|quantized) kv[ -]cache",
        r"KV8",
        "--kv-cache-dtype",
        "--kv-cache-dtype",
    ),
)
"""How messages call a feature, in words and in short, and the option of vLLM and of SGLang that is about it."""
OF_A_KERNEL: Final = re.compile(r"\.(?:cu|cuh|cpp|cc|hpp|h):\d|Check failed")
"""A check of compiled code: its words are about tensors, not about features."""
NUMBER: Final = r"\d{1,3}(?:,\d{3}){1,3}|\d{1,9}"
LIMIT: Final = re.compile(
    rf"(?P<name>[a-z]\w{{2,60}})[ =:]{{0,3}}\(?(?P<now>{NUMBER})\)? (?:exceeds?|is (?:larger|greater|more|higher) than"
    r"|must (?:not exceed|be (?:at most|less than or equal to|<=)))[^\d\n]{1,90}?"
    rf"(?<![\w.,*/+-])(?<![*/+-] )(?P<most>{NUMBER})\b(?![.,]\d| ?%| ?[*/+] ?[\w(]| ?- ?\d| times\b)"
)
"""A setting with its number, and the largest that goes here: a whole number, no part or multiple of something else."""
EXCEPTIONS: Final = frozenset(
    (
        "ValidationError",
        "ValueError",
        "AssertionError",
        "NotImplementedError",
        "RuntimeError",
        "ConfigError",
        "SystemExit",
        "",
    )
)
SETTING: Final = r"[`'\"]?(?P<{}>--[a-z][\w-]{{2,50}}|[a-z][a-z0-9]*(?:_[a-z0-9]+){{1,6}})[`'\"]?"
TO_GIVE: Final = re.compile(
    rf"{SETTING.format('first')} (?:argument |option |flag )?(?:must|should|needs? to|has to) (?:also )?be (?:provided|"
    rf"specified|given|defined|passed|set(?! to))\b|{SETTING.format('missing')} is (?:required|missing|"
    rf"not (?:set|given|provided|specified))\b|(?<!not )(?<!longer )\b(?:requires?|needs?|without|unless) "
    rf"(?:the |an? |setting |passing )?{SETTING.format('behind')}"
    rf"(?! ?(?:[=<>!]|to be|divisible|other)|[^\n]{{0,60}}?\b(?:got|but)\b)"
)
"""A setting that a message misses, by the form of its clause."""
OF_A_CONFIG: Final = re.compile(r"validation errors? for (?P<name>[A-Z]\w{2,40})Config\b")
"""The class whose fields a message is about: vLLM's options in JSON are called like it."""
COUNTED: Final = {
    "--max-num-scheduled-tokens": (
        "It is not given, but counted: --max-num-batched-tokens, less the draft tokens (num_speculative_tokens) of "
        "--max-num-seqs requests. A larger --max-num-batched-tokens, or a smaller --max-num-seqs or "
        "num_speculative_tokens in --speculative-config, makes room. "
    ),
}
"""Options that a message names though nobody gave them, and what they are counted from."""
OF_LAYERS: Final = re.compile(r"_proj$|^(?:embed_tokens|lm_head)$")
"""Names of a model's layers, which an option of LoRA has as values: a message about layers is not about LoRA."""
WRITTEN: Final = re.compile(r"(?<![\w-])--[a-z][\w-]{2,60}")


def options_in_the_message(case: Case) -> Verdict | None:
    """A combination of settings that the engine refuses: the options whose names the message has."""
    written = case.raised.name == "TypeError" and WRITTEN.search(case.text)
    if (case.raised.name not in EXCEPTIONS and not written) or not case.raised.type or not REFUSES.search(case.text):
        return None
    by_value = dict(_by_value(case))
    names = list(dict.fromkeys((*_options_in_words(case), *by_value, *_features(case), *VARIABLE.findall(case.text))))
    if not names:
        return None
    drafts = "" if any("speculative" in name for name in names) else _of_drafts(case)
    counted = next((how for name, how in COUNTED.items() if name in names and not _value(case, name)), "")
    given = [f"{name}{_value(case, name)}" for name in names[:5]]
    most = _at_most(case, names)
    wanted = _to_give(case)
    rest = [one for one in given if one.partition(" ")[0] not in wanted]
    about = f"It is about {', '.join(given)}: change or leave out one of them."
    if case.asserts and case.scan.start.arguments and not any(_value(case, name) for name in names):
        _, leave = part_of(case.raised.frames)
        about = (
            f"It is about {', '.join(given)}, which nobody set in this log: the engine counts it from the model and "
            f"from what is switched on. {leave} "
            f"{'Start once without drafts (--speculative-config). ' if case.drafts else ''}"
            "A sum that does not come out is a fault of this release."
        )
    if wanted:
        about = f"Or change or leave out one of {', '.join(rest)}." if rest else ""
    elif most and len(names) == 1:
        about = ""
    reason = next((line.strip() for line in case.text.splitlines() if REFUSES.search(line)), case.text[:300])
    others = "".join(
        f" {value} is a value of {option}, which has {', '.join(rest)}, too."
        for option, (value, rest) in by_value.items()
    )
    variables = [name for name in names if not name.startswith("--")]
    leave = f" Leave {', '.join(variables)} out (unset), or set what the message asks for." if variables else ""
    return Verdict(
        code="settings-do-not-agree",
        meaning=f"{case.here('The engine')} refuses a combination of settings: {reason[:400]}",
        action=_joined(
            own_advice(case.text),
            f"{counted}{most}{wanted}{about}{others}{leave} Options that are left "
            f"out are chosen to fit.{drafts} A newer release may have lifted it.",
        ),
        evidence="the engine's own check; its options by recipes/flags",
    )


def _at_most(case: Case, names: Sequence[str]) -> str:
    """What to set, where the message has an option's number and the largest that goes here."""
    limit = LIMIT.search(case.text)
    option = f"--{limit['name'].replace('_', '-')}" if limit else ""
    if limit is None or option not in names:
        return ""
    now, most = (int(limit[part].replace(",", "")) for part in ("now", "most"))
    if not 0 < most < now:
        return ""
    return (
        f"Set {option} to {most} or less (now {now}, given or by default), or give what it is counted against more "
        "room (memory for the cache: --gpu-memory-utilization; a shorter --max-model-len). "
    )


def _to_give(case: Case) -> str:
    """What to add, where the message says which setting is missing and the server's arguments have no value of it."""
    found = TO_GIVE.search(case.text)
    name = (found["first"] or found["missing"] or found["behind"]).lstrip("-") if found else ""
    option, field = f"--{name.replace('_', '-')}", name.replace("-", "_")
    if not name or _value(case, option):
        return ""
    if option in case.options:
        return f"{option} is what is missing: set it. "
    of = OF_A_CONFIG.search(case.text)
    config = f"--{re.sub(r'(?<!^)(?=[A-Z])', '-', of['name']).lower()}-config" if of else ""
    if config not in case.options:
        return ""
    return f"{field} is what is missing: a field of {config} '{{…, \"{field}\": …}}', beside those that are there. "


def _of_drafts(case: Case) -> str:
    """A sentence where the check was made for the draft model, whose own limits are not those of the model."""
    made = any(re.search(r"speculat|spec_decode|draft|eagle", one.path) for one in case.raised.frames[-4:])
    option = "--speculative-algorithm" if case.engine == "sglang" else "--speculative-config"
    return f" The check was made for the draft model: without {option} the model itself may pass it." if made else ""


def _options_in_words(case: Case) -> Iterator[str]:
    """Options whose words stand in the message in their order: ``tensor parallel size``, ``tensor_parallel_size``."""
    text = " ".join(re.findall(r"[a-z0-9]+", case.text.lower()))
    for option, words in _options(tuple(sorted(case.options))):
        if f" {words} " in f" {text} ":
            yield option


def _by_value(case: Case) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """The options of which the message names a value, with that value and the others that they take."""
    lora = re.search(r"lora", case.text, re.IGNORECASE)
    for word in dict.fromkeys(re.findall(r"(?<![\w.-])[a-z]\w{5,40}(?![\w=(])", case.first_line)):
        if OF_LAYERS.search(word) and not lora:
            continue
        for option in sorted(case.choices.get(word, ())):
            rest = sorted(one for one, options in case.choices.items() if option in options and one != word)
            yield option, (word, rest[:6])


def _features(case: Case) -> Iterator[str]:
    """The options behind the features that the message calls by their names."""
    compiled = any(one.file.endswith(("torch/_ops.py", ".pxi")) for one in case.raised.frames[-2:])
    if compiled or OF_A_KERNEL.search(case.text):
        return
    sglang = case.engine == "sglang"
    for words, short, of_vllm, of_sglang in FEATURES:
        option = of_sglang if sglang else of_vllm
        if option in case.options and re.search(rf"\b(?:(?i:{words})|{short})\b", case.text):
            yield option


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


@cache
def _options(options: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Options with their words, those of most words first; without enable, disable and such."""
    found = {}
    for option in options:
        words = option.strip("-").split("-")
        bare = words[1:] if words[0] in ("enable", "disable", "no", "use") else words
        if len(bare) >= 2:
            found[option] = " ".join(bare)
    return tuple(sorted(found.items(), key=lambda one: (-len(one[1]), one[0])))


def _value(case: Case, option: str) -> str:
    value = case.scan.start.option(option.lstrip("-").replace("-", "_")) if option.startswith("--") else None
    return f" (now {value[:60]})" if value else ""
