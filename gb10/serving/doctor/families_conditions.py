"""Families: conditions that a program states itself: in an assertion's line, of a field, of a thing that must be there.

Pure. The condition decides, not the words around it.
"""

import re
from collections.abc import Iterator
from typing import Final

from gb10.serving.doctor.advice import own_advice
from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.error_case import Case
from gb10.serving.doctor.families_packages import part_of

ASSERTED: Final = re.compile(r"^(?:assert|if) (?P<condition>[^\n]{2,180}?)(?:, ?(?:\(|f?['\"]).*|,|, ?\($|:$)?$")
NAMED: Final = re.compile(
    r"(?<![\w.'\"])(?P<path>(?:[A-Za-z_]\w{0,60}(?:\(\))?\.){0,5})(?P<name>[A-Za-z_]\w{1,60})\b(?!\()"
)
SETTINGS: Final = re.compile(r"args|config|cfg|settings", re.IGNORECASE)
"""Whose attributes are options, though their name is one word (``dtype``, ``device``): a tensor has such, too."""
RANKS: Final = {
    "tp_size": "--tensor-parallel-size",
    "attn_tp_size": "--tensor-parallel-size",
    "moe_tp_size": "--tensor-parallel-size",
    "tensor_parallel_world_size": "--tensor-parallel-size",
    "tensor_model_parallel_world_size": "--tensor-parallel-size",
    "tp_world_size": "--tensor-parallel-size",
    "ep_size": "--expert-parallel-size",
    "pp_size": "--pipeline-parallel-size",
    "dp_size": "--data-parallel-size",
}
"""Numbers of ranks as engines call them inside, and the options that say how many."""
DIVIDES: Final = re.compile(r"(?P<whole>[\w.()]{2,80}) ?% ?(?P<by>[\w.()]{2,80}) ?== ?0")
EQUALS: Final = re.compile(
    r"(?P<name>\w{2,60})(?:\(\))? ?(?:==|is) ?(?P<value>None|True|False|-?\d{1,9}|['\"][\w.-]{1,40}['\"])$"
)
IS_SET: Final = re.compile(r"(?P<name>\w{2,60}) is not None$")
IS_OFF: Final = re.compile(r"^not (?:[\w.]{1,80}\.)?(?P<name>\w{2,60})$")
COMPARES: Final = re.compile(r"(?P<left>\w{2,60}) ?(?P<sign><=|>=|<|>) ?(?P<right>[\w.]{1,60})$")


def condition_of_an_assertion(case: Case) -> Verdict | None:
    """A check whose line in the traceback names an option, or a number of ranks: what it must be is what to set."""
    frames = case.raised.frames
    found = ASSERTED.match(frames[-1].code) if frames and case.raised.name == "AssertionError" else None
    if found is None or not frames[-1].code.startswith("assert"):
        return None
    condition = found["condition"].strip(" (")
    ranks = _ranks(condition)
    options = list(_options(case, condition))
    if ranks is None and not options:
        return None
    last = frames[-1]
    said = f" It says: {case.first_line[:240]}" if case.first_line else ""
    feature, leave = part_of(frames)
    if ranks is not None:
        whole, option = ranks
        todo = (
            f"Choose a number of ranks that {whole} can be divided by: {option} 1 on one GB10, else 2, 4 or 8"
            f"{_now(case, option)}. Where the model does not allow it, pipeline stages (--pipeline-parallel-size) "
            "split it otherwise."
        )
    else:
        todo = " ".join(filter(None, (_what_to_set(case, condition, options), leave)))
    return Verdict(
        code="settings-do-not-agree",
        meaning=(
            f"{last.path} stops at a check of its own{f', of the part for {feature}' if feature else ''}: "
            f"`{condition}` does not hold here.{said}"
        ),
        action=f"{todo} A newer release may have lifted it.",
        evidence="the condition in the traceback's last line; sglang#9330, sglang PR#20538",
    )


def _ranks(condition: str) -> tuple[str, str] | None:
    """What must be divisible by which number of ranks."""
    found = DIVIDES.search(condition)
    for one in (found["by"], found["whole"]) if found else ():
        bare = one.rpartition(".")[2].removesuffix("()").removeprefix("get_")
        if bare in RANKS and found is not None:
            whole = found["whole"] if one == found["by"] else found["by"]
            return whole.rpartition(".")[2].removesuffix("()"), RANKS[bare]
    return None


def _options(case: Case, condition: str) -> Iterator[tuple[str, str]]:
    """The options that a condition names, with the name that it uses."""
    for found in NAMED.finditer(condition):
        option = f"--{found['name'].replace('_', '-')}"
        of_settings = "_" in found["name"] or SETTINGS.search(found["path"]) is not None
        if of_settings and (option in case.options or case.scan.start.option(found["name"]) is not None):
            yield option, found["name"]


def _now(case: Case, option: str) -> str:
    value = case.scan.start.option(option.lstrip("-").replace("-", "_"))
    return f" (now {value[:60]})" if value else ""


def _without(case: Case, option: str) -> str:
    """How an option is switched off: what is on by default is on without the option, too."""
    switch = option.startswith("--enable-") or case.scan.start.option(option.lstrip("-").replace("-", "_")) == "True"
    off = option.replace("--enable-", "--disable-", 1)
    if off != option and off in case.options and case.engine != "vllm":
        return f"with {off}"
    return f"with --no-{option.removeprefix('--')}" if switch and case.engine == "vllm" else f"without {option}"


def _what_to_set(case: Case, condition: str, options: list[tuple[str, str]]) -> str:
    """What a condition asks of the options that it names."""
    names = {name: option for option, name in options}
    equals, is_set, is_off, compares = (pattern.search(condition) for pattern in (EQUALS, IS_SET, IS_OFF, COMPARES))
    if is_set and (option := names.get(is_set["name"])):
        return f"Give {option} a value: nothing sets it here."
    off = is_off or (equals if equals and equals["value"] in ("None", "False") else None)
    if off and (option := names.get(off["name"])):
        return f"Start {_without(case, option)}{_now(case, option)}: this part does not go with it."
    if equals and (option := names.get(equals["name"])):
        value = "" if equals["value"] == "True" else f" {equals['value'].strip(chr(39) + chr(34))}"
        return f"Set {option}{value}{_now(case, option)}, or leave it out so that the engine chooses."
    if compares and (option := names.get(compares["left"])):
        side = {"<=": "at most", "<": "below", ">=": "at least", ">": "above"}[compares["sign"]]
        return f"{option} must be {side} {compares['right']}{_now(case, option)}."
    given = ", ".join(f"{option}{_now(case, option)}" for option, _ in options[:4])
    return f"It is about {given}: change or leave out one of them."


FIELD: Final = re.compile(
    r"(?:(?:^|\n)[ \t]{0,8}(?P<loc>[A-Za-z_][\w.\[\]-]{0,120}))?(?:^|\n)[ \t]{0,8}"
    r"(?P<said>(?:Input should|Field required|Extra inputs|Unexpected keyword|Missing required|Unable to|String should|"
    r"List should|Dictionary should|Tuple should|Value should|URL |Invalid JSON)[^\[\n]{0,300})"
    r"\[type=(?P<type>\w{2,60}), input_value=(?P<value>.{0,300}?), input_type=(?P<kind>\w{1,60})\]"
)
OF_CONFIG: Final = re.compile(r"validation errors? for (?P<model>\w{2,80})")
ARGUMENT: Final = re.compile(r"argument (?P<option>--?[\w-]{1,60})")
OBJECTS: Final = ("dataclass", "dict", "model", "mapping")
"""Kinds of a pydantic field that want an object."""


def field_not_valid(case: Case) -> Verdict | None:
    """A field of a settings class that got a value of another kind, one that is missing, or one that it has not."""
    found = FIELD.search(case.text)
    if found is None:
        return None
    of = OF_CONFIG.search(f"{case.raised.text} {case.text}")
    model = of["model"] if of else "the settings"
    given = ARGUMENT.search(case.text)
    of_class = "--" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", model).lower()  # CompilationConfig: --compilation-config
    option = (
        given["option"]
        if given
        else next((one for one in (of_class, f"--{(found['loc'] or '').replace('_', '-')}") if one in case.options), "")
    )
    field = f"{found['loc']} of {model}" if found["loc"] else model
    kind, value = found["type"], found["value"][:120]
    if kind in ("missing", "missing_argument"):
        todo = f"Give {found['loc'] or 'the field'} a value{f' in {option}' if option else ''}."
    elif kind in ("extra_forbidden", "unexpected_keyword_argument"):
        todo = (
            f"Leave {found['loc'] or 'it'} out: {case.here('this release')} has no such field; another release may "
            "call it otherwise."
        )
    elif kind.startswith(OBJECTS):
        is_level = option == "--compilation-config" and value.isdigit()
        short = f" -O{value} is the short form of a level." if is_level else ""
        todo = (
            f"{option or field} takes a JSON object: '{{\"name\": value}}' in single quotes, no bare {found['kind']}."
            f"{short} Older releases took the bare value."
        )
    else:
        todo = f"Change {option or field}: what is given ({value}, {found['kind']}) is not of that kind."
    return Verdict(
        code="field-not-valid",
        meaning=(
            f"{field}{f', given by {option},' if option else ''} got {value} ({found['kind']}), and the check says: "
            f"{found['said'].strip()}."
        ),
        action=f"{todo} The form of settings changes between releases: the recipe may be of another one.",
        evidence="pydantic's own message: the field, the kind that it wants and what it got; vector-inference#157",
    )


PARSERS: Final = re.compile(r"tool_?parser|function_call/|reasoning(?:_parser|/)|reasoner|harmony|parser_manager")
READS: Final = re.compile(r"extract|parse|stream|detect|adjust|delta", re.IGNORECASE)
"""Functions that read an answer; others of a parser set it up."""
TOKENS: Final = re.compile(
    r"(?:locate|find|no|not|missing)\b.{0,60}\btokens?\b.{0,40}tokenizer|tokenizer.{0,60}\btokens?\b|"
    r"\b(?:encode|map|be)\b.{0,30}\b(?:one|a single) token\b",
    re.I,
)
OF_JSON: Final = frozenset(("JSONDecodeError", "ParseError", "ExpatError"))


def calls_of_tools_not_read(case: Case) -> Verdict | None:
    """A request whose answer the parser of tool calls or of reasoning cannot read."""
    parser = case.scan.start.option("tool_call_parser")
    frames = " ".join((*(frame.file for frame in case.raised.frames[-4:]), case.trace(1)))
    serves = re.search(r"serving|chat|tool|request", case.raised.place)
    by_file = PARSERS.search(f"{frames} {case.raised.place}") is not None
    by_json = case.raised.name in OF_JSON and parser not in (None, "None") and serves and not case.raised.frames
    reads = not case.raised.frames or any(READS.search(frame.function) for frame in case.raised.frames[-3:])
    if by_file and case.raised.frames and TOKENS.search(case.text):
        return _parser_without_its_tokens(case)
    if not (by_file and reads) and not by_json:
        return None
    given = f" (now {parser})" if parser and parser != "None" else ""
    said = (case.raised.text if case.raised.type else case.said)[:200]
    family = (parser or "").partition("_")[0]
    others = sorted(
        name
        for name, options in case.choices.items()
        if family and name.startswith(f"{family}_") and name != parser and "--tool-call-parser" in options
    )
    beside = f" Of this family the releases have {', '.join(others)}, too." if others else ""
    return Verdict(
        code="tool-calls-not-read",
        level="error" if case.raised.type else "warning",
        meaning=(
            f"An answer of the model has calls of tools, or reasoning, in a form that the parser{given} does not read: "
            f"{said}. The request fails or its answer is cut; the server goes on."
        ),
        action=(
            "Take the parser of this very model: its card names --tool-call-parser and --reasoning-parser (Qwen3-Coder "
            "and Qwen3.5 or later: qwen3_coder in place of qwen3_xml or hermes), with the chat template that belongs "
            f"to it.{beside} Other causes: an answer that ends at max_tokens within a call, a temperature above what "
            "the card says, streaming in a release whose parser has a fault (a newer one)."
        ),
        evidence="the parser's own file or a JSON error of a served request; NemoClaw PR#6551, vllm#10589",
    )


OF_REQUESTS: Final = re.compile(
    r"entrypoints/(?!llm|cli|launcher)|/protocol\.py$|managers/(?:io_struct|tokenizer_manager)|sampling_params|"
    r"input_processor"
)
HANDLES: Final = re.compile(
    r"create_|generate|chat|completion|embed|score|rerank|classif|transcri|request|preprocess|tokenize_|process_inputs|"
    r"sampling|__post_init__|_verify|from_|to_|handle|parse|normalize|check|render"
)
"""Functions that work on a request."""
OF_A_START: Final = re.compile(
    r"<module>|run_server|launch|validate_parsed|parse_args|build_app|setup_server|_init_app|init_app_state|"
    r"init_tokenizer_manager|from_engine_args|^main$"
)
"""Functions that only a start, or a program without a server, goes through."""


def request_refused(case: Case) -> Verdict | None:
    """A request that the server's own check refuses: nothing is wrong with the server."""
    frames = case.raised.frames
    refuses = (
        bool(frames)
        and frames[-1].code.startswith("raise")
        and OF_REQUESTS.search(frames[-1].path) is not None
        and "cli_args" not in frames[-1].path
        and any(OF_REQUESTS.search(one.path) and HANDLES.search(one.function) for one in frames)
        and not any(OF_A_START.search(one.function) for one in frames)
    )
    named = case.raised.name in ("VLLMValidationError", "RequestValidationError", "BadRequestError")
    if not named and not (refuses and case.raised.name in ("ValueError", "TypeError", "NotImplementedError")):
        return None
    return Verdict(
        code="request-refused",
        level="warning",
        meaning=f"The server refuses a request (400), and goes on: {case.first_line[:300].rstrip('.')}.",
        action=" ".join(
            filter(
                None,
                (
                    own_advice(case.text),
                    "Change what the client sends: leave out or correct the field that the message names, or send less "
                    "text or fewer images. Limits of the server are options (--max-model-len, --limit-mm-per-prompt, "
                    "--max-logprobs); a field of another vendor's API goes elsewhere or nowhere.",
                ),
            )
        ),
        evidence="the file of the server's API that raised it",
    )


def _parser_without_its_tokens(case: Case) -> Verdict:
    """A parser whose marks are no tokens of this model's tokenizer."""
    given = {name: case.scan.start.option(name) for name in ("reasoning_parser", "tool_call_parser")}
    set_ = [f"--{name.replace('_', '-')} {value}" for name, value in given.items() if value not in (None, "None")]
    now = f" (now {', '.join(set_)})" if set_ else ""
    return Verdict(
        code="parser-of-another-model",
        meaning=(
            f"A parser of reasoning or of tool calls looks for tokens that this model's tokenizer does not have: "
            f"{case.first_line[:200]} It is the parser of another family of models."
        ),
        action=(
            f"Take the --reasoning-parser and --tool-call-parser that this model's card names, or leave them out{now}. "
            "If they are right: tokenizer_config.json and added tokens were not copied with the model."
        ),
        evidence="the parser's own check of the tokenizer",
    )


REQUIRES: Final = re.compile(
    r"(?P<who>[A-Za-z][\w ./'`-]{1,80}?) (?:requires?|needs?|depends on) (?:the |an? |that )?"
    r"(?P<what>[A-Z`'\"][\w ./+'`\"-]{1,80}?)"
    r"(?: (?:package|library|extension|module|to be \w{3,20}|is \w{3,20}|installed))?(?:[.,:;(\[]|$)"
)
ON_PLATFORM: Final = re.compile(
    r"(?P<who>[A-Za-z][\w ./-]{2,80}?) (?:is|are) (?:not|only) (?:supported|available|implemented) (?:on|for|by) "
    r"(?:the )?(?:current|this|that) platform"
)


def missing_dependency(case: Case) -> Verdict | None:
    """A part of the program that needs another one, and that one is not there or was switched off."""
    if not case.raised.type or VERSIONED.search(case.first_line):
        return None
    platform = ON_PLATFORM.search(case.first_line)
    found = REQUIRES.search(case.first_line)
    if platform is None and found is None:
        return None
    _, leave = part_of(case.raised.frames)
    if platform is not None:
        return Verdict(
            code="platform-without-it",
            meaning=(
                f"{case.first_line[:240].rstrip('.')}: the program did not find CUDA as its platform, or its wheel was "
                "built without this part for this CPU or system."
            ),
            action=(
                f"Leave out the option that asks for {platform['who'].strip()} (--enable-sleep-mode asks for the cumem "
                "allocator). If it must be: does the process see the GPU (nvidia-smi, torch.cuda.is_available()), and "
                "do its compiled parts load (python -c 'import vllm._C, vllm.cumem_allocator' shows a library that "
                f"is missing, such as libnvrtc)? {leave}"
            ).strip(),
            evidence="the program's own check of its platform",
        )
    assert found is not None  # noqa: S101 - one of both
    who, what = found["who"].strip(" '`\""), found["what"].strip(" '`\"")
    bare = what.replace("-", "_").replace(" ", "_").lower()
    if not (INSTALLED.search(case.text) or bare in PACKAGES):
        return None
    return Verdict(
        code="needs-what-is-not-there",
        meaning=(
            f"{who} needs {what}, and it is not there for this process, was built without it, or was switched off at "
            "the start."
        ),
        action=" ".join(
            filter(
                None,
                (
                    own_advice(case.text),
                    f"Install {what} in this very environment, in a release and for the CPU and CUDA that are here "
                    "(python -c 'import …' shows why it does not load). A line before may say why it was switched off, "
                    f"such as a GPU or driver that is not seen. Or leave out what asks for {who}.",
                    leave,
                ),
            )
        ),
        evidence="the message's own condition; LMCache#4299",
    )


INSTALLED: Final = re.compile(r"package|library|module\b|extension|install|import|wheel", re.I)
PACKAGES: Final = frozenset(
    (
        *("triton", "flashinfer", "flashattention", "flash_attention", "nixl", "mooncake", "lmcache", "deepgemm"),
        *("deep_gemm", "deepep", "nvshmem", "xgrammar", "numba", "ray", "torchvision", "torchcodec", "tilelang"),
    )
)
"""What messages call by name and is installed as a package."""
VERSIONED: Final = re.compile(
    r"(?:requires?|needs?)[^.\n]{0,60}"
    r"(?:[<>=~]=? ?v?\d|\d+\.\d+|at least|greater|(?:or|and) (?:newer|later|higher|above))"
)
NOT_GIVEN: Final = re.compile(
    r"\b[Nn]o (?P<none>[a-z][\w .-]{2,50}?) (?:is |are |was |were |has been |have been )?(?:specified|provided|given|"
    r"configured|defined)\b"
    r"|^(?P<must>[A-Za-z][\w .'`-]{2,50}?) "
    r"(?:must be|should be|needs to be|is not|was not|were not|are not|has not been) "
    r"(?:specified|provided|given|configured|defined)\b"
    r"|^(?P<required>[A-Za-z`'][\w .'`-]{2,50}?) is required\b"
)
STATED: Final = frozenset(("ValueError", "AssertionError", "RuntimeError", "ValidationError", "Exception", "TypeError"))
"""What programs raise with a condition in words."""
IN_CONFIG: Final = re.compile(r"architectur|model.?type|config|rope|head_dim|layer|hidden|vocab|token", re.I)


def missing_input(case: Case) -> Verdict | None:
    """Something that neither the command nor the model's files say."""
    if case.raised.name not in STATED:
        return None
    said = (case.first_line, *(line.partition(" error, ")[2] for line in case.text.splitlines()))
    found = next(filter(None, map(NOT_GIVEN.search, said)), None)
    if found is None:
        return None
    what = (found["none"] or found["must"] or found["required"]).strip(" '`")
    option = f"--{re.sub(r'[ _]+', '-', what.lower())}"
    if option not in case.options and not IN_CONFIG.search(what) and " " not in what:
        return None  # a parameter of a function: its caller is at fault, not what was given
    field = re.sub(r"[ -]+", "_", re.sub(r"^model (?=architectures?$)", "", what.lower()))
    if option in case.options:
        todo = f"Give {option} a value."
    elif IN_CONFIG.search(what):
        todo = (
            f"Look into the model's config.json: it must have {field} (a folder of adapters, of a GGUF file or of one "
            "part of a model has none). Name the folder of the whole model, or give the field by --hf-overrides "
            f"'{{\"{field}\": …}}' as the original model has it."
        )
    else:
        todo = f"Give {what}: an option of the command, a variable, or a field of the request or file that is read."
    return Verdict(
        code="not-given",
        meaning=f"Nothing says {what} here: not the command, and not the files that are read.",
        action=" ".join(filter(None, (own_advice(case.text), todo))),
        evidence="the message's own condition",
    )


NOT_DIVISIBLE: Final = re.compile(
    r"(?P<what>[A-Za-z_][\w' .-]{2,90}?) ?[=(]? ?(?P<size>\d{1,8})\)? (?:is not|must be|cannot be|isn't) divisible by "
    r"(?P<by>[A-Za-z_][\w' .-]{1,60}?) ?[=(]? ?(?P<step>\d{1,8})"
)
OF_A_BLOCK: Final = re.compile(r"block|group|thread|tile|quant|pack", re.I)


def _narrower(found: re.Match[str]) -> str:
    """A sentence where the layer, or its share, is narrower than one block; empty otherwise."""
    if int(found["size"]) >= int(found["step"]):
        return ""
    return (
        "It is narrower than one block: with one rank no option helps, and the checkpoint should leave such layers "
        "unquantized (another checkpoint, or a newer release that does). With several: "
    )


def not_divisible(case: Case) -> Verdict | None:
    """A size that a block of a quantization or of a kernel does not divide: often one rank's share of a layer."""
    found = NOT_DIVISIBLE.search(case.text) if case.raised.type else None
    if found is None or not OF_A_BLOCK.search(found["by"]):
        return None
    ranks = case.scan.start.option("tensor_parallel_size", "tp_size")
    now = f" (now {ranks})" if ranks else ""
    return Verdict(
        code="kernel-without-this-shape",
        meaning=(
            f"{found['what'].strip()} is {found['size']} here, and {found['by'].strip()} is {found['step']}: the "
            "kernel takes whole blocks alone. A width that does not fit is most often one rank's share of a layer."
        ),
        action=(
            f"{_narrower(found)}Fewer ranks for each layer: --tensor-parallel-size 1 or 2{now}, experts whole on each "
            "rank (--enable-expert-parallel; SGLang: --ep-size), or pipeline stages in place of a split. Else "
            "another checkpoint (smaller groups, another quantization), or another --moe-backend or --linear-backend."
        ),
        evidence="the two numbers of the message; vLLM's checks of quantized layers",
    )


TYPES: Final = re.compile(
    r"(?P<what>[A-Za-z_][\w ]{0,50}? )?(?P<given>torch\.\w{2,20}|(?:b?fp|b?float|u?int|nvfp|"
    r"mxfp)\d\w{0,12}) (?:is |are )?"
    r"not supported\b[^\n]{0,80}?[Ss]upported (?:\w{1,12} )?(?:d?types|data types|formats)(?: are| is)?:? ?"
    r"[\[({](?P<these>[^\])}\n]{2,200})"
)
OF_CACHE: Final = re.compile(r"kv_|kv cache|cache|mla\b", re.I)
OF_CALCULATION: Final = re.compile(r"activation|weight|input|output|hidden|gemm|linear", re.I)
FP8: Final = re.compile(r"(?:fp|float)8")


def data_type_not_taken(case: Case) -> Verdict | None:
    """A data type that a kernel does not take, where the message lists those that it takes."""
    found = TYPES.search(case.text)
    if found is None or "quantization method" in case.text:
        return None
    given, these = found["given"].removeprefix("torch."), re.sub(r"torch\.|['\\]", "", found["these"])
    of = f" ({found['what'].strip()})" if found["what"] else ""
    cache = case.scan.start.option("kv_cache_dtype")
    now = f" (now {cache})" if cache else ""
    calculated = OF_CALCULATION.search(of) or (OF_CALCULATION.search(case.text) and not OF_CACHE.search(case.text))
    own = [one for one in case.raised.frames if one.package not in ("triton", "torch")][-1:]
    elsewhere = case.engine is None and any(not OF_CACHE.search(f"{one.path} {one.function}") for one in own)
    if not calculated and not elsewhere and (OF_CACHE.search(case.text) or FP8.match(given) or given == cache):
        kind = "It is the type of the KV cache, or of values that are put into it."
        todo = (
            f"--kv-cache-dtype auto{now} or one of {these}, as the release calls them (fp8_e4m3, fp8_e5m2); or another "
            "--attention-backend, which may take it."
        )
    else:
        kind = "It is the type of activations or weights here."
        if FP8.match(given) and "architecture" in case.text:
            kind += (
                " The compiler refuses it for the GPU that is here: FP8 e4m3 begins at 8.9, and a GB10 (12.1) has it."
            )
        todo = (
            f"--dtype or a checkpoint with one of {these}; or another backend (--attention-backend, --moe-backend, "
            "--linear-backend)."
        )
    triton = " Triton's fp8e4nv is FP8 e4m3, and its fp8e5 is e5m2." if "fp8e" in case.text else ""
    return Verdict(
        code="data-type-not-taken",
        meaning=f"A kernel does not take {given}{of}: it takes {these}. {kind}{triton}",
        action=f"{todo} A newer release may have a kernel for it.",
        evidence="the message's own list of types; vllm#57713, 1Cat-vLLM#27",
    )


EARLY_CONDITION_FAMILIES: Final = (field_not_valid, calls_of_tools_not_read, data_type_not_taken)
CONDITION_FAMILIES: Final = (condition_of_an_assertion, not_divisible)
LATE_CONDITION_FAMILIES: Final = (request_refused, missing_input, missing_dependency)
"""Those that speak only when no other family does."""
