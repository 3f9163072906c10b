"""Families: options, variables, files, caches, memory. Pure."""

import re
from difflib import get_close_matches
from typing import Final

from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.error_case import ENGINES, Case
from gb10.serving.doctor.families_packages import READS_WEIGHTS, part_of
from gb10.serving.doctor.option_names import option_of_this_part, option_with

UNKNOWN_OPTION: Final = re.compile(
    r"unrecognized arguments?: (?P<options>.{1,300})|[Nn]o such option:? (?P<other>\S{1,80})"
)
EMPTY: Final = re.compile(
    r"[Ii]nvalid (?:value|literal).{0,40}?(?:''|\"\"|: ''|base 10: '').{0,80}|could not convert string to "
    r"float: ''|Expecting value: line 1 column 1 \(char 0\)"
)
VARIABLE: Final = re.compile(
    r"\b(?P<name>(?:VLLM|SGLANG|SGL|FLASHINFER|NCCL|HF|TORCH|CUDA|TRITON|TRTLLM|GLOO|PYTORCH|OMP|MASTER|"
    r"HUGGING_FACE)_[A-Z0-9_]{2,60})\b"
)
UNPACK: Final = re.compile(
    r"not enough values to unpack \(expected \d{1,2}, got (?:0|1)\)|list index out of range|invalid literal "
    r"for int\(\)|string index out of range"
)
CHOICES: Final = re.compile(
    r"(?:[Vv]alid (?:options|values|choices|backends)(?: are| is)?|"
    r"\b(?:[Ss]upported|[Aa]llowed|[Pp]ossible|[Aa]ccepted|[Pp]ermitted|[Kk]nown|[Rr]egistered|[Cc]hoices)"
    r"(?: [a-z_-]{2,20}){0,3}(?: are| is)?:|[Oo]ne of:|[Aa]vailable (?:options|backends|"
    r"choices|values|parsers)(?: are)?|[Cc]hoo?se from|[Mm]ust be one of|[Ss]upported (?:values|backends|"
    r"options|methods)(?: are)?|[Ii]nput should be(?= ?['\"])|[Ee]xpected one of|available: |not in)[: "
    r"]{0,3}[\[({]? ?(?P<choices>['\"\w][^\n]{2,1500})"
)
GIVEN: Final = re.compile(
    r"(?:[Uu]nknown|[Ii]nvalid|[Uu]nsupported|[Uu]nrecognized|[Nn]ot (?:a )?valid|not supported|KeyError)"
    r"[^'\"`:]{0,60}?:? ?['\"`](?P<value>[^'\"`]{1,80})['\"`]|input_value=['\"](?P<input>[^'\"]{0,80})"
    r"['\"]|invalid choice: ['\"](?P<choice>[^'\"]{1,80})['\"]|(?:parser|backend|method|dtype):? "
    r"(?P<bare>[\w.-]{2,60}) (?:is )?(?:not|invalid)"
    r"|(?:[Uu]nknown|[Ii]nvalid|[Uu]nsupported|[Uu]nrecognized) [\w -]{2,40}: (?P<plain>[\w.+-]{2,60}?)[.,;]? "
)
ABOUT: Final = re.compile(
    r"(?:[Uu]nknown|[Ii]nvalid|[Uu]nsupported) (?P<what>[a-z][a-z _-]{2,40}?)(?::| ['\"`]|$)|argument "
    r"(?P<option>--[\w/,-]{2,60})"
)
OPTIONS: Final = {
    "attention backend": "--attention-backend",
    "moe backend": "--moe-backend",
    "tool parser": "--tool-call-parser",
    "tool call parser": "--tool-call-parser",
    "reasoning parser": "--reasoning-parser",
    "quantization method": "--quantization",
    "quantization": "--quantization",
    "dtype": "--dtype",
    "kv cache dtype": "--kv-cache-dtype",
    "load format": "--load-format",
}
REFUSED: Final = re.compile(
    r"[Ss]elected backend (?:\w+\.)?(?P<name>\w{2,60}) is not valid|No valid (?P<kind>[\w ]{2,30}?) "
    r"backend found|(?P<option>\w{2,30}_backend)=['\"]?(?P<value>\w{2,60})['\"]? is not supported"
    r"|[Bb]ackend ['\"](?P<chosen>\w{2,60})['\"] (?:does not|cannot|is not)(?: be)? "
    r"(?:support|used|available|valid)\w{0,4}"
    r"|(?P<other>[\w -]{2,50}?) (?:backend )?(?:is not supported|does not support|not supported) (?:for|"
    r"with|by|on) (?P<what>[\w .,'-]{2,80})"
)
BACKENDS: Final = re.compile(
    r"backend|kernel|attention|attn|moe|quant|fp8|fp4|mla|gemm|linear|sm_?1\d\d", re.IGNORECASE
)
REASON: Final = re.compile(r"[Rr]easons?: ?(?P<reason>[\[{].{2,400})")
REASONS: Final = re.compile(r"\b([A-Z][A-Z0-9_]{2,40}): \[([^\]]{3,300})\]")
TEMPLATE: Final = re.compile(r"chat[_ ]template|ChatTemplate|TemplateNotFound|TemplateSyntaxError|TemplateError", re.I)
TOKENIZER: Final = re.compile(
    (
        r"Tokenizer class (?P<name>\w{2,60}) does not exist|Couldn't instantiate the backend tokenizer|(?:Can't|"
        r"Unable to) load (?:the )?tokenizer|tokenizer\.json|sentencepiece|tiktoken|ModelWrapper|untagged enum"
    ),
    re.I,
)
SCALES: Final = re.compile(
    r"(?P<name>[\w.*-]{1,160}\.(?:\w*_)?(?:weight_scale(?:_2|_inv)?|input_scale|[kvq]_scale|weight_packed|"
    r"qweight|qzeros|scales|weight_global_scale|input_global_scale|weight_shape|g_idx|"
    r"absmax|quant_map|nested_absmax|nested_quant_map|quant_state[\w.]{0,40}|SCB|lora_[AB]\w{0,20}))\b"
)
OF_A_METHOD: Final = {
    "absmax|quant_map|quant_state|SCB": (
        "bitsandbytes",
        "--quantization bitsandbytes --load-format bitsandbytes reads it, where the model's class allows it.",
    ),
    "qweight|qzeros|g_idx|scales": ("GPTQ or AWQ", "--quantization is left out, so that the config decides."),
    "weight_packed|weight_global_scale|input_global_scale|weight_shape": ("compressed-tensors", ""),
    "weight_scale_2|input_scale": ("ModelOpt (NVFP4 or FP8)", ""),
    "lora_": ("a LoRA adapter", "It is no whole model: give the base model, and --enable-lora --lora-modules."),
}
"""Formats of a checkpoint by parts of its parameters' names, and what reads them."""
QUANT: Final = re.compile(
    r"quant|compressed.?tensors|modelopt|nvfp4|mxfp4|awq|gptq|fp8|weight_block_size|group_size", re.I
)
OWN_CACHES: Final = (
    "Or point HF_HOME, TRITON_CACHE_DIR, FLASHINFER_WORKSPACE_BASE or HOME to a folder that it may write."
)
DENIED: Final = re.compile(
    r"(?:open|mkdir|rename|remove|unlink|chmod) (?P<go>[^\s:\"\\]{1,300}): "
    r"(?:permission denied|read-only file system)|"
    r"Permission denied: ['\"]?(?P<path>[^'\"\n]{1,300})|PermissionError.{0,40}['\"](?P<other>/[^'\"\n]{1,300})"
    r"|Read-only file system: ['\"]?(?P<read>[^'\"\n]{1,300})"
)
FULL: Final = re.compile(
    r"No space left on device|ENOSPC|Disk quota exceeded|not enough (?:free )?(?:disk )?space|Errno 28\b"
)
SHM: Final = re.compile(
    r"/dev/shm|shared_memory|shared memory segment|posix_fallocate|shm\.h|shmem|shm_open|psm_|nccl-",  # noqa: S108 - a folder of the kernel
    re.I,
)
BUS: Final = re.compile(r"\bBus error\b|SIGBUS|insufficient shared memory")
FILES: Final = re.compile(r"Too many open files|EMFILE|Errno 24\b")
PROCESSES: Final = re.compile(
    r"can't start new thread|Resource temporarily unavailable|pthread_create failed|Cannot fork|Errno 11\b"
)
TAKEN: Final = re.compile(
    (
        r"[Ff]ree memory on device|less than desired|[Nn]ot enough memory|out of memory|OutOfMemory|No available "
        r"memory for the cache|larger than the (?:available KV cache|maximum number of tokens)|[Mm]emory profiling|"
        r"rest_memory|mem[-_]fraction[-_]static|loading.{0,40}memory"
    ),
    re.I,
)
GIB: Final = re.compile(r"(?P<number>-?\d{1,4}(?:\.\d{1,4})?) ?Gi?B")
PROFILED: Final = re.compile(
    r"[Ii]nitial free memory:? (?P<first>\d{1,4}(?:\.\d{1,9})?) ?Gi?B.{0,60}?current free memory:? "
    r"(?P<now>\d{1,4}(?:\.\d{1,9})?) ?Gi?B"
)
TOKENS: Final = re.compile(r"\((?P<asked>\d{3,9})\).{0,160}?\((?P<fits>\d{2,9})\)")


def _hyphened(option: str) -> str:
    return option.replace("_", "-")


def unknown_option(case: Case) -> Verdict | None:
    """An option that this release does not have."""
    found = UNKNOWN_OPTION.search(case.text)
    if found is None:
        return None
    options = (found["options"] or found["other"]).strip()
    each = [one.split("=")[0] for one in options.split() if re.match(r"--?[A-Za-z]", one)]
    names = " ".join(each) or options[:120]
    takes_hyphens_alone = case.engine in (None, "sglang")
    hyphens = [one for one in each if takes_hyphens_alone and "_" in one and _hyphened(one) in case.sglang_options]
    if hyphens:
        right = ", ".join(map(_hyphened, hyphens))
        rest = ", ".join(one for one in each if one not in hyphens)
        also = f" It has no {rest} in any spelling: of another release or engine, or misspelled." if rest else ""
        return Verdict(
            code="option-not-known",
            meaning=(
                f"The server has no option {', '.join(hyphens)}: it is spelled with hyphens, {right}. vLLM's parser "
                f"takes both, SGLang's and other programs' take hyphens alone.{also}"
            ),
            action=(
                f"Write {right}{f', and leave {rest} out' if rest else ''}. ./build.py recipe lint FILE names each "
                "option of a recipe that is spelled so."
            ),
            evidence="argparse of SGLang 0.5.10 and 0.5.23, as read; sglang#12818, sglang#5032",
        )
    return Verdict(
        code="option-not-known",
        meaning=(
            f"The server of {case.here()} has no option {names}: it is of another release or engine, of a fork, or "
            "misspelled."
        ),
        action=(
            f"Leave {names} out, or take the image and release that the recipe was written for. ./build.py "
            f"recipe lint FILE --release N names the closest option."
        ),
        evidence="argparse; DSpark#17, eugr#385",
    )


ARGUMENT: Final = re.compile(
    r"argument (?P<option>--?[\w-]{1,60})(?:/-{1,2}[\w-]{1,60}){0,3}: "
    r"(?P<what>Invalid JSON|Value .{0,200}? cannot be converted|invalid \S{1,40} value|expected (?:one|at "
    r"least one|\d{1,3}) argument"
    r"|not allowed with|Expecting (?:property|value|',')|ignored explicit argument)(?P<rest>.{0,200})"
)


def option_not_readable(case: Case) -> Verdict | None:
    """An option whose value the program cannot read: JSON without its quotes, a number that is none, no value."""
    found = ARGUMENT.search(case.text)
    if found is None:
        return None
    option, what = found["option"], f"{found['what']}{found['rest']}".strip()
    json = re.search(r"JSON|loads|converted|property|dict", what)
    if not json:
        return Verdict(
            code="option-not-readable",
            meaning=f"The value of {option} is not what it takes: {what[:200]}.",
            action=f"Look at what stands behind {option}: a value that is missing, a number with a unit, a word in "
            f"place of a number. `vllm serve --help={option.lstrip('-')}` or the server's --help says what it takes.",
            evidence="argparse",
        )
    doubled = (
        "Its braces are doubled ({{ and }}): a recipe writes them so for a program that fills in its own {name}, and "
        "what started this one did not. Write them once, or start it by the program that the recipe is for. "
        if "{{" in what
        else ""
    )
    return Verdict(
        code="option-not-readable",
        meaning=f"{option} takes JSON, and what arrived is none: {what[:200]}. A shell, a .env file or compose "
        "takes the quotes away; older forms (a=b, a:b) are no JSON.",
        action=f"{doubled}Write {option} '{{\"name\": value}}' in single quotes (YAML: a list of arguments, each "
        "quoted once; .env files: no quotes around JSON that has quotes inside). If a program of your own follows the "
        "image's name: its entrypoint is the server already, so give --entrypoint.",
        evidence="argparse; notes of two recipes whose .env lost the quotes",
    )


COMMAND: Final = re.compile(
    r"(?:unrecognized arguments?: |input_value=['\"]|invalid choice: ['\"])(?P<command>[^\n]{0,120}?"
    r"(?:(?:^|[\s;|/'\"=])(?:bash|sh) (?:-\w|--\w|/)|\bsleep infinity|\bbase64 -d|\bprintf %s|/entrypoint\.sh|"
    r"\b(?:vllm|sglang) serve\b|\bpython3? -m )[^\n]{0,80})"
)


def command_of_an_entrypoint(case: Case) -> Verdict | None:
    """A command of a shell, read as options: the image has a program as its ENTRYPOINT, and it got the command."""
    found = COMMAND.search(case.text)
    if found is None or "error: " not in case.text:
        return None
    return Verdict(
        code="command-read-as-options",
        meaning=(
            "The server was given a whole command as its options "
            f"({found['command'].partition(chr(39))[0].strip()[:160]}): the image's ENTRYPOINT is the server itself, "
            "and what stands behind the image's name is appended to it. The option that the error names was never "
            "given: a part of the command (-c) was read as its short form."
        ),
        action=(
            "Give this image the options alone, or clear its entrypoint: --entrypoint '' with the whole command behind "
            "the image (compose: entrypoint: []; Kubernetes: command). `docker inspect -f '{{.Config.Entrypoint}}' "
            "IMAGE` shows it. A launcher that puts a shell in front needs an image whose entrypoint passes it on."
        ),
        evidence="a shell's words in the value that the options' reader refused; sparkrun#279",
    )


OTHER_ARGUMENT: Final = re.compile(
    r"error while handling argument [\"'`](?P<llama>-{1,2}[\w-]{1,60})[\"'`]: (?P<reason>.{2,200})"
    r"|invalid value ['\"`](?P<bad>[^'\"`]{0,80})['\"`] for (?:flag |option )?['\"`]?(?P<clap>-{1,2}[\w-]{1,60})"
    r"|(?:flag provided but not defined|unknown (?:shorthand )?flag|unexpected argument|unknown option|"
    r"invalid argument|"
    r"unrecognized option|unknown argument)[:= ]{1,3}['\"`]?(?P<unknown>-{1,2}[\w-]{1,60})"
    r"|(?:flag needs an argument|option requires an argument|a value is required for)[: ]{1,3}(?:-- )?['\"`]?"
    r"(?P<needs>-{1,2}[\w-]{1,60})"
    r"|(?:invalid argument|unexpected argument|unrecognized argument): ['\"`]?(?P<stray>[^-\s'\"`]\S{0,60}?)['\"`]?$"
)


def argument_of_another_program(case: Case) -> Verdict | None:
    """An option that llama.cpp, a Go or a Rust program, or a GNU tool does not take as it stands."""
    found = OTHER_ARGUMENT.search(case.text)
    if found is None:
        return None
    option = next(found[name] for name in ("llama", "clap", "unknown", "needs", "stray") if found[name])
    if found["stray"]:
        return Verdict(
            code="option-not-readable",
            meaning=(
                f"{option!r} stands where this program expects an option: the option before it takes no value in this "
                "release, or a shell took a quote or a backslash away."
            ),
            action=(
                f"Look at what stands before {option} in the command. Releases change switches into options with a "
                "value, and back (llama.cpp: --flash-attn takes on, off or auto in newer releases and nothing in "
                "older ones). If another program makes the command (a web UI, a launcher), it and the server are of "
                "different releases: update the older of them."
            ),
            evidence="the program's own reader of arguments; textgen#7219",
        )
    if found["unknown"]:
        return Verdict(
            code="option-not-known",
            meaning=f"This program has no option {option}: it is of another release or program, or misspelled.",
            action=f"Leave {option} out, or take the release that has it; the program's --help lists what it takes.",
            evidence="the program's own reader of arguments",
        )
    what = found["reason"] or (f"{found['bad']!r} is no value of it" if found["clap"] else "its value is missing")
    return Verdict(
        code="option-not-readable",
        meaning=f"{option} did not get a value that it takes: {what}.",
        action=(
            f"Look at what stands behind {option} in the command: a value that was left out makes the next option "
            "its value. Releases change this: a switch of an older one may want a value now (on, off, auto). --help "
            "of this release lists the values."
        ),
        evidence="the program's own reader of arguments; textgen#7237",
    )


METHODS: Final = re.compile(
    r"[Qq]uantization method specified in the model config \((?P<model>[\w.-]{1,60})\) does not match "
    r".{0,80}\((?P<asked>[\w.-]{1,60})\)"
)
FORMAT: Final = re.compile(
    r"(?:only|currently) (?:only )?supports?:? ?(?P<these>\[.{2,200}?\]).{0,60}quant|[Qq]uantization "
    r"method (?P<name>[\w.-]{2,60}) is not supported"
    r"|(?P<dtype>torch\.\w{3,12}|\w{3,12}) is not supported for quantization method "
    r"(?P<method>[\w.-]{2,60})\. Supported dtypes: \[(?P<dtypes>[^\]]{2,100})\]"
)


def quantization_method(case: Case) -> Verdict | None:
    """A quantization method that does not agree with the checkpoint, the release, the dtype or the GPU."""
    both, kind = METHODS.search(case.text), FORMAT.search(case.text)
    if both:
        return Verdict(
            code="quantization-method",
            meaning=f"The checkpoint's config says {both['model']}, and --quantization asks for {both['asked']}.",
            action=(
                f"Leave --quantization out: the config decides. (AWQ and GPTQ checkpoints of llm-compressor "
                f"are {both['model']}.)"
            ),
            evidence="the message's two names; vLLM's check of config and option",
        )
    if kind is None:
        return None
    if kind["dtypes"]:
        wanted = kind["dtypes"].replace("torch.", "").strip()
        return Verdict(
            code="quantization-method",
            meaning=f"{kind['method']} does not go with {kind['dtype'].replace('torch.', '')}: it takes {wanted}.",
            action=f"--dtype {wanted.split(',')[0].strip()}, or a checkpoint in another format.",
            evidence="the message's own list",
        )
    low = re.search(r"[Mm]inimum capability: (?P<least>\d{2,3})\. Current capability: (?P<here>\d{2,3})", case.text)
    gpu = f" It needs compute capability {low['least']}, and this GPU is {low['here']}." if low else ""
    what = kind["name"] or f"anything but {kind['these']}"
    return Verdict(
        code="quantization-method",
        meaning=(
            f"This release does not read {what} of this checkpoint.{gpu} hf_quant_config.json or "
            f"quantization_config names the method."
        ),
        action=(
            "Take a newer release of the engine, or another checkpoint of the model (FP8, NVFP4, AWQ); leave "
            "--quantization out, so that the config decides."
        ),
        evidence="the engine's own list of methods",
    )


def empty_variable(case: Case) -> Verdict | None:
    """A variable that is set and empty, where its reader wants a value or nothing."""
    empty, unpack = EMPTY.search(case.text), UNPACK.search(case.text)
    if not empty and not unpack:
        return None
    names = VARIABLE.search(case.text)
    where = [
        frame
        for frame in case.raised.frames
        if re.search(r"envs?\.py|environ|compilation_context|getenv|arch_list", f"{frame.file} {frame.function}")
    ]
    if names is None and not where:
        return None
    name = names["name"] if names else ""
    if not name and any("compilation_context" in frame.file for frame in where):
        name = "FLASHINFER_CUDA_ARCH_LIST"
    choices = CHOICES.search(case.text)
    valid = f" Its values: {choices['choices'].rstrip('].)')[:200]}." if choices else ""
    right = " For a GB10: FLASHINFER_CUDA_ARCH_LIST=12.1a." if "ARCH_LIST" in name else ""
    return Verdict(
        code="variable-is-empty",
        meaning=(
            f"{name or 'A variable'} is set, and empty. "
            f"{'${NAME:-} in a compose file or a script' if name else 'A compose file'} hands on an empty text, which "
            "is not the same as no variable."
        ),
        action=(
            f"Leave {name or 'the variable'} out where it has no value (compose: list it without `=` and "
            f"without a default), or give it one.{right}{valid}"
        ),
        evidence=f"{where[-1].path if where else 'the message'} splits or checks the value; spark_vllm_docker#14",
    )


def value_not_in_registry(case: Case) -> Verdict | None:
    """A value that is not one of those that the message lists."""
    choices, given = CHOICES.search(case.text), GIVEN.search(case.text)
    if choices is None or given is None:
        return None
    value = given["value"] or given["input"] or given["choice"] or given["bare"] or given["plain"] or ""
    names = list(dict.fromkeys(re.findall(r"[\w.+-]{2,60}", choices["choices"].split("[type=")[0])))
    names = [one for one in names if one not in ("or", "and", "type")]
    if not value or len(names) < 2 or value in names:
        return None
    about = ABOUT.search(case.text)
    what = (about["what"] or about["option"] or "value").strip() if about else "value"
    option = what if what.startswith("--") else OPTIONS.get(what.lower(), "")
    parts = [part for part in re.split(r"[_-]", value) if len(part) > 1]
    close = (
        get_close_matches(value, names, n=1, cutoff=0.75)
        or [one for one in names if one in parts[:1]]
        or get_close_matches(value, names, n=1, cutoff=0.4)
    )
    here = case.here("This release")
    variable = VARIABLE.search(case.text)
    setting = option or (variable["name"] if variable else f"the {what}")
    return Verdict(
        code="value-not-known",
        meaning=f"{here} has no {what} {value!r}. It has: {', '.join(names[:24])}.",
        action=(
            f"{f'Take {close[0]}, the closest' if close else 'Take one of these'}, or leave {setting} out: "
            f"then the engine chooses. A recipe for another release or a fork may name values of its own."
        ),
        evidence="the registry's own list in the message; spark-arena/recipe-registry#23",
    )


def _experts_in_fp4(case: Case, name: str) -> str:
    """The backend of experts in FP4 that takes each layer's form on 12.1; empty for others and for that one."""
    of_experts = re.search(r"(?:nv|mx)fp4 moe|moe backend|fused.?moe", case.text, re.IGNORECASE)
    if of_experts is None or "marlin" in name.lower() or not re.search(r"fp4", case.text, re.IGNORECASE):
        return ""
    return " On 12.1 --moe-backend marlin takes experts in FP4 in each form (it reads weights alone as FP4)."


def backend_refused(case: Case) -> Verdict | None:
    """A backend that was asked for, and that cannot serve this model, dtype or shape."""
    found, reason = REFUSED.search(case.text), REASON.search(case.text)
    if found is None or (found["other"] and not BACKENDS.search(f"{case.text} {case.raised.frames[-1:]}")):
        return None
    parts = found.groupdict()
    name = parts["name"] or parts["value"] or parts["chosen"] or (parts["other"] or "").strip()
    why = (
        reason["reason"].rstrip("]}.") + "]"
        if reason
        else (f"it is not for {parts['what']}" if parts["what"] else case.first_line[:300]).rstrip(".")
    )
    asked = parts["option"] or next(
        (
            one
            for one in ("attention_backend", "moe_backend", "moe_runner_backend", "linear_backend")
            if case.scan.start.option(one) not in (None, "None", "auto")
        ),
        None,
    )
    option = (
        f"--{asked.replace('_', '-')}"
        if asked
        else "the option that forces it (--attention-backend, --moe-backend, --linear-backend)"
    )
    if parts["kind"]:
        config = re.search(r"\((?P<config>head_size=.{2,400}?)\)[. ]|\((?P<rest>head_size=.{2,300})", case.text)
        wanted = config["config"] or config["rest"] if config else ""
        each = sorted(REASONS.findall(case.text), key=lambda one: one[1].count(","))
        nearest = f" The nearest is {each[0][0]}: it lacks {each[0][1]}." if each else ""
        chip = each and "compute capability" in each[0][1] and "," not in each[0][1]
        return Verdict(
            code="backend-refused",
            meaning=(
                f"No {parts['kind'].strip()} backend of this release can serve {wanted or 'this model'} on "
                f"this GPU.{nearest} {f'Reasons: {why}' if reason else ''}"
            ).strip(),
            action=(
                f"{each[0][0]} has no code for this GPU here (a GB10 is 12.1), and no option changes that: take a "
                "newer release that has one for 12.x, or a model with another attention."
                if chip
                else "Change what is asked: --kv-cache-dtype auto, another --block-size or --dtype, no "
                "--attention-backend; else take a newer release, or a model whose attention this one has."
            ),
            evidence="the engine's own selector; vllm PR#38476, vllm#28589",
        )
    mixed = (
        (
            " A checkpoint may have layers of several formats (FP8 and NVFP4): a backend that is forced must serve "
            "each of them."
        )
        if re.search(r"FP8|NVFP4|MXFP4|MoE|quant", case.text)
        else ""
    )
    return Verdict(
        code="backend-refused",
        meaning=f"The backend {name} was asked for and cannot serve this: {why}.{mixed}",
        action=(
            f"Leave {option} out, so that the engine chooses, or take another backend. ./build.py explain "
            f"MODEL lists the kernel that serves each layer on 12.1.{_experts_in_fp4(case, name)}"
        ),
        evidence="the engine's own check; vllm#49076, vllm#40677, vllm#28589",
    )


NONE: Final = re.compile(
    r"'NoneType' object (?:is not (?:iterable|subscriptable|callable|an iterator)|"
    r"has no attribute '(?P<name>\w{1,60})'|"
    r"cannot be interpreted|does not support)|not supported between instances of (?:'NoneType'|"
    r"'\w{1,20}' and 'NoneType')"
    r"|(?:unsupported operand|must be|argument of type|int\(\) argument).{0,80}NoneType"
)
KEY: Final = re.compile(r"\.get\(['\"](?P<get>[\w.-]{1,60})['\"]|\[['\"](?P<item>[\w.-]{1,60})['\"]\]")
EXPRESSION: Final = r"([A-Za-z_][\w.]{0,80}(?:\[[^\]]{1,40}\])?)"


COMPILED: Final = re.compile(
    r"^_?[a-z]\w{1,60}(?:_cuda|_cpp|_ext|_kernels?|_C)$|^(?:deep_gemm|flash_mla|deep_ep|nixl)\w{0,20}$"
)
"""Names of compiled modules, which programs set to None when they cannot import them."""


OF_A_CONFIG: Final = re.compile(r"config|cfg|args|hf_|settings|params\b|tokenizer|processor|template|model_type", re.I)
OF_STEPS: Final = {
    r"/sched/|step_with_batch_queue|async_sched|overlap": "--no-async-scheduling (SGLang: --disable-overlap-schedule)",
    r"spec_decode|speculat|draft|eagle|\bmtp": "no drafts (--speculative-config, --speculative-algorithm)",
    r"structured|grammar|bitmask": "no structured output",
    r"connector|kv_transfer|lmcache|hicache": "no --kv-transfer-config",
    r"pipeline|intermediate_tensors|\bpp_": "no pipeline stages",
}
"""Parts between whose steps a result may be missing, by files, functions and names, and how to go without them."""


def _nothing_came(case: Case, name: str) -> Verdict:
    """A result that an earlier step of the engine did not give: no setting is missing, two parts do not agree."""
    last = case.raised.frames[-1]
    without = [leave for part, leave in OF_STEPS.items() if re.search(part, case.trace(4), re.IGNORECASE)]
    feature, leave = part_of(case.raised.frames)
    one_by_one = "; then ".join(without)
    own = option_of_this_part(case)
    return Verdict(
        code="value-is-none",
        meaning=(
            f"{last.path}:{last.line} stops at `{last.code}`: {name} is None there, which an earlier step of the "
            f"engine itself should have given{f' (in its part for {feature})' if feature else ''}. No file and no "
            "option of yours is missing: this release does not go through that step with what is switched on."
        ),
        action=(
            "Start once with "
            f"{one_by_one or 'one part less: no drafts, --no-async-scheduling, no --kv-transfer-config'}. {leave} "
            f"{f'Or with {own}. ' if own else ''}A newer release, or the one before, is the other thing to try."
        ).replace("  ", " "),
        evidence="the line of the traceback: a value of the engine's own",
    )


def value_is_none(case: Case) -> Verdict | None:
    """A value that is None where the line of the traceback uses it: the line names it."""
    found = NONE.search(case.text)
    code = case.raised.frames[-1].code if case.raised.frames else ""
    if found is None or not code:
        return None
    before = code.partition(f".{found['name']}")[0] if found["name"] else code  # x.get("k"): x is None, whatever k is
    key = KEY.search(before)
    use = (
        rf"{EXPRESSION}(?:\(\))?\.{found['name']}\b"
        if found["name"]
        else rf"\bin {EXPRESSION}|{EXPRESSION}\s?[<>=+*/%-]=?\s|{EXPRESSION}\["
    )
    named = re.search(use, code)
    what = next((one for one in (named.groups() if named else ()) if one), "")
    name = (key["get"] or key["item"]) if key else what
    if not name:
        return None
    last = case.raised.frames[-1]
    if key is None and COMPILED.search(name):
        return Verdict(
            code="compiled-part-not-loaded",
            meaning=(
                f"{last.path}:{last.line} calls the compiled module {name}, and it is None: importing it failed, and "
                f"{last.package or 'the program'} went on without it."
            ),
            action=(
                f"python -c 'import {name}' shows why: the package that brings it is not installed, or was compiled "
                f"for another torch or CPU. Install or build {name.removesuffix('_cuda')} for the torch that is here "
                "(--no-build-isolation, TORCH_CUDA_ARCH_LIST=12.1a), or leave the fast path out."
            ),
            evidence="the line of the traceback; mamba#467",
        )
    option = f"--{name.rpartition('.')[2].replace('_', '-')}"
    engine = last.package in ENGINES
    if key is None and engine and not OF_A_CONFIG.search(name) and option not in case.options:
        return _nothing_came(case, name)
    where = (
        f"The key {name} is in a file with nothing behind it, or it is missing: an empty `{name}:` in YAML is no "
        f"empty list."
        if key
        else f"{name} is None there: the model, its config or the command does not have it, and this code counts on it."
    )
    return Verdict(
        code="value-is-none",
        meaning=f"{last.path}:{last.line} stops at `{code}`. {where}",
        action=(
            (f"Give {option} a value, or leave out what needs it. " if option in case.options else "")
            + (
                f"In the file that {last.path.rpartition('/')[2]} reads: give {name} a value, write [] or {{}}, or "
                "remove the line (look for a list whose items are all commented out)."
                if key and not engine
                else f"Look for {name.rpartition('.')[2]} in config.json and in the options. A newer release may take "
                "a model without it: this one was written before such models."
            )
        ),
        evidence="the line of the traceback; eugr#217, TensorRT-LLM#6295",
    )


UNKNOWN_VALUE: Final = re.compile(
    r"^(?:Unsupported|Unknown|Unrecognized|Invalid|Unexpected) (?P<what>[a-zA-Z][\w -]{2,40}?)(?: type| name)?"
    r"(?:: ['\"`]?| ['\"`])(?P<value>[A-Za-z][\w.+-]{2,60})['\"`]?\.?$"
)


def value_without_a_list(case: Case) -> Verdict | None:
    """A value that the release does not know, where the message does not list what it knows."""
    found = UNKNOWN_VALUE.match(case.first_line) if case.raised.type else None
    if found is None or case.raised.name not in (
        "ValueError",
        "KeyError",
        "NotImplementedError",
        "RuntimeError",
        "TypeError",
    ):
        return None
    newer = case.newer
    return Verdict(
        code="value-not-known",
        meaning=(
            f"{case.here('This release')} does not know the {found['what']} {found['value']}: it is of a newer or "
            "older release, of a fork, of a plugin that is not installed or not loaded here, or misspelled."
        ),
        action=(
            f"Leave {found['value']} out, where it is an option or a field that may be missing. Else look where it "
            "comes from (a config file, the model's config.json), and take the release that it was written "
            f"for{f' (next: {newer.version})' if newer else ''}, or the value that this release has for it. A plugin "
            "must be installed in this environment, with a release that fits."
        ),
        evidence="the program's own registry; LMCache#638",
    )


LAYER: Final = re.compile(r"^['\"]?(?P<layer>(?:\w{1,40}\.){0,6}layers\.\d{1,4}\.[\w.]{2,80})['\"]?$")


def layer_of_another_rank(case: Case) -> Verdict | None:
    """A layer's name that a rank looks up outside of loading: the rank has other layers."""
    found = LAYER.match(case.text.strip()) if case.raised.name == "KeyError" else None
    frames = case.raised.frames
    cache = any(
        re.search(r"kv_cache|forward_context|attn_metadata|block_table|gpu_model_runner", one.path) for one in frames
    )
    if found is None or not cache or any("load_weights" in one.function for one in frames):
        return None
    stages = case.scan.start.option("pipeline_parallel_size", "pp_size")
    return Verdict(
        code="layer-of-another-rank",
        meaning=(
            f"This rank was told about {found['layer']}, which it does not hold: with pipeline "
            f"stages{f' ({stages})' if stages else ''} each rank has some layers alone, and the caches were handed "
            "out by another order of ranks than the layers."
        ),
        action=(
            "Start without pipeline stages (--tensor-parallel-size over the nodes, --pipeline-parallel-size 1), or "
            "with another executor (--distributed-executor-backend mp in place of ray, or the reverse), or without "
            "drafts. A newer release may number the ranks rightly."
        ),
        evidence="the name of the layer and the file that asks; eugr#233, vllm#36640",
    )


FORCED: Final = (
    (
        "attention",
        r"attention/|attn|mla|flashinfer",
        ("attention_backend", "prefill_attention_backend", "decode_attention_backend", "attention_config"),
    ),
    ("moe", r"moe", ("moe_backend", "moe_runner_backend")),
    ("linear", r"linear|gemm|quantization/", ("linear_backend", "fp8_gemm_runner_backend", "fp4_gemm_runner_backend")),
    ("mamba", r"mamba|gdn|fla/", ("mamba_backend", "gdn_backend", "linear_attn_backend")),
)
"""Parts of an engine by their files, and the options that force a backend of them."""


def forced_backend_fails(case: Case) -> Verdict | None:
    """An error in the code of a backend that an option forces."""
    for part, files, names in FORCED:
        given = [
            (name, value)
            for name in names
            if (value := case.scan.start.option(name)) and value not in ("None", "auto", "{}")
        ]
        last = next((one for one in reversed(case.raised.frames[-4:]) if re.search(files, one.path, re.I)), None)
        if (
            not given
            or last is None
            or case.raised.name
            not in (
                "AssertionError",
                "NotImplementedError",
                "RuntimeError",
                "ValueError",
                "KeyError",
                "TypeError",
                "AttributeError",
            )
        ):
            continue
        name, value = given[0]
        return Verdict(
            code="forced-backend-fails",
            meaning=(
                f"{last.path} stops in the code of a backend that was asked for ({name}={value[:80]}): "
                f"{case.first_line[:240]}. The engine by itself may choose another one for this model."
            ),
            action=(
                f"Leave --{name.replace('_', '-')} out, so that the engine chooses, or name another backend. "
                f"./build.py explain MODEL lists which {part} backend serves each layer on 12.1. A newer release may "
                "have mended it."
            ),
            evidence="the file that raised it and the option of the log; vllm#50774",
        )
    return None


REQUIRED: Final = re.compile(
    r"[Oo]nly [\[{(](?P<these>[^\]})\n]{3,300})[\]})](?: (?:attention |moe |kv )?backends?)? (?:is|are) "
    r"(?:supported|allowed)"
    r"|(?:only|currently only) (?:is |are )?(?:supported|available|implemented|works?|allowed) (?:for|with|by|on|in) "
    r"(?:the )?(?P<one>[A-Z][\w-]{2,40}|[a-z]\w*_\w+|triton|flashinfer|torch|cutlass|marlin) (?:\w{2,20} )?backends?\b"
    r"|only (?:supported|available|implemented) (?:in|by|with) (?P<list>[A-Z]\w{2,40}(?:, "
    r"[A-Z]\w{2,40}){0,6},? (?:and|or) "
    r"[A-Z]\w{2,40})"
    r"|(?:requires?|needs?|use) (?:the )?(?P<needs>[A-Z][\w-]{2,40}|[a-z]\w*_\w+|triton|flashinfer) "
    r"(?:attention |moe |linear )?backend\b"
)
GOT: Final = re.compile(
    r"[Gg]ot:? [`'\"]?(?:(?P<setting>\w{3,40}) ?= ?)?[`'\"]?(?P<got>[\w.-]{2,40})|"
    r"(?P<named>\w{0,30}backend) ?[=:] ?[`'\"]?(?P<value>[\w.-]{2,40})"
)
ASKED: Final = re.compile(r"(?P<name>\w{0,30}backend\w{0,10})\b")


def backend_required(case: Case) -> Verdict | None:
    """A feature or a model that one backend alone can serve, named by the message."""
    found = REQUIRED.search(case.text) if case.raised.type else None
    if found is None:
        return None
    these = [
        one for one in re.findall(r"[\w.-]{2,40}", found["these"] or found["list"] or "") if one not in ("and", "or")
    ]
    names = these or [found["one"] or found["needs"]]
    got = GOT.search(case.text)
    code = case.raised.frames[-1].code if case.raised.frames else ""
    asked = ASKED.search(code) or ASKED.search(case.text)
    part = "moe_backend" if any("moe" in one.lower() for one in names) else "attention_backend"
    setting = (got and (got["setting"] or got["named"])) or (asked["name"] if asked else "") or part
    given = (got and (got["got"] or got["value"])) or case.scan.start.option(setting)
    option = f"--{setting.replace('_', '-')}"
    here = f" Now it is {given}." if given and given not in names else ""
    others = f", or another of {', '.join(names)}" if len(names) > 1 else ""
    way = (
        f"In TensorRT-LLM it is {setting}: {names[0]} (LLM(…), or the file of --extra_llm_api_options)."
        if case.engine in ("trtllm", "tensorrt_llm")
        else f"{option} {next((one for one in names if 'triton' in one.lower()), names[0])}{others}."
    )
    any_of = " or ".join(names)
    refused = [one for one in names if re.search(r"trtllm", one, re.I) and case.engine in ("vllm", "sglang")]
    not_here = f" {refused[0]} has kernels for 10.x alone: not on a GB10." if refused else ""
    return Verdict(
        code="backend-required",
        meaning=f"This works with {any_of} alone ({setting}): {case.first_line[:240]}.{here}",
        action=f"{way}{not_here} Or leave {setting} out: the engine then chooses. A newer release may lift it.",
        evidence="the engine's own check; sglang#35080, TensorRT-LLM#13156",
    )


def templates_and_tokenizers(case: Case) -> Verdict | None:
    """A chat template that is not there or not valid; a tokenizer that cannot be read."""
    text = f"{case.raised.type}: {case.text}"
    if TEMPLATE.search(text) and ABSENT.search(case.text):
        return missing_file(case)
    if TEMPLATE.search(text):
        return Verdict(
            code="chat-template",
            meaning=(
                "There is no chat template that can be used: the model's tokenizer brings none (a base model), "
                "its file is not in the folder, or it is not valid Jinja."
            ),
            action="--chat-template FILE with the template of the model's family (the file must be in the "
            "container), or the instruct model; chat_template.jinja must be copied with the model. "
            "Requests to /v1/completions need none.",
            evidence="transformers 4.44 and newer have no default; vllm#39279, rank_llm#211",
        )
    found = TOKENIZER.search(text)
    if found and case.raised.type:
        return Verdict(
            code="tokenizer",
            meaning=(
                f"The tokenizer of the model cannot be read ({found[0][:100]}): its files are not all there, "
                f"or this release of transformers or tokenizers does not know their form."
            ),
            action=(
                f"Check that tokenizer.json, tokenizer_config.json and special files are in the folder; "
                f"{case.fitting('transformers') or 'take the transformers that the engine requires.'} "
                f"Mistral's models: --tokenizer-mode mistral."
            ),
            evidence="exceptions of transformers and tokenizers",
        )
    return None


def quantization_fields(case: Case) -> Verdict | None:
    """A checkpoint with scales that the model's class does not expect, or a config that does not name its format."""
    found = SCALES.search(case.text)
    loads = any("load_weights" in frame.function or "weight_loader" in frame.function for frame in case.raised.frames)
    missing = case.raised.name in ("KeyError", "ValueError", "AttributeError", "RuntimeError", "AssertionError")
    # The files lack a tensor which the engine looks for, and not the reverse.
    code = case.raised.frames[-1].code if case.raised.frames else ""
    lacks = NO_TENSOR.search(case.text) or (case.raised.name == "KeyError" and OF_FILES.search(code))
    if not (found and (missing or lacks)) and not (loads and QUANT.search(case.text) and missing):
        return None
    name = found["name"] if found else case.first_line[:120]
    last = name.rpartition(".")[2]
    joined = re.search(r"(?:qkv|gate_up|fused)\w*\.[kv]_scale$", name)
    method, reads = next((one for pattern, one in OF_A_METHOD.items() if re.search(pattern, last)), ("", ""))
    if found and lacks:
        return Verdict(
            code="quantization-fields",
            meaning=(
                f"The engine looks for {name}, and the checkpoint has no such tensor: its config says one format, and "
                "this layer is stored in another (mixed precision: FP8 beside NVFP4, or left unquantized), under "
                f"another name, or fused otherwise.{f' Such names are of {method}.' if method else ''}"
            ),
            action=(
                "model.safetensors.index.json lists what the files have of this layer. Take a newer release, which "
                "reads mixed checkpoints, or another checkpoint. If it worked before, the files were replaced under "
                "the same name: pin the revision of before (--revision), and look at the repository's history."
            ),
            evidence="names of parameters by the quantization methods; atlas PR#300, FreeToken#274",
        )
    if joined:
        return Verdict(
            code="quantization-fields",
            meaning=(
                f"The checkpoint has scales of the KV cache, and this release's class of the model joins the names of "
                f"projections while it reads them: it looks for {name}, which nothing is called."
            ),
            action=(
                "It is a fault of the model's class in this release: a newer release reads these scales. Until then a "
                "checkpoint without them (k_scale and v_scale left out), or the class of a newer release as a patch."
            ),
            evidence="a scale of the cache under the name of joined projections; vllm PR#37214, vllm#38303",
        )
    return Verdict(
        code="quantization-fields",
        meaning=(
            f"The checkpoint has {name}, and this release built the layer without it: it reads another quantization "
            f"than the files have, or none for this layer.{f' Such names are of {method}.' if method else ''}"
        ),
        action=(
            f"{reads} Does config.json have quantization_config (or is there a hf_quant_config.json beside it), and do "
            "its ignore and targets name this layer? Leave --quantization out, so that the config decides; "
            "a scale of the KV cache (k_scale, v_scale) needs --kv-cache-dtype fp8. Else the model's class of "
            "this release does not know the format: a newer release, or another checkpoint."
        ).strip(),
        evidence="names of parameters by the quantization methods; llm-compressor#959, llm-compressor#967, vllm#53950",
    )


JOINED: Final = re.compile(
    r"\[(?P<parts>['\"]\w{1,40}['\"](?:, ?['\"]\w{1,40}['\"]){1,12})\]|\b(?:shards|fused|packed|merged|joined)\b", re.I
)
DISAGREE: Final = re.compile(
    r"differ|\b(?:same|mixed|disagree|inconsistent|mismatch)|\bnot all\b|\bsome\b[^\n]{0,60}\bothers?\b", re.I
)
DOTTED: Final = re.compile(r"(?P<name>[A-Za-z_]\w{0,40}\.(?:\w{1,40}\.){1,12}[A-Za-z_]\w{0,40})(?![\w(])")


def parts_of_a_layer_disagree(case: Case) -> Verdict | None:
    """A layer that the engine joins of several, for which the quantization config says different things."""
    joined, layer = JOINED.search(case.text), DOTTED.search(case.text)
    decides = any(re.search(r"quantization/|quantizer", one.path) for one in case.raised.frames[-2:])
    refused = case.raised.name in ("ValueError", "RuntimeError", "NotImplementedError")
    if not (joined and layer and decides and refused and QUANT.search(case.text) and DISAGREE.search(case.text)):
        return None
    parts = f" of {joined['parts']}" if joined["parts"] else ""
    last = layer["name"].rpartition(".")[2]
    return Verdict(
        code="quantization-fields",
        meaning=(
            f"The engine joins several layers into one, {layer['name']}{parts}, and quantization_config of the "
            "checkpoint says different things of them: some are in its ignore list (or targets) by their own names, "
            f"and others, or {last} itself, are not. All parts of a joined layer must have one form."
        ),
        action=(
            f"In config.json, name all parts and the joined layer in quantization_config.ignore ({layer['name']}, or "
            f"re:.*{last}$), if the files hold them unquantized; model.safetensors.index.json shows that. A checkpoint "
            "that was made for this engine, or a release that joins these layers otherwise, is the other way: forks "
            "join more layers than the release that the checkpoint was made for."
        ),
        evidence="the layer's name, and the engine's own look-up in the quantization config; eugr#403",
    )


ENCODER: Final = re.compile(
    r"vision|image|audio|\bvit\b|_vit|siglip|encoder|_mm\.py|multimodal(?!_gen)|clippable", re.I
)
OF_SIZES: Final = re.compile(r"shape|size|\dd\b|dim|rank|dtype|pack|multiple|divisible|\d ?[x,] ?\d", re.I)
OF_A_FORM: Final = re.compile(r"quantization/|fp4|fp8|marlin|nvfp4|gptq|awq|scaled_mm", re.I)


def encoder_is_quantized(case: Case) -> Verdict | None:
    """A kernel of a quantization that gets a layer of the part for images or sound, which checkpoints leave alone."""
    frames = case.raised.frames[-8:]
    kernel = next((one for one in reversed(frames[-4:]) if OF_A_FORM.search(f"{one.path} {one.function}")), None)
    before = frames[: frames.index(kernel)] if kernel else ()
    layer = next((one for one in reversed(before) if "/models/" in one.path or ENCODER.search(one.path)), None)
    known = case.raised.name in ("ValueError", "RuntimeError", "AssertionError") and OF_SIZES.search(case.first_line)
    if kernel is None or layer is None or not ENCODER.search(layer.path) or not known:
        return None
    return Verdict(
        code="quantized-layer-is-read",
        meaning=(
            f"A layer of the model's part for images or sound ({layer.path}) was given to a kernel of a "
            f"quantization ({kernel.path}), which does not take it: {case.first_line[:240].rstrip('.')}. Checkpoints "
            "mostly leave this part unquantized (quantization_config: ignore), and this release does not find these "
            "layers under the names of that list."
        ),
        action=(
            "A newer release, or the layers' names as this engine calls them in quantization_config.ignore of "
            "config.json. For text alone: --language-model-only (SGLang: no images in requests). Another checkpoint of "
            "the model is the last way."
        ),
        evidence="the frames: an encoder's file, then a quantization's; sglang#24927",
    )


NO_TENSOR: Final = re.compile(
    r"(?:[Ww]eight|[Tt]ensor|[Pp]arameter|[Kk]ey)[^\n]{0,20}['\"`][^'\"`\n]{3,200}['\"`][^\n]{0,20}"
    r"(?:not found|missing|does not exist)|"
    r"[Mm]issing (?:weight|tensor|key)|(?:[Nn]o (?:such )?(?:weight|tensor)|[Cc]ould not find (?:weight|tensor))"
)
OF_FILES: Final = re.compile(
    r"(?:state_dict|weights?|tensors?|checkpoint|reader|handle|\bf)\w{0,12}(?:\.pop\(|\[|\.get_tensor\()"
)


SIZES: Final = re.compile(
    r"The size of tensor a \(\d+\) must match the size of tensor b \(\d+\)|shape mismatch: value tensor of shape"
    r"|mat1 and mat2 shapes cannot be multiplied|shape '\[[^\]]{1,80}\]' is invalid for input of size"
    r"|[Ss]izes of tensors must match|The expanded size of the tensor|cannot be broadcast to indexing result"
    r"|start \(\d+\) \+ length \(\d+\) exceeds dimension size|size mismatch, got"
    r"|split_with_sizes expects split_sizes to sum exactly"
)
"""What torch prints when shapes do not agree."""


def _packed(case: Case) -> str:
    """A sentence where two shapes differ by a factor of two in one dimension, as FP4 packs, with a quantization."""
    shapes = [[int(one) for one in re.findall(r"\d{1,9}", found)] for found in SHAPE.findall(case.text)]
    quantized = case.scan.start.option("quantization") not in (None, "None") or re.search(r"quant", case.trace(4))
    if len(shapes) != 2 or len(shapes[0]) != len(shapes[1]) or not quantized:
        return ""
    other = [(one, two) for one, two in zip(*shapes, strict=True) if one != two]
    if len(other) != 1 or max(other[0]) != 2 * min(other[0]):
        return ""
    return (
        f" {other[0][0]} and {other[0][1]} differ by two, and FP4 packs two numbers into a byte: the class takes this "
        "layer for quantized, and the files hold it unquantized, or the reverse."
    )


RANK_S_PART: Final = re.compile(
    r"start \((?P<start>\d{1,9})\) \+ length \((?P<length>\d{1,9})\) exceeds dimension size "
    r"\((?P<whole>\d{1,9})\)"
)


def _more_ranks_than_parts(case: Case) -> str:
    """A sentence where a rank's part of a weight begins behind its end: the weight has fewer parts than ranks."""
    found = RANK_S_PART.search(case.text)
    start, length, whole = (int(one) for one in found.groups()) if found else (0, 0, 0)
    if not length or start < whole or start % length:
        return ""
    ranks = case.scan.start.option("tp_size", "tensor_parallel_size")
    now = f" (now {ranks})" if ranks else ""
    return (
        f" This rank, number {start // length}, wants the part from {start} on, and with {length} a rank the weight "
        f"({whole}) has parts for {whole // length} ranks: fewer tensor parallel ranks{now}"
        f", {whole // length} or less, with pipeline stages or data parallel ranks over the other nodes."
    )


SHAPE: Final = re.compile(r"(?:torch\.Size\(|shape[ =:]{0,3}[\[(])\[?([\d, ]{3,60})\]?")


def sizes_do_not_agree(case: Case) -> Verdict | None:
    """Shapes of torch that do not agree: while weights are read, or in a part of the engine."""
    found, frames = SIZES.search(case.text), case.raised.frames
    checked = (
        case.asserts
        and re.search(r"\bshape\b|\.size\(|\.numel\(", frames[-1].code)
        and (not case.text or "shape" in case.first_line)
    )
    loads = any(READS_WEIGHTS.search(one.function) for one in frames)
    if found is None and not (checked and loads):
        return None
    said = case.first_line[:200] or frames[-1].code
    last = case.caller("torch")
    at = f" {last.path} copies or joins them." if last else ""
    if loads or any("_load_" in one.function for one in frames):
        return Verdict(
            code="weights-do-not-fit",
            meaning=(
                f"A weight of the checkpoint has another size than the model's class made room for: {said}.{at}"
                f"{_packed(case)}{_more_ranks_than_parts(case)} A layer is quantized (packed) in the files and not in "
                "the class, or the reverse; or "
                "experts were joined that the files hold apart; or a scale is one number for a layer that the class "
                "splits; or the files are of another model than config.json."
            ),
            action=(
                "Leave --quantization out, so that the config decides; does its ignore list name this layer (shared "
                "experts, lm_head, drafts)? SGLang: --disable-shared-experts-fusion. Start once without drafts. "
                "Else a newer release (or the one before, where it worked), or another checkpoint of the model."
            ),
            evidence="torch's own message and the frames that load; sglang#29562",
        )
    feature, leave = part_of(frames)
    if generic := next((one.path for one in frames if "models/transformers/" in one.path), ""):
        return Verdict(
            code="model-without-its-own-class",
            meaning=(
                f"The model runs through the engine's general backend for transformers ({generic}), because "
                f"{case.here('this release')} has no class of its own for it, and this backend counts a size of its "
                f"layers otherwise (heads of two sizes, joined layers): {said}."
            ),
            action=(
                "Take a release of the engine that has the model's own class (`Resolved architecture` in its log then "
                "has no Transformers in its name), and leave --model-impl out. Sizes, drafts and the GPU are not the "
                "cause; the original files and another quantization fail alike."
            ),
            evidence="the file of the general backend in the traceback; vllm#44494",
        )
    return Verdict(
        code="sizes-do-not-agree",
        meaning=(
            "Two tensors of the engine do not fit each other: "
            f"{said}.{at}{f' It is in the part for {feature}.' if feature else ''} Sizes that options set (blocks of "
            "the cache, drafts, parallel ranks, lengths) do not go with this model, or this release counts them "
            "wrongly."
        ),
        action=(
            f"{leave} Leave out sizes that you set (--block-size, --mamba-block-size, --num-speculative-tokens, "
            "parallel sizes): those that are left out are made to fit. If nothing was set it is a fault of the "
            "release: a newer one."
        ).strip(),
        evidence="torch's own message; vllm PR#57278",
    )


PARAMETER: Final = re.compile(
    r"(?P<name>(?:[\w-]{1,40}\.){1,12}(?:(?:\w{1,20}_)?(?:weight|bias)|[a-z]{1,12}_proj(?:\.\w{1,20})?|norm|"
    r"embed_tokens|"
    r"lm_head|A_log|D|dt_bias))(?![\w.])"
)
IN_QUOTES: Final = re.compile(
    r"['\"`](?P<name>(?:[A-Za-z][\w-]{0,40}\.)(?:\w{1,40}\.){1,12}\w{1,40})(?<!\.json)(?<!\.pth)['\"`]"
)
"""The name of any parameter or buffer: while weights are read, a quoted name with dots is one, or of a module."""
DRAFT: Final = re.compile(r"eagle|mtp|nextn|draft|spec|medusa|dspark|dflash", re.I)
LOADS: Final = re.compile(r"load|weight|param|state_dict", re.I)


DTYPES: Final = re.compile(r"(?:torch\.)?(?P<type>(?:b?float\d{1,2}\w*|half|u?int\d{1,2}|fp[48]\w*|bf16|fp16))\b")
LOADS_WEIGHTS: Final = re.compile(r"load_weights|weight_loader|load_model|copy_|param_data|loader")


def weights_of_another_type(case: Case) -> Verdict | None:
    """A weight whose data type is not that of the layer which the engine made for it."""
    types = list(dict.fromkeys(found["type"] for found in DTYPES.finditer(case.first_line)))
    if not case.raised.type or len(types) != 2 or not LOADS_WEIGHTS.search(case.trace(4)):
        return None
    if not re.search(r"cast|mismatch|expect|does not match|!=|not allowed|got|loaded", case.first_line, re.IGNORECASE):
        return None
    return Verdict(
        code="weights-do-not-fit",
        meaning=(
            f"While weights are loaded, one has another data type than the layer that the engine made for it "
            f"({types[0]} and {types[1]}): {case.first_line[:300].rstrip('.')}. The engine quantizes this "
            "layer, and the checkpoint leaves it as it was, or the reverse."
        ),
        action=(
            "Take a checkpoint whose layers are all of the quantization that its config says (config.json: ignore, "
            "modules_to_not_convert, exclude_modules), or leave --quantization and variables that switch on another "
            "form of this layer out. A release that knows the model's mixed form is newer than the model: try the "
            "next one."
        ),
        evidence="the two data types of the message, in the loading of weights",
    )


def weights_do_not_fit(case: Case) -> Verdict | None:
    """A parameter that the checkpoint has and the model's class has not, or the reverse."""
    frames = case.raised.frames[-6:]
    loads = any(LOADS.search(f"{frame.function} {frame.file}") for frame in frames)
    read = any(READS_WEIGHTS.search(frame.function) for frame in frames)
    quoted = IN_QUOTES.search(case.text) if read else None
    found = PARAMETER.search(case.text) or quoted
    sized = re.search(r"size mismatch|shape|The size of tensor", case.text)
    known = case.raised.name in ("KeyError", "AttributeError", "ValueError", "RuntimeError", "AssertionError")
    if found is None or not known or not (loads or case.raised.name == "KeyError" or sized):
        return None
    if found is quoted and found["name"].partition(".")[0] in case.packages:
        return None
    where = " ".join(frame.file for frame in case.raised.frames) + case.text
    drafts = DRAFT.search(where) is not None or case.drafts
    load = case.scan.start.option("load_format")
    own = f" (--load-format {load})" if load and load != "auto" else ""
    stages = case.scan.start.option("pipeline_parallel_size", "pp_size") or "1"
    split = (
        f"Pipeline stages are on ({stages}): each rank holds some layers alone, and a loader that does not leave out "
        "those of the others fails so. Start with --pipeline-parallel-size 1 and --tensor-parallel-size over all "
        "nodes; if that loads, a newer release is the mend. Else: "
        if stages != "1" and "layers." in found["name"]
        else ""
    )
    return Verdict(
        code="weights-do-not-fit",
        meaning=(
            f"The checkpoint{own} and the model's class of {case.here('this release')} do not agree about "
            f"{found['name']}"
        )
        + (": it is of the draft model (speculative decoding), or read as if it were." if drafts else "."),
        action=split
        + (
            (
                "Start once without drafts (--speculative-config, --speculative-algorithm). If it then loads: "
                "the draft checkpoint is of another kind than the method says, "
                "the load format (sharded_state) holds the main model alone, or this release does not know the "
                "draft's layers: take the release or image of the recipe. "
            )
            if drafts
            else "Take a release of the engine that is as new as the checkpoint, or a checkpoint for this release. "
        )
        + "A quantized or converted copy may name its parameters otherwise: try the original files.",
        evidence="names of parameters in the message, and where it was raised",
    )


def permissions(case: Case) -> Verdict | None:
    """A folder that this user may not write."""
    found = DENIED.search(f"{case.raised.type}: {case.text}")
    if found is None or not (case.raised.name in ("PermissionError", "OSError", "") or "ermission denied" in case.text):
        return None
    path = (found["go"] or found["path"] or found["other"] or found["read"]).strip().rstrip("'\".")
    if path.startswith("/dev/"):
        return None
    hub_cache = re.search(r"huggingface|hub|cache|triton|flashinfer|vllm|torch|nv|data|model", path, re.I)
    read = " The file system is mounted read-only." if found["read"] or "read-only" in found[0] else ""
    relative = (
        " The path does not begin with /: it is in the folder where the program starts, which an image that runs as "
        "another user than root mostly keeps from it."
    )
    relative = "" if path.startswith(("/", "~")) else relative
    return Verdict(
        code="not-writable",
        meaning=(
            f"This process may not write {path}: it belongs to another user (often root, by an earlier "
            f"container), or HOME points to a folder of another user.{read}{relative}"
        ),
        action=(
            "On the host: sudo chown -R $(id -u) the folder that is mounted there, or run the container as its "
            f"owner (--user UID). {OWN_CACHES if hub_cache else ''}"
        ).strip(),
        evidence="errno 13 of the kernel; harbor#262, tt-inference-server#37",
    )


def space_and_limits(case: Case) -> Verdict | None:
    """Disks, /dev/shm, open files, processes."""
    text = f"{case.raised.type}: {case.text} " + " ".join(frame.file for frame in case.raised.frames[-3:])
    if FULL.search(text) or BUS.search(text) or re.search(r"Error while creating shared memory segment", text):
        shared = SHM.search(text) or BUS.search(text)
        if shared:
            return Verdict(
                code="shm-is-full",
                meaning=(
                    "The container's /dev/shm is full: Docker gives it 64 MiB, and ranks and NCCL share buffers there."
                ),
                action=(
                    "--ipc=host or --shm-size 16g; compose: shm_size; Kubernetes: an emptyDir with medium "
                    "Memory at /dev/shm. A disk is not what is full (`df -h /dev/shm`). On a GB10 it is part "
                    "of the same memory."
                ),
                evidence="nccl#290, nccl#525, Megatron-LM#878, MiniMax-01#42",
            )
        return Verdict(
            code="disk-is-full",
            meaning="A disk is full: the download, a compile cache, or Docker's own folder.",
            action=(
                "`df -h` in the container and on the host; `docker system df`; move HF_HOME to a larger disk, "
                "./build.py weights lists what is there. If it is a container's /dev/shm: --shm-size."
            ),
            evidence="errno 28 of the kernel",
        )
    if FILES.search(text):
        return Verdict(
            code="too-many-files",
            meaning="The process has as many files and sockets open as it may.",
            action=(
                "docker run --ulimit nofile=65535:65535 (compose: ulimits; systemd: LimitNOFILE). Many clients "
                "that do not close their connections show so, too."
            ),
            evidence="errno 24 of the kernel; vLLM warns of it at its start (Found ulimit of …)",
        )
    if PROCESSES.search(text) and re.search(r"thread|fork|process", text, re.I):
        return Verdict(
            code="too-many-processes",
            meaning="The container may not start more threads or processes.",
            action=(
                "docker run --pids-limit -1 (Kubernetes: podPidsLimit), OMP_NUM_THREADS=8, MAX_JOBS=4 for "
                "kernels that are compiled at run time."
            ),
            evidence="errno 11 of the kernel",
        )
    return None


HELD: Final = re.compile(
    r"(?:occupied|used|held|taken) by (?:an)?other process|memory capacity is unbalanced"
    r"|other processes? (?:use|hold|occup)",
    re.I,
)


def memory_held_by_others(case: Case) -> Verdict | None:
    """Memory that is not free before the weights are read, though nothing of this server runs yet."""
    if not HELD.search(case.text):
        return None
    return Verdict(
        code="memory-is-held",
        meaning=(
            "Before this server read its weights, less memory was free than it expects: another process holds it, or "
            "a server that was ended hard did not give it back (nvidia-smi then shows no process)."
        ),
        action=(
            "`free -g` and `ps aux --sort -rss`: end other servers and old EngineCore or scheduler processes, drop "
            "the page cache. If nothing holds it and it is not free: reboot. Stop containers with time to end (docker "
            "stop -t 60)."
        ),
        evidence="the engine compares the ranks' free memory; al-engr.com/minimax-sglang-debug.html, minefield 123",
    )


GPU_IS_FULL: Final = re.compile(
    r"CUDA out of memory|Triton Error \[CUDA\]: out of memory|CUDA (?:driver )?error: out of memory|CUDA_ERROR_OUT_OF_"
    r"MEMORY|cudaErrorMemoryAllocation",
    re.IGNORECASE,
)
SIZE: Final = r"(\d{1,6}(?:\.\d{1,4})?) ?([KMG])iB"
ROOM: Final = {
    "asked": re.compile(rf"Tried to allocate {SIZE}"),
    "all": re.compile(rf"total capacity of {SIZE}"),
    "free": re.compile(rf"of which {SIZE} is free"),
    "own": re.compile(rf"this process has {SIZE} memory in use"),
    "loose": re.compile(rf"{SIZE} is reserved by PyTorch but unallocated"),
}
"""Sizes that torch prints when its allocator finds no room."""
OTHERS: Final = 0.08
"""The part of a GPU's memory that neither this process has nor is free, from which on others have it."""
LOOSE: Final = 0.02
"""The part of a GPU's memory that the allocator holds unused, from which on its pieces are worth a remedy."""
MEMORY_STEPS: Final = (
    (
        r"flashinfer/autotuner|flashinfer_autotune",
        "FlashInfer's autotuner tried kernels, with buffers of its own that the size of the cache does not count",
        "Start without it (--no-enable-flashinfer-autotune; SGLang: --disable-flashinfer-autotune), or with room for "
        "it: {less}",
    ),
    (
        r"autotun|do_bench|\b_bench\b",
        "a kernel in Triton was tuned at its first call, with buffers of its own that the size of the cache does not "
        "count",
        "Leave room for it: {less}",
    ),
    (
        r"captur",
        "CUDA graphs were captured, which need memory beside weights and cache",
        "{less} leaves them room; fewer graphs: --max-cudagraph-capture-size (SGLang: --cuda-graph-max-bs), "
        "or none: --enforce-eager (SGLang: --disable-cuda-graph)",
    ),
    (
        r"allocate_kv|kv_cache_tensors|initialize_kv_cache|initialize_from_config|init_memory_pool|_create_buffers|"
        r"memory_pool",
        "the KV cache was laid out, by the share of memory that it was given",
        "{less}, or a cache of fixed size (--kv-cache-memory-bytes; SGLang: --max-total-tokens)",
    ),
    (
        r"process_weights_after_loading|load_model|load_weights|create_weights|weight_loader|initialize_model",
        "the weights were read or repacked: they alone do not fit, and no setting of the cache helps",
        "A smaller or more quantized checkpoint, or more nodes (--tensor-parallel-size). Where it failed in "
        "process_weights_after_loading, a kernel holds a second copy: another --moe-backend or --linear-backend",
    ),
    (
        r"multimodal|vision|visual|_vit\b|mm_encoder|embed_multimodal",
        "pictures or sound went through their encoder",
        "Fewer and smaller ones: --limit-mm-per-prompt, --mm-processor-kwargs, or --language-model-only; {less}",
    ),
    (
        r"sampl|logits|log_softmax|logprobs",
        "logits were sampled, which need memory for each request and each entry of the vocabulary",
        "A smaller --max-num-seqs (SGLang: --max-running-requests), no prompt_logprobs; {less}",
    ),
    (
        r"profile_run|_dummy_run|determine_available_memory|profile_",
        "the engine ran its largest step to measure it, before there was a cache",
        "A smaller --max-num-batched-tokens and --max-num-seqs (SGLang: --chunked-prefill-size) make that step "
        "smaller; --gpu-memory-utilization does not",
    ),
    (
        r"execute_model|run_batch|forward_\w+|event_loop|step",
        "a step of requests ran",
        "{less} leaves it room; a smaller step: --max-num-batched-tokens, --max-num-seqs (SGLang: "
        "--chunked-prefill-size, --max-running-requests)",
    ),
)
"""By functions and files of a traceback, the innermost need first: what wanted memory, and what makes it need less."""


def gpu_memory_by_its_step(case: Case) -> Verdict | None:
    """An allocation on the GPU without room, whose frames say what needed it and whose sizes say who has the rest."""
    served = {"vllm", "sglang"} & {case.engine, *case.packages}
    if not GPU_IS_FULL.search(case.text) or not case.raised.frames or not served:
        return None
    trace = " ".join(f"{one.path} {one.function}" for one in case.raised.frames)
    step = next((one for one in MEMORY_STEPS if re.search(one[0], trace)), None)
    if step is None:
        return None
    gib = {
        name: float(found[1]) / 1024.0 ** "GMK".index(found[2])
        for name, form in ROOM.items()
        if (found := form.search(case.text))
    }
    asked = f"{gib['asked']:.3g} GiB were asked for" if "asked" in gib else "An allocation found no room"
    free = f", and {gib['free']:.3g} of {gib['all']:.4g} GiB were free" if {"free", "all"} <= gib.keys() else ""
    held = gib["all"] - gib["free"] - gib["own"] if {"free", "all", "own"} <= gib.keys() else 0.0
    others = (
        f" {held:.3g} GiB are of other processes: end them first (nvidia-smi, `ps aux --sort -rss`)."
        if held > OTHERS * gib.get("all", 1.0)
        else ""
    )
    split = (
        f" {gib['loose']:.3g} GiB are reserved and in pieces: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
        if gib.get("loose", 0.0) > max(gib.get("asked", float("inf")), LOOSE * gib.get("all", 0.0))
        else ""
    )
    share = case.scan.start.option("gpu_memory_utilization", "mem_fraction_static")
    name = "--mem-fraction-static" if case.engine == "sglang" else "--gpu-memory-utilization"
    todo = step[2].format(less=f"a smaller {name}{f' (now {share})' if share else ''}")
    return Verdict(
        code="memory-is-taken",
        meaning=f"Memory ran out while {step[1]}. {asked}{free}.",
        action=(
            f"{others}{split} {todo[0].upper()}{todo[1:]}. ./build.py recipe memory FILE computes what fits."
        ).strip(),
        evidence="the traceback's functions, and the allocator's own numbers",
    )


def memory_at_start(case: Case) -> Verdict | None:
    """Memory that others took before the start, or more asked for than there is."""
    text = f"{case.raised.type}: {case.text}"
    if not TAKEN.search(text) or "shared memory" in text:
        return None
    sizes = [float(one["number"]) for one in GIB.finditer(text)]
    profiled = PROFILED.search(text)
    if profiled and float(profiled["now"]) > float(profiled["first"]):
        return Verdict(
            code="memory-changed-at-start",
            meaning=(
                f"While the engine measured its memory, memory was given back by others: {profiled['first']} GiB were "
                f"free first, and {profiled['now']} GiB now. Another server ended meanwhile, or the page cache shrank: "
                "on a GB10 the files that were just read count, too. It is no lack of memory."
            ),
            action=(
                "Start again when nothing else starts or ends (`free -g` stays the same); drop the page cache before "
                "it. A cache of a fixed size needs no measuring: --kv-cache-memory-bytes."
            ),
            evidence="both numbers of the message; xr-ai PR#462",
        )
    tokens = TOKENS.search(text)
    if tokens and re.search(r"seq len|model_len|max_model_len|KV cache", text):
        asked, fits = int(tokens["asked"]), int(tokens["fits"])
        return Verdict(
            code="cache-does-not-fit",
            meaning=f"One request of {asked:,} tokens ({asked}) needs more KV cache than is left: {fits:,} tokens fit.",
            action=(
                f"--max-model-len {fits // 1024 * 1024} or less (now {asked}), --kv-cache-dtype fp8, or a "
                f"larger --gpu-memory-utilization if MemAvailable allows it."
            ),
            evidence="the numbers of the message; vllm#8933",
        )
    share = case.scan.start.option("gpu_memory_utilization", "mem_fraction_static")
    given = f" (now {share})" if share else ""
    seen = f" The message names {', '.join(f'{one:g} GiB' for one in sizes[:4])}." if sizes else ""
    return Verdict(
        code="memory-does-not-fit",
        meaning=(
            f"Weights, KV cache and what else runs do not fit into the memory of this GB10 (121.6 GiB for CPU "
            f"and GPU together).{seen}"
        ),
        action=(
            f"`free -g` before the start: other servers, page cache and desktops count. A smaller "
            f"--gpu-memory-utilization{given} leaves more to the system, a larger one more to the KV cache; "
            "a smaller --max-model-len or --max-num-seqs, --kv-cache-dtype fp8, or a second Spark. ./build.py "
            "recipe memory FILE computes it."
        ),
        evidence="one pool of memory, docs/run.md; vllm#27508",
    )


ABSENT: Final = re.compile(
    r"\[Errno 2\] No such file or directory: ['\"](?P<path>[^'\"\n]{1,300})|"
    r"(?P<named>[\w./~-]{1,200}\.\w{2,12})['\"`)]{0,2} (?:appears path-like, but )?(?:doesn't|does not) exist|"
    r"(?P<what>[\w./~-]{2,200}) is not a (?:file|directory|valid path)"
)


def missing_file(case: Case) -> Verdict | None:
    """A file or folder that was named, and is not where this process looks."""
    found = ABSENT.search(case.text)
    if found is None:
        return None
    path = found["path"] or found["named"] or found["what"] or ""
    option = option_with(case, path)
    template = " The file is the one of --chat-template: templates of engines' examples are in no image." * (
        path.endswith((".jinja", ".j2"))
    )
    return Verdict(
        code="file-is-not-there",
        meaning=(
            f"{path} is not there for this process{f' (given by {option})' if option else ''}: paths are of "
            f"the container, and one without / at its begin is sought in the folder where the server started.{template}"
        ),
        action=(
            f"Mount the file or its folder (-v HOST:CONTAINER) and give the container's path; `docker exec NAME ls -l "
            f"{path}` shows it. A mod or recipe that makes {path.rpartition('/')[2]} must run before the server."
        ),
        evidence="errno 2 of the kernel, and the engine's own check; eugr#294",
    )


FIELD: Final = re.compile(
    r"[Cc]onfig\w* (?:must (?:specify|have|contain|define|set)|has no|does not (?:have|specify|contain|define)|lacks|"
    r"is missing|missing)\W{1,4}(?:a |an |the |attribute |field |key )?[`'\"]?(?P<field>[\w.]{2,80})|"
    r"'(?P<type>\w{2,60}Config)' object has no attribute '(?P<name>\w{2,80})'|"
    r"[Ss]hould have an? `(?P<key>\w{2,60})` key in its config"
)


def config_without_a_field(case: Case) -> Verdict | None:
    """A config.json that lacks what the engine, or the method of its drafts, needs."""
    found = FIELD.search(case.text)
    if found is None:
        return None
    field = found["field"] or found["name"] or found["key"]
    where = case.text + " ".join(frame.file for frame in case.raised.frames[-4:])
    if DRAFT.search(where):
        return Verdict(
            code="config-without-a-field",
            meaning=(
                f"The config of the draft model has no {field}: the checkpoint is no draft of this method (it may be "
                f"the main model itself, or a draft for MTP or EAGLE): not what --speculative-config says."
            ),
            action=(
                "Name a draft checkpoint that was made for this method and this very model, or change the method (mtp "
                "for drafts inside of the checkpoint), or start without --speculative-config. Do not invent the number."
            ),
            evidence="the engine's own check of the draft's config.json; eugr#378",
        )
    return Verdict(
        code="config-without-a-field",
        meaning=(
            f"The model's config.json has no {field}, which {case.here('this release')} reads: it is of another format "
            f"or release than the model's class expects, or a part of it (text_config) was taken alone."
        ),
        action=(
            f"Compare config.json with the original model's page; a converted or quantized copy may have lost {field}. "
            f"{case.fitting('transformers')} Else take a newer release of the engine, or --hf-overrides with the field."
        ),
        evidence="the engine's own check of config.json",
    )


SETTING_FAMILIES: Final = (
    command_of_an_entrypoint,
    unknown_option,
    option_not_readable,
    argument_of_another_program,
    quantization_method,
    empty_variable,
    backend_required,
    value_not_in_registry,
    templates_and_tokenizers,
    permissions,
    space_and_limits,
)
LATE_SETTING_FAMILIES: Final = (
    parts_of_a_layer_disagree,
    quantization_fields,
    encoder_is_quantized,
    weights_do_not_fit,
    weights_of_another_type,
    sizes_do_not_agree,
    memory_held_by_others,
    gpu_memory_by_its_step,
    memory_at_start,
    backend_refused,
)
"""Those that speak only when no other family does."""
LAST_SETTING_FAMILIES: Final = (
    config_without_a_field,
    missing_file,
    value_is_none,
    layer_of_another_rank,
    value_without_a_list,
    forced_backend_fails,
)
