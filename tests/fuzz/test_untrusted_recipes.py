"""Recipes of somebody else that try to run a program: each really runs, by a shell and as `run` starts it.

The programs only make a file PWN. With trust a shell reads the recipe: there most variants make the file, which shows
that they are what they seem. Without trust a variant is refused, or it makes no file.
"""

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from gb10.core.reporter import Reporter
from gb10.errors import UsageError
from gb10.models.load.loading import load_model_recipe
from gb10.models.registries.recipe_file import RecipeFile
from gb10.models.registries.registry import Registry
from gb10.models.render.rendered import RenderRequest
from gb10.models.render.untrusted_command import NotPlainError, plain_command
from gb10.serving.deploy.deployment import inline
from gb10.serving.run.prepare_service import PreparedService, RecipeSource, ServiceRequest, prepare_recipe
from gb10.serving.run.service import SCRIPT, ContainerSettings, container_options
from gb10.serving.run.service_nodes import nodes_of
from tests.hang import PATIENCE

PWN: Final = "pwn"
"""A program that makes the file, whatever stands behind its name."""
SERVE: Final = "vllm serve org/m --port 8000"
V2: Final[dict[str, object]] = {"model": "org/m", "container": "vllm/vllm-openai:v0.33.0", "command": SERVE}
V1: Final[dict[str, object]] = {**V2, "recipe_version": "1", "name": "n"}
OWN: Final = {"engine": "vllm", "releases": ">=0.33", "status": "not measured"}
OURS: Final[dict[str, object]] = {**V2, "gb10": OWN}
NODES: Final = ("10.0.0.1", "10.0.0.2")
SERVERS: Final = ("vllm", "sglang", "llama-server", "rpc-server", "tokenary", "spark", "max", "trtllm-serve", "ray")
SERVER: Final = r"""#!/bin/sh
printf "%s\0" "${0##*/}" "$@" >"$SEEN"
for word; do case $word in /dev/fd/*) cat "$word" >/dev/null ;; esac; done
"""
"""It reads what a process substitution gives, so it does not end before that process: the container would end it."""
PROGRAM: Final = "#!/bin/sh\n: >PWN\n"
WRITES: Final = "open('PWN', 'w')\n"
MODULE: Final = "vllm/entrypoints/openai/api_server.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A recipe, and how it is asked for. ``shown``: a shell makes the file of it in this test."""

    name: str
    keys: dict[str, object]
    nodes: tuple[str, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()
    arguments: tuple[str, ...] = ()
    variant: str | None = None
    shown: bool = True


VALUES: Final = {
    "substitution": f"$({PWN})",
    "backticks": f"`{PWN}`",
    "semicolon": f"1; {PWN}",
    "and": f"1 && {PWN}",
    "or": f"1 & {PWN} || id",
    "pipe": f"1 | {PWN}",
    "background": f"1 & {PWN}",
    "second line": f"1\n{PWN}",
    "process": f"<({PWN})",
    "default of a variable": f"${{NONE:-$({PWN})}}",
    "old arithmetic": f"$[a[$({PWN})]]",
    "arithmetic": f"$((a[$({PWN})]))",
    "redirection": "1 > PWN",
    "redirection without blanks": "1>PWN",
    "braces": f"1{{1,$({PWN})}}",
    "here-string": f"1 <<< $({PWN})",
    "group": f"1; {{ {PWN}; }}; :",
    "second line after a comment": f"1 # x\n{PWN}",
}
"""Values that a shell runs where they stand bare."""
QUOTED: Final = {
    "ends single quotes": f"x' ; {PWN} ; '",
    "ends single quotes by a substitution": f"x'$({PWN})'",
    "ends single quotes by a line": f"x'\n{PWN}\necho '",
}
SEPARATORS: Final = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
COMMANDS: Final = {
    "dollar quotes": f"{SERVE} $'\\'' ; {PWN} #'",
    "double quotes in dollar quotes": f'{SERVE} $"$({PWN})"',
    "double quotes": f'{SERVE} --x "$({PWN})"',
    "single quotes around a backslash": f"{SERVE} '\\' ; {PWN} ; echo '\\'",
    "an escaped quote": f"{SERVE} \\' ; {PWN} ; echo \\'",
    "a quote in a comment": f"{SERVE} # it's\n{PWN} # it's",
    "two backslashes, line": f"{SERVE} \\\\\n{PWN}",
    "a comment that ends in a backslash": f"# x \\\n{PWN}\n{SERVE}",
    "a comment, then more": f"# x\n{PWN}\n{SERVE}",
    "a comment in the middle": f"{SERVE} \\\n # x \\\n {PWN}\n{PWN}",
    "a line before": f"{PWN}\n{SERVE}",
    "a line after": f"{SERVE}\n{PWN}",
    "a semicolon without blanks": f"{SERVE};{PWN}",
    "an assignment": f"A=$({PWN}) {SERVE}",
    "an assignment of an array": f"A=($({PWN})) ; {SERVE}",
    "a subscript": f"A[$({PWN})]=1 ; {SERVE}",
    "a path before": f"PATH=evil/bin:$PATH {SERVE}",
    "a variable of bash before": f"BASH_ENV=x true; {PWN}; {SERVE}",
    "a redirection": f"{SERVE} > PWN",
    "a redirection before": f"> PWN {SERVE}",
    "a redirection of errors": f"{SERVE} 2>PWN",
    "a redirection of all": f"{SERVE} &>PWN",
    "an appending redirection": f"{SERVE} >>PWN",
    "a read-write redirection": f"{SERVE} 9<>PWN",
    "a here-document": f"{SERVE} <<X\n$({PWN})\nX",
    "a function": f"vllm() {{ {PWN}; }}; {SERVE}",
    "a function by name": f"function vllm {{ {PWN}; }}\n{SERVE}",
    "an alias": f"shopt -s expand_aliases; alias vllm='{PWN};'\n{SERVE}",
    "a trap": f"trap '{PWN}' EXIT; {SERVE}",
    "not": f"! {SERVE} || {PWN}; {PWN}",
    "time": f"time {PWN}; {SERVE}",
    "coproc": f"coproc {PWN}; wait; {SERVE}",
    "exec": f"exec {PWN}",
    "eval": f"eval '{PWN}'; {SERVE}",
    "env": f"env {PWN} {SERVE}",
    "bash": f"bash -c '{PWN}' {SERVE}",
    "command": f"command {PWN}",
    "nohup": f"nohup {PWN}",
    "a subshell": f"({PWN}); {SERVE}",
    "a group": f"{{ {PWN}; }} ; {SERVE}",
    "if": f"if {PWN}; then {SERVE}; fi; :",
    "for": f"for x in $({PWN}); do :; done; {SERVE}",
    "case": f"case $({PWN}) in *) {SERVE};; esac; :",
    "while": f"while {PWN}; do {SERVE}; break; done; :",
    "condition": f"[[ -n $({PWN}) ]]; {SERVE}",
    "let": f"let 'a[$({PWN})]=1'; {SERVE}",
    "printf": f"printf -v 'a[$({PWN})]' x; {SERVE}",
    "a program beside": f"/bin/sh -c {PWN}",
    "a path that looks like a server": f"llama-server/../../x || {PWN}",
    "a server's name as a prefix": f"vllm serve-x; {PWN}",
    "pipeline": f"{SERVE} |& {PWN}",
    "a module beside": "python3 -m evil.beside",
    "a pattern": f"shopt -s extglob\n{SERVE} @($({PWN}))",
    "tilde and more": f"{SERVE} ~/x$({PWN})",
}
NAMED: Final = {"X": f"a[$({PWN})]", "Y": f"$({PWN})"}
EXPANSIONS: Final = {
    "prompt": "${Y@P}",
    "offset": "${PATH:X}",
    "length": "${PATH:0:X}",
    "old arithmetic": "$[X]",
    "arithmetic": "$((X))",
    "indirect": "${!X}",
}
VARIABLES: Final[dict[str, dict[str, str]]] = {
    "BASH_ENV": {"BASH_ENV": f"$({PWN})"},
    "BASH_ENV by backticks": {"BASH_ENV": f"`{PWN}`"},
    "BASH_ENV, a file": {"BASH_ENV": "evil/start"},
    "PATH": {"PATH": "evil/bin:/usr/bin:/bin"},
    "SHELLOPTS and BASH_ENV": {"SHELLOPTS": "braceexpand", "BASH_ENV": f"$({PWN})"},
}
PYTHON: Final[dict[str, dict[str, str]]] = {"PYTHONPATH": {"PYTHONPATH": "evil/python"}}
SILENT: Final[dict[str, dict[str, str]]] = {
    "PS4": {"SHELLOPTS": "xtrace", "PS4": f"$({PWN})"},
    "ENV": {"ENV": f"$({PWN})"},
    "LD_PRELOAD": {"LD_PRELOAD": "evil/x.so"},
    "LD_LIBRARY_PATH": {"LD_LIBRARY_PATH": "evil"},
    "LD_AUDIT": {"LD_AUDIT": "evil/x.so"},
    "PROMPT_COMMAND": {"PROMPT_COMMAND": PWN},
    "PYTHONSTARTUP": {"PYTHONSTARTUP": "evil/start"},
    "PYTHONHOME": {"PYTHONHOME": "evil"},
    "VLLM_NCCL_SO_PATH": {"VLLM_NCCL_SO_PATH": "evil/x.so"},
    "NCCL_NET_PLUGIN": {"NCCL_NET_PLUGIN": "evil"},
    "HF_ENDPOINT": {"HF_ENDPOINT": "https://example.org"},
    "GCONV_PATH": {"GCONV_PATH": "evil"},
}
"""Variables of other programs than those that this test has. Root's bash takes no PS4 from outside."""
MADE: Final = ("port", "tool_call_parser", "tokenizer_mode", "served_model_name", "kv_cache_dtype", "seed")
"""Parameters of vLLM that stand bare in the command that is made of them."""


def variants() -> Iterator[Variant]:
    """All of them."""
    for name, text in VALUES.items():
        one = {**V2, "command": "vllm serve {model} --x {x}", "defaults": {"x": text}}
        yield Variant(name=f"value: {name}", keys=one)
        yield Variant(
            name=f"value, version 1: {name}", keys={**V1, "command": f"{SERVE} --x {{x}}", "defaults": {"x": text}}
        )
        yield Variant(
            name=f"no command: {name}", keys={**V2, "command": None, "runtime": "vllm", "defaults": {"dtype": text}}
        )
        own = {**one, "defaults": {"x": 1}}
        yield Variant(name=f"the user's own: {name}", keys=own, overrides=(("x", text),), shown=False)
    for name, text in QUOTED.items():
        for key, keys in (("value", V2), ("value, version 1", V1)):
            yield Variant(
                name=f"{key}: {name}", keys={**keys, "command": f"{SERVE} --x '{{x}}'", "defaults": {"x": text}}
            )
    yield from _places()
    for name, text in COMMANDS.items():
        yield Variant(name=f"command: {name}", keys={**V2, "command": text})
    for name in (
        "dollar quotes",
        "a comment that ends in a backslash",
        "a trap",
        "a line before",
    ):
        text = COMMANDS[name].replace("{", "{{").replace("}", "}}")
        yield Variant(name=f"command, version 1: {name}", keys={**V1, "command": text})
    for char in " \t":  # sparkrun mends such a line, and so do we in version 2
        keys = {**V1, "command": f"{SERVE} \\{char}\n{PWN}"}
        yield Variant(name=f"command, version 1: a backslash and U+{ord(char):04X} at a line's end", keys=keys)
    for char in SEPARATORS:
        text = f"{SERVE} x{char}#y ; {PWN}"
        yield Variant(name=f"a line that only Python ends: U+{ord(char):04X}", keys={**V2, "command": text})
    for name, text in EXPANSIONS.items():
        yield Variant(name=f"expansion: {name}", keys={**V2, "command": f"{SERVE} {text}", "env": NAMED})
    for name, env in VARIABLES.items():
        yield Variant(name=f"variable: {name}", keys={**V2, "env": env})
        before = " ".join(f"{key}='{value}'" for key, value in env.items())
        yield Variant(
            name=f"variable before the command: {name}", keys={**V2, "command": f"{before} bash -c 'vllm' && {SERVE}"}
        )
    module = "python3 -m vllm.entrypoints.openai.api_server --model m"
    for name, env in PYTHON.items():
        yield Variant(name=f"variable: {name}", keys={**V2, "command": module, "env": env})
        yield Variant(name=f"variable, version 1: {name}", keys={**V1, "command": module, "env": env})
    for name, env in SILENT.items():
        yield Variant(name=f"variable: {name}", keys={**V2, "env": env}, shown=False)


def _places() -> Iterator[Variant]:
    """The same program at other places of a recipe."""
    run, text = f"$({PWN})", f"1; {PWN}; :"
    for name in MADE:
        yield Variant(name=f"made of {name}", keys={**V2, "command": None, "runtime": "vllm", "defaults": {name: text}})
    yield Variant(name="port", keys={**V2, "command": "vllm serve m --port {port}", "defaults": {"port": text}})
    for runtime, key in (
        ("sglang", "kv_cache_dtype"),
        ("llama-cpp", "threads"),
        ("tokenary", "dtype"),
        ("atlas", "dump"),
    ):
        yield Variant(
            name=f"made for {runtime}", keys={**V2, "command": None, "runtime": runtime, "defaults": {key: text}}
        )
    program = {**V2, "command": None, "runtime": "tokenary", "defaults": {"command_binary": PWN}}
    yield Variant(name="a program of tokenary", keys=program)
    yield Variant(name="model", keys={**V2, "model": f"m;{PWN}", "command": "vllm serve {model}"})
    yield Variant(name="model without a command", keys={**V2, "model": f"m;{PWN}", "command": None, "runtime": "vllm"})
    yield Variant(name="served name", keys={**V2, "command": "vllm serve m", "defaults": {"served_model_name": run}})
    yield Variant(name="executor", keys={**V2, "defaults": {"distributed_executor_backend": f"mp;{PWN};:"}})
    yield Variant(name="name, version 1", keys={**V1, "name": f"n\n{PWN}"})
    for name, value in (
        ("substitution", run),
        ("quotes", f'x"; {PWN}; "'),
        ("backticks", f"`{PWN}`"),
        ("line", f'"\n{PWN}\n"'),
    ):
        yield Variant(name=f"variable's value, version 1: {name}", keys={**V1, "env": {"VLLM_A": value}})
    for name, key in (("substitution", f"A$({PWN})"), ("line", f"A\n{PWN}\nB"), ("semicolon", f"A=1;{PWN};B")):
        yield Variant(name=f"variable's name, version 1: {name}", keys={**V1, "env": {key: "x"}})
    chosen = {**OWN, "variants": {"v": {"what": "x", "set": {"x": run}}}}
    one = {**OURS, "gb10": chosen, "command": f"{SERVE} --x {{x}}", "defaults": {"x": 1}}
    yield Variant(name="a variant", keys=one, variant="v")
    chosen = {**OWN, "variants": {"v": {"what": "x", "set": {"env.BASH_ENV": run}}}}
    yield Variant(name="a variant's variable", keys={**OURS, "gb10": chosen}, variant="v")
    yield Variant(name="the user's own variable", keys=V2, overrides=(("env.BASH_ENV", run),))
    for runtime, command, key in (
        ("llama-cpp", "llama-server -m m.gguf", "threads"),
        ("atlas", None, "dump"),
        ("tokenary", None, "dtype"),
        ("sglang", "sglang serve --model-path m --x {x}", "x"),
    ):
        defaults = {"tensor_parallel": 2, key: text}
        keys = {**V2, "runtime": runtime, "command": command, "defaults": defaults}
        yield Variant(name=f"two nodes of {runtime}", keys=keys, nodes=NODES)
    two = {"tensor_parallel": 2, "x": text}
    several = "vllm serve m -tp {tensor_parallel} --x {x}"
    yield Variant(name="two nodes", keys={**V2, "command": several, "defaults": two}, nodes=NODES)
    yield Variant(name="two nodes, version 1", keys={**V1, "command": several, "defaults": two}, nodes=NODES)
    ray = {**V2, "runtime": "vllm-ray", "command": several, "defaults": two}
    yield Variant(name="two nodes by Ray", keys=ray, nodes=NODES, shown=False)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that say how they were called, and the first process."""
    root = tmp_path_factory.mktemp("tools")
    (root / "bin").mkdir()
    for name in SERVERS:
        (root / "bin" / name).write_text(SERVER, encoding="utf-8")
        (root / "bin" / name).chmod(0o755)
    (root / "bin" / PWN).write_text(PROGRAM, encoding="utf-8")
    (root / "bin" / PWN).chmod(0o755)
    (root / "bin/python3").symlink_to(sys.executable)
    return root


def asked(variant: Variant, *, trust: bool) -> PreparedService:
    """The service of a variant, whose recipe is of a registry. Raises UsageError."""
    text = yaml.safe_dump(variant.keys, sort_keys=False, allow_unicode=False)
    registry = Registry(name="r", kind="folder", source="/r", pin="0" * 64)
    file = RecipeFile(Path("/r/x.yaml"), registry, Path("/r"))
    request = RenderRequest(overrides=variant.overrides, arguments=variant.arguments, variant=variant.variant)
    wanted = ServiceRequest(
        nodes=",".join(variant.nodes) or None,
        render=request,
        name="x",
        trust=trust,
        containers=ContainerSettings(gpus=False, least=1),
    )
    source = RecipeSource(recipe=load_model_recipe(text, "@r/x.yaml"), file=file)
    return prepare_recipe(Reporter({}), source, wanted, nodes_of(variant.nodes))


def ran(found: PreparedService, tools: Path, place: Path) -> list[list[str]]:
    """Start every node's container as a process; the words that each server got. A program of the recipe makes PWN."""
    words = []
    for name, text in (("bin/vllm", PROGRAM), ("start", PWN), (f"python/{MODULE}", WRITES), ("beside.py", WRITES)):
        place.joinpath("evil", name).parent.mkdir(parents=True, exist_ok=True)
        place.joinpath("evil", name).write_text(text, encoding="utf-8")
    place.joinpath("evil/bin/vllm").chmod(0o755)
    for rank in found.service.ranks:
        options = inline(container_options(found.service, rank), SCRIPT.read_text(encoding="utf-8"))
        seen = place / f"seen-{rank.number}"
        env = {"PATH": f"{tools}/bin:/usr/bin:/bin", "HOME": str(place), "SEEN": str(seen), **options.environment}
        subprocess.run(options.command, cwd=place, env=env, check=False, capture_output=True, timeout=PATIENCE)
        words.append(seen.read_text(encoding="utf-8").split("\0")[:-1] if seen.exists() else [])
    return words


def made(variant: Variant, tools: Path, place: Path, *, trust: bool) -> str:
    """What became of a variant: refused, or whether it made the file."""
    try:
        found = asked(variant, trust=trust)
    except UsageError:  # a mistake of the recipe, for everybody
        return "refused"
    if found.powers:
        return "refused"
    place.mkdir()
    ran(found, tools, place)
    return "escaped" if list(place.glob("PWN*")) else "harmless"


def outcomes(tools: Path, place: Path, *, trust: bool) -> dict[str, str]:
    """Of all variants, by name."""
    found = [one for one in variants() if one.shown or not trust]
    assert len({one.name for one in found}) == len(found)
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda pair: made(pair[1], tools, place / str(pair[0]), trust=trust), enumerate(found))
        return dict(zip((one.name for one in found), results, strict=True))


def test_no_recipe_of_others_runs_a_program_without_trust(tools: Path, tmp_path: Path) -> None:
    found = outcomes(tools, tmp_path, trust=False)
    assert len(found) >= 200
    assert [name for name, what in found.items() if what == "escaped"] == []
    started = [name for name, what in found.items() if what != "refused"]
    assert [name for name in started if not name.startswith("the user's own: ")] == []  # these are one word


def test_with_trust_a_shell_runs_the_same_programs(tools: Path, tmp_path: Path) -> None:
    found = outcomes(tools, tmp_path, trust=True)
    shown = [one.name for one in variants() if one.shown]
    assert [name for name in shown if found[name] != "escaped"] == []
    assert len(shown) >= 150


PLAIN: Final[Sequence[dict[str, object]]] = (
    V2,
    V1,
    {**V2, "command": f"{SERVE} \\\n  --y '{{\"a\": [1, 2]}}' \\\n  --z=\"b c\"d '' \\\n"},
    {**V1, "command": f"{SERVE} \\\n  --y '{{{{\"a\": 1}}}}' \\\n"},
    {**V2, "env": {"VLLM_USE_DEEP_GEMM": 0, "NCCL_IB_HCA": "a,b"}},
    {**V1, "env": {"VLLM_USE_DEEP_GEMM": 0, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
    {**V2, "command": None, "runtime": "vllm", "defaults": {"speculative_config": '{"method": "mtp"}', "seed": 1}},
    {**V2, "command": "A=1 sglang serve --model-path m".replace("A=1", "VLLM_A='b c'")},
    {**V2, "command": f"{SERVE} --x 'ü ; | & > <(x)'"},
)


@pytest.mark.parametrize("keys", PLAIN)
@pytest.mark.parametrize("nodes", [(), NODES])
def test_a_plain_recipe_starts_the_same_with_trust_and_without(
    keys: dict[str, object], nodes: tuple[str, ...], tools: Path, tmp_path: Path
) -> None:
    command = str(keys["command"]) + " -tp 2" if nodes and keys["command"] else keys["command"]
    defaults = {**keys.get("defaults", {}), "tensor_parallel": 2} if nodes else keys.get("defaults", {})  # type: ignore[dict-item]
    variant = Variant(name="plain", keys={**keys, "command": command, "defaults": defaults}, nodes=nodes)
    found, trusted = (asked(variant, trust=trust) for trust in (False, True))
    assert found.powers == ()
    assert all(rank.container.argv for rank in found.service.ranks)
    assert not any(rank.container.argv for rank in trusted.service.ranks)
    for name in ("argv", "shell"):
        (tmp_path / name).mkdir()
    seen = ran(found, tools, tmp_path / "argv")
    assert seen == ran(trusted, tools, tmp_path / "shell")
    assert seen == [list(rank.container.argv) for rank in found.service.ranks]


PIECES: Final = (
    *(
        "vllm serve ",
        "--x",
        "--y=",
        "a",
        "B_9",
        "é",
        "1.5",
        ":",
        ",",
        "/",
        "@",
        "%",
        "+",
        "=",
        "-",
        "~",
        "!",
        "^",
        "*",
        "?",
    ),
    *(
        "[1,2]",
        "{a,b}",
        "{}",
        "'",
        '"',
        "''",
        "' '",
        '"b c"',
        "'{\"a\": [1]}'",
        " ",
        "  ",
        "\t",
        "\n",
        "\r",
        "\x85",
        "\u2028",
    ),
    *(
        "\\\n",
        "\\",
        "\\ ",
        "$",
        "$x",
        "$(pwn)",
        "`pwn`",
        "#",
        " # x",
        ";",
        "&",
        "|",
        "<",
        ">",
        "(",
        ")",
        "A=1 ",
        "A='b c' ",
    ),
)


def test_what_is_plain_is_read_alike_by_a_shell(tools: Path, tmp_path: Path) -> None:
    """Made-up commands: each that is accepted has the words that bash gives a program."""
    chance = random.Random(1)  # noqa: S311 - a draw that can be repeated
    env = {"PATH": f"{tools}/bin:/usr/bin:/bin", "SEEN": str(tmp_path / "seen"), "LC_ALL": "C.UTF-8"}
    accepted = 0
    for number in range(60_000):
        pieces = chance.choices(PIECES, k=chance.randrange(1, 7))
        text = f"{'A=1 ' * (number % 7 == 0)}vllm serve {''.join(pieces)}"
        try:
            found = plain_command(text)
        except NotPlainError:
            continue
        if text.endswith("\\"):  # a launcher may have cut the end of the line; bash would pass the backslash on
            continue
        accepted += 1
        if accepted % 20 == 0:  # bash takes milliseconds
            argv = ["bash", "-c", text]
            done = subprocess.run(argv, env=env, cwd=tmp_path, check=False, capture_output=True, timeout=PATIENCE)
            assert (done.returncode, done.stderr) == (0, b""), text
            assert tuple((tmp_path / "seen").read_text(encoding="utf-8").split("\0")[:-1]) == found.words, text
    assert accepted > 2000
    assert not (tmp_path / "PWN").exists()
