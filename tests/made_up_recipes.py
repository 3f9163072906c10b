"""Made-up recipes with odd values, and ways to run them: the same for the same seed, whatever the machine."""

import hashlib
import json
import random
from dataclasses import dataclass
from typing import Final

VALUES: Final = {
    "port": ["8000", "0x1F40", "8_000", "'8000'", "017500", "null", "8000.0"],
    "host": ["0.0.0.0", "127.0.0.1", "null", "'::'", "1.2"],  # noqa: S104 - a text of a recipe
    "tensor_parallel": ["1", "2", "4", "8", "'2'", "2.0", "null", "~", "0", "yes", "1:0", "-1"],
    "pipeline_parallel": ["1", "2", "null", "'2'"],
    "data_parallel": ["1", "2", "4", "null"],
    "gpu_memory_utilization": ["0.80", "0.9", "1e-1", "1.0e-1", ".8", "'0.85'", "null", "80"],
    "max_model_len": ["32768", "32_768", "auto", "-1", "0o17", "1:30", "null"],
    "served_model_name": ["foo", "'a b'", "foo bar", "null", "[a, b]", "''", "1", "'{model}-x'"],
    "speculative_config": [
        '\'{"method": "mtp", "num_speculative_tokens": 2}\'',
        "{method: mtp, num_speculative_tokens: 2}",
        '\'{{"method": "mtp"}}\'',
        "null",
        "[]",
    ],
    "enable_prefix_caching": ["true", "false", "yes", "off", "'false'", "null", "1", "0", "''"],
    "enforce_eager": ["true", "false", "on", "no", "null", "'True'"],
    "trust_remote_code": ["true", "false", "y", "n", "null"],
    "distributed_executor_backend": ["ray", "mp", "null", "'ray'", "Ray"],
    "custom_thing": ["a", "'{port}'", "'{nothing}'", "'}'", "'{{x}}'", "2020-01-01", "[1, {a: b}]", "{a: {b: 1}}"],
    "another_thing": ["'a\\b'", '"tab\\there"', "'{ port }'", "''", "é", ".inf", "1e3", "12e03", "0b11", "-0", "'%'"],
    "hf_overrides": ["{a: 1}", '\'{"a": {"b": 1}}\'', "{rope: {factor: 2.0, x: null, y: true}}"],
    "enable_dp_attention": ["true", "false", "null"],
    "ctx_size": ["4096", "null"],
    "chunked_prefill": ["8192", "null"],
    "flash_attn": ["true", "on"],
    "mmap": ["true", "false"],
    "compilation_config": ["{cudagraph_mode: FULL, pass_config: {fuse: true}}", "3"],
}
WORDS: Final = (
    *("--enable-auto-tool-choice", "--distributed-executor-backend ray", "--distributed-executor-backend=mp"),
    *("-tp 2", "--tensor-parallel-size=4", "-pp 2", "--data-parallel-size 2", "--served-model-name foo"),
    *("--x {{literal}}", "--y '{{\"a\": 1}}'", '--w "a b"', "--empty ''", "# comment", "&& echo done"),
    *("--enable-dp-attention", "--dp-size 2", "--alias x", "--trail \\", "--fmt {port:>6}", "{nothing}", "}"),
)
STARTS: Final = {
    "vllm": ("vllm serve org/m", "vllm serve '{model}'", "VLLM_X=1 vllm serve org/m"),
    "sglang": ("python3 -m sglang.launch_server --model-path org/m", "sglang serve --model-path {model}"),
    "llama-cpp": ("llama-server -hf org/m",),
    "trtllm": ("trtllm-serve org/m", "mpirun -n 2 trtllm-llmapi-launch trtllm-serve org/m"),
    "atlas": ("spark serve org/m",),
}
JOINS: Final = (" ", " \\\n  ", " \\\n\n", " \\  \n ", " \n", "  ")
ENDS: Final = ("", "", "\n", "\\", " \\ \n", "\n\n", "\n# end", "  ", "\n\\\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeUp:
    """A recipe's text, and one way to run it."""

    text: str
    nodes: tuple[str, ...]
    overrides: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...] = ()
    ray: bool = False


DIGITS: Final = 8
"""Characters of a digest."""


def digest_of(found: object) -> str:
    """A short digest of what a launcher makes of a case; None is what it refuses."""
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:DIGITS]


def made_up(version: str, number: int) -> MadeUp:
    """The case of a number, of recipe version 1 or 2."""
    rng = random.Random(f"{version} {number}")  # noqa: S311 - repeatable on purpose
    return _first(rng) if version == "1" else _second(rng)


def _first(rng: random.Random) -> MadeUp:
    names = _names(rng)
    lines = [
        f"recipe_version: {rng.choice(['1', chr(34) + '1' + chr(34)])}",
        f"name: {rng.choice(['Foo', repr('Foo: bar'), 'null', '1.10', 'yes'])}",
        f"container: {rng.choice(['vllm-node', 'vllm-node-tf5:latest', 'ghcr.io/x/y:1'])}",
        *_some(rng, "solo_only: true", "cluster_only: true", "solo_only: null"),
        *_some(rng, "mods: []", "mods:\n  - mods/a\n  - mods/b c", "build_args: [--tf5]"),
        *_some(rng, "env:", "env: {A: 1, B: x y}", "env:\n  H: $HOME/x\n  N: null\n  F: 0.80\n  O: 010\n  Y: yes"),
        _defaults(rng, {**names, "model": "org/m"}),
        _command(rng, "vllm", names),
    ]
    nodes = ((), ("10.0.0.1",), ("a", "b"), ("a", "b", "c", "d"), tuple(f"n{i}" for i in range(8)))
    overrides = ((), (), (("port", "9000"), ("host", "::1")), (("tensor_parallel", "2"), ("max_model_len", "4096")))
    arguments = ((), (), ("--x", "a b'c"), ("--distributed-executor-backend", "ray", '--y={"a": 1}'))
    chosen = rng.choice(nodes)
    return MadeUp(
        text="\n".join(lines) + "\n",
        nodes=chosen,
        overrides=rng.choice(overrides),
        arguments=rng.choice(arguments),
        ray=len(chosen) > 1 and not rng.randrange(4),
    )


def _second(rng: random.Random) -> MadeUp:
    engine = rng.choices(list(STARTS), [6, 3, 1, 1, 1])[0]
    names = _names(rng)
    runtimes = {"vllm": ["vllm", "vllm-distributed", "vllm-ray", "eugr-vllm"]}.get(engine, [engine])
    lines = [
        *_some(rng, 'recipe_version: "2"', "recipe_version: 3"),
        f"model: {rng.choice(['org/m', 'org/Model-1.0', '/models/m', repr('org/m:Q4_K_M')])}",
        *([f"runtime: {rng.choice(runtimes)}"] if engine == "atlas" or rng.randrange(4) else []),
        *([f"container: {rng.choice(['ghcr.io/x/y:1', 'x@sha256:' + '0' * 64])}"]),
        *_some(
            rng, "min_nodes: 1", "max_nodes: 1", "max_nodes: 4", "mode: solo", "solo_only: true", "model_revision: ab"
        ),
        *_some(rng, "env:", "env: {}", "env: {A: 1}", "mods: []"),
        _defaults(rng, names),
        *([_command(rng, engine, names)] if rng.randrange(4) else []),
    ]
    overrides = (
        *((), (), (), (("tensor_parallel", "2"),), (("data_parallel", "2"), ("tensor_parallel", "1"))),
        *((("port", "9000"), ("served_model_name", "x y")), (("distributed_executor_backend", "ray"),)),
        *(
            (("speculative_config.num_speculative_tokens", "3"),),
            (("enforce_eager", "true"), ("max_model_len", "4096")),
        ),
        *((("pipeline_parallel", "2"), ("tensor_parallel", "2")), (("env.A", "1"), ("hf_overrides", '{"a": 2}'))),
    )
    count = rng.choice([1, 1, 2, 4, 8])
    nodes = tuple(f"10.0.0.{number}" for number in range(1, count + 1))
    return MadeUp(text="\n".join(lines) + "\n", nodes=nodes, overrides=rng.choice(overrides))


def _names(rng: random.Random) -> dict[str, str]:
    chosen = rng.sample(list(VALUES), rng.randrange(1, 10))
    if rng.randrange(3) and "tensor_parallel" not in chosen:
        chosen.append("tensor_parallel")
    return {name: rng.choice(VALUES[name]) for name in ("port", *(name for name in chosen if name != "port"))}


def _some(rng: random.Random, *lines: str) -> list[str]:
    return [rng.choice(lines)] if not rng.randrange(3) else []


def _defaults(_: random.Random, values: dict[str, str]) -> str:
    return "defaults:\n" + "\n".join(f"  {name}: {value}" for name, value in values.items())


def _command(rng: random.Random, engine: str, names: dict[str, str]) -> str:
    parts = [rng.choice(STARTS[engine])]
    for _ in range(rng.randrange(8)):
        name = rng.choice(list(names))
        filled = f"--{name.replace('_', '-')}{rng.choice(' =')}{{{name}}}"
        parts.append(filled if rng.randrange(3) else rng.choice(WORDS))
    text = rng.choice(JOINS).join(parts) + rng.choice(ENDS)
    return f"command: |{rng.choice(['', '', '-', '+'])}\n" + "\n".join(
        f"  {line}" if line else line for line in text.split("\n")
    )
