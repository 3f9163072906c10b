"""A choice as a model recipe: the text of a file that a person can read, change and keep. Pure."""

import json
import re
from typing import Final

from gb10.models.choose.choosing import DRAFTS, Choice
from gb10.models.choose.llama_cpp import UBATCH
from gb10.models.memory.estimating import Estimate

WORD: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")
WIDTH: Final = 100
GGUF: Final = re.compile(r"(?:-\d{5}-of-\d{5})?\.gguf$")
"""What ends the name of a GGUF file, or of the first one of a model that was split."""
ALL_LAYERS: Final = "999"
PLAIN: Final = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*")


def recipe_name(model: str) -> str:
    """The name of a model's recipe: the last part of the model's, in small letters."""
    last = GGUF.sub("", model.rstrip("/").rpartition("/")[2].lower())
    return "-".join(WORD.findall(last)) or "model"


def recipe_text(choice: Choice) -> str:
    """The recipe; each choice has its reason as a comment, and the memory that was computed."""
    files, launch = choice.files, choice.launch
    why = {reason.what: f"{reason.value}: {reason.why}" for reason in choice.reasons}
    given = _parameters(choice)
    head = [
        f"# {ascii(files.name)[1:-1]}, chosen by gb10 from its files. Change what you know better.",
        *(line for what, text in why.items() if what not in given for line in _comment(f"{what} {text}")),
    ]
    body = [
        'recipe_version: "2"',
        f"model: {_scalar(files.name)}",
        f"description: {recipe_name(files.name)} on {_count(launch.nodes)}",
        f"runtime: {choice.engine}",
        *([f"container: {choice.container}"] if choice.container else []),
        f"min_nodes: {launch.nodes}",
        f"max_nodes: {launch.nodes}",
        *([f"model_revision: {files.revision}"] if files.revision else []),
        "defaults:",
        "  host: 0.0.0.0",
        "  port: 8000",
        *(
            line
            for name, value in given.items()
            for line in (*_comment(why[name].partition(": ")[2], "  "), f"  {name}: {value}")
        ),
        *(
            ['  speculative: "" # flags of speculative decoding; empty is without']
            if choice.draft_length is not None
            else []
        ),
        *(["env:"] if choice.environment else []),
        *(f'  {name}: "{value}"' for name, value in choice.environment),
        "command: |",
        *_command(choice),
        "gb10:",
        f"  engine: {choice.engine}",
        *([f'  releases: ">={launch.release}"'] if launch.release else []),
        "  status: not measured",
        *(["  answers: audio/transcriptions"] if choice.transcribes else []),
        *_variants(choice),
        "  notes:",
        f'    - "{_memory(choice.found)}"',
    ]
    return "\n".join([*head, *body]) + "\n"


def _scalar(text: str) -> str:
    """A text as YAML's plain scalar, or in quotation marks."""
    return text if PLAIN.fullmatch(text) else json.dumps(text)


def _count(nodes: int) -> str:
    return "one Spark" if nodes == 1 else f"{nodes} Sparks"


def _comment(text: str, indent: str = "") -> list[str]:
    """A comment in lines of a readable width."""
    found, line = list[str](), f"{indent}#"
    for word in text.split():
        if len(line) + len(word) > WIDTH:
            found.append(line)
            line = f"{indent}#"
        line += f" {word}"
    return [*found, line]


def _parameters(choice: Choice) -> dict[str, str]:
    """The parameters that a choice gives, in the order of the file."""
    launch = choice.launch
    if choice.engine == "llama-cpp":
        return {
            "ctx_size": str(launch.length),
            "max_num_seqs": str(launch.requests),
            "n_gpu_layers": ALL_LAYERS,
            "ubatch_size": str(launch.batched),
        }
    return {
        "tensor_parallel": str(launch.ranks.tensor),
        "gpu_memory_utilization": f"{launch.fraction:.2f}",
        "max_model_len": str(launch.length),
        "max_num_seqs": str(launch.requests),
    }


def _command(choice: Choice) -> list[str]:
    """The engine's command, its parameters by name."""
    launch, files = choice.launch, choice.files
    if choice.engine == "llama-cpp":
        batch = "--batch-size {ubatch_size} " if (launch.batched or 0) > UBATCH else ""  # by default 2,048
        parts = [
            f"llama-server {'-m' if files.name.startswith('/') else '-hf'} {{model}} --alias {recipe_name(files.name)}",
            "--host {host} --port {port}",
            "--ctx-size {ctx_size} --parallel {max_num_seqs}",
            f"--n-gpu-layers {{n_gpu_layers}} {batch}--ubatch-size {{ubatch_size}}",
            " ".join(choice.options),
        ]
        return ["  " + " \\\n    ".join(parts)]
    drafts = ["{speculative}"] if choice.draft_length is not None else []
    revision = ["--revision {model_revision}"] if files.revision else []
    cache = [f"--kv-cache-dtype {launch.cache_type}"] if launch.cache_type != "auto" else []
    options = [" ".join(choice.options)] if choice.options else []
    if choice.engine == "vllm":
        pooling = ["--runner pooling"] if choice.pools else []
        parts = [
            "vllm serve {model}",
            "--host {host} --port {port} -tp {tensor_parallel}",
            "--gpu-memory-utilization {gpu_memory_utilization}",
            "--max-model-len {max_model_len} --max-num-seqs {max_num_seqs}",
            f"--max-num-batched-tokens {launch.batched}",
        ]
    else:
        pooling = ["--is-embedding"] if choice.pools else []
        parts = [
            "python3 -m sglang.launch_server --model-path {model}",
            "--host {host} --port {port} --tp-size {tensor_parallel}",
            "--mem-fraction-static {gpu_memory_utilization}",
            "--context-length {max_model_len} --max-running-requests {max_num_seqs}",
            f"--chunked-prefill-size {launch.batched}",
        ]
    whole = [*parts, *revision, *cache, *pooling, *options, *drafts]
    return ["  " + " \\\n    ".join(whole)]


def _variants(choice: Choice) -> list[str]:
    if choice.draft_length is None:
        return []
    flags = (
        f"--speculative-config.method mtp --speculative-config.num_speculative_tokens {DRAFTS}"
        if choice.engine == "vllm"
        else "--speculative-algorithm EAGLE --speculative-num-steps 2 --speculative-eagle-topk 1 "
        "--speculative-num-draft-tokens 3"
    )
    what = 'what: "The model\'s own layer drafts two tokens; not measured"'
    shorter = f", max_model_len: {choice.draft_length}" if choice.draft_length != choice.launch.length else ""
    return ["  variants:", "    mtp:", f"      {what}", f"      set: {{speculative: {flags}{shorter}}}"]


def _memory(found: Estimate) -> str:
    budget = found.tightest
    return f"Computed: {budget.serving / (1 << 30):.1f} of {budget.total / (1 << 30):.1f} GiB in use on a node."
