"""What each node runs of a recipe, by runtime and launcher, and what is said of recipes that cannot run so."""

import json
from typing import Any, Final

from gb10.models.load.loading import load_model_recipe
from gb10.models.render.nodes import BLOCKS, Meeting, api_port, port_in_command
from gb10.models.render.placeholders import option_words, quote_open_after
from gb10.models.render.rendered import RenderedRecipe, RenderRequest
from gb10.models.render.rendering import options_file, refused, render_recipe
from gb10.models.render.sparkrun import IMAGES, RUNTIMES
from gb10.models.render.untrusted_command import NotPlainError, doubts_of, judge_rendered, plain_command
from tests.golden.conftest import Golden, section

COMMANDS: Final = {
    "vllm-distributed": "vllm serve {model}",
    "vllm-ray": "vllm serve {model} --distributed-executor-backend ray",
    "eugr-vllm": "vllm serve {model}",
    "sglang": "sglang serve {model} --port {port}",
    "llama-cpp": "llama-server -hf {model} --split-mode layer",
    "trtllm": "trtllm-serve {model}",
    "atlas": "spark serve {model}",
    "modular-max": "max serve --model {model}",
    "tokenary": "tokenary {model}",
}
SIZES: Final[dict[str, dict[str, Any]]] = {
    "alone": {},
    "tp 2": {"tensor_parallel": 2},
    "tp 2, dp 2": {"tensor_parallel": 2, "data_parallel": 2},
    "pp 2, file": {"pipeline_parallel": 2, "moe_backend": "CUTLASS", "kv_cache_dtype": "fp8", "print_iter_log": True},
}
COMMON: Final = {"port": 8123, "max_model_len": 4096, "gpu_memory_utilization": 0.7, "served_model_name": "own name"}
Case = tuple[dict[str, Any], RenderRequest]


def case(defaults: dict[str, Any] | None = None, request: RenderRequest | None = None, **keys: Any) -> Case:  # noqa: ANN401
    return {"model": "a/b", "defaults": defaults or {}, **keys}, request or RenderRequest()


def nodes(count: int, **more: Any) -> RenderRequest:  # noqa: ANN401
    return RenderRequest(nodes=tuple("hwxyz"[:count]), **more)


def given(*pairs: str, **more: Any) -> RenderRequest:  # noqa: ANN401
    return RenderRequest(overrides=tuple((pair.partition("=")[0], pair.partition("=")[2]) for pair in pairs), **more)


SPARKRUN: Final = RenderRequest(peer="sparkrun")
EUGR: Final = RenderRequest(peer="eugr", nodes=("h", "w"))
VLLM: Final = COMMANDS["vllm-distributed"]
V1: Final = {"recipe_version": "1", "name": "n", "container": "c", "command": "vllm serve a/b --port {port} -tp {tp}"}
ODD: Final[dict[str, Case]] = {
    "no runtime": case(runtime="none"),
    "wrong types": case([1], model=["x"], command=3, env="x"),  # type: ignore[arg-type]
    "more at least than at most": case(min_nodes=3, max_nodes=2, command=VLLM),
    "as many at least as at most": case(min_nodes=2, max_nodes=2, command=VLLM),
    "a cluster alone, on one node": case(cluster_only=True, solo_only=True, command=VLLM),
    "an unknown builder": case(builder="mine", command=VLLM),
    "sizes that are none": case({"tensor_parallel": 0, "data_parallel": "x"}, command=VLLM),
    "ray with replicas": case({"data_parallel": 2}, nodes(2), runtime="vllm-ray", command=COMMANDS["vllm-ray"]),
    "llama.cpp by both": case({"tensor_parallel": 2, "pipeline_parallel": 2}, nodes(4), runtime="llama-cpp"),
    "MAX for several": case(runtime="modular-max", min_nodes=2),
    "MAX for a cluster": case(runtime="modular-max", cluster_only=True),
    "GGUF without a tokenizer": case(runtime="sglang", model="a/b-GGUF", command="sglang serve {model}"),
    "a quantized file without a tokenizer": case(runtime="sglang", model="a/b:Q4_K_M", command="sglang serve {model}"),
    "GGUF with its tokenizer": case(
        {"tokenizer_path": "a/c"}, runtime="sglang", model="a/b-GGUF", command="sglang serve {model} {tokenizer_path}"
    ),
    "GGUF with a built command": case({"tokenizer_path": "a/c"}, runtime="sglang", model="a/b-GGUF"),
    "attention with data parallelism": case(
        {"tensor_parallel": 2, "data_parallel": 2, "enable_dp_attention": True}, nodes(2), runtime="sglang"
    ),
    "attention with other sizes": case(
        {"tensor_parallel": 4, "data_parallel": 2, "enable_dp_attention": True}, nodes(4), runtime="sglang"
    ),
    "replicas on more nodes than named": case({"data_parallel": 4}, nodes(2), command=VLLM),
    "fewer sizes than nodes": case({"tensor_parallel": 2}, nodes(3), command=VLLM),
    "no size and two nodes": case({}, nodes(2), command=VLLM),
    "no size, two nodes and at most one": case({}, nodes(2), command=VLLM, max_nodes=1),
    "two nodes and none named": case({"tensor_parallel": 2}, command=VLLM),
    "more than allowed": case({"tensor_parallel": 4}, nodes(4), command=VLLM, max_nodes=2),
    "solo": case({"tensor_parallel": 2}, nodes(2), command=VLLM, solo_only=True),
    "a port for the replicas": case({"data_parallel": 2, "data_parallel_rpc_port": 7777}, nodes(2), command=VLLM),
    "a size of replicas in the command": case(
        {"tensor_parallel": 2, "data_parallel": 2}, nodes(4), command=f"{VLLM} --data-parallel-size 2"
    ),
    "a missing placeholder": case(command="\n\n  vllm serve {model} --x {y}"),
    "a missing revision": case({}, SPARKRUN, runtime="vllm-distributed", model_revision=None, command=None),
    "arguments dropped": case({}, RenderRequest(peer="sparkrun", arguments=("--x", "a b")), command=VLLM),
    "arguments kept": case({"tensor_parallel": 2}, nodes(2, arguments=("--x", "a b", "--port", "9000")), command=VLLM),
    "on a moved port": case({"tensor_parallel": 2}, nodes(2, step=3, api=40000), command=VLLM),
    "ray on two": case({"tensor_parallel": 2}, nodes(2), command=COMMANDS["vllm-ray"], container="c"),
    "secret and odd variables": case(command=VLLM, env={"HF_TOKEN": "x", "a-b": "y", "OK": "z z"}),
    "a variable of the user's": case({}, given("env.OK=own"), command=VLLM, env={"OK": "z"}),
    "mods": case(command=VLLM, mods=["m"]),
    "an unknown variant": case({}, RenderRequest(variant="v"), command=VLLM),
    "without effect": case({"x": "1"}, given("x=2", "max_model_len=9", "tensor_parallel=1"), command=VLLM),
    "the same value again": case({"x": "1"}, given("x=1"), command=VLLM),
    "values of the user's in quotes": case(
        {"x": "a", "more": ""},
        given("""x=it's "$HOME" \\ {port}""", "more=--a '{\"b c\": 1}' --d"),
        command="vllm serve {model} --a {x} --b '{x}' --c \"{x}\" {more}",
    ),
    "version 1": ({**V1, "defaults": {"port": 8000, "tp": 2}}, EUGR),
    "version 1, alone and missing": ({**V1, "defaults": {"port": 8000}, "solo_only": True}, EUGR),
    "version 1 for a cluster": ({**V1, "defaults": {"port": 1, "tp": 1}, "cluster_only": True}, RenderRequest()),
    "lenient": case(request=RenderRequest(peer="sparkrun", lenient=True), command=VLLM, mods=["m"], max_nodes="x"),
    "trtllm on two": case(
        {"tensor_parallel": 2, "free_gpu_memory_fraction": 0.8, "cuda_graph_padding": False}, nodes(2), runtime="trtllm"
    ),
}
SIZED: Final = {
    f"cache of {value!r}": case({}, SPARKRUN, command=f"vllm serve {{model}} {value}")
    for value in (
        "--kv-cache-memory-bytes 8G",
        "--kv-cache-memory-bytes=8589934592",
        "--kv-cache-memory-bytes 0",
        "--kv-cache-memory-bytes 0.0G",
        "--kv-cache-memory-bytes x",
        "--kv-cache-memory-bytes",
        "--kv-cache-memory-bytes {none}",
        "--kv-cache-memory-bytes 'x",
    )
}


def shown(found: RenderedRecipe) -> str:
    lines = [f"{found.runtime}, image {found.image}, nodes {' '.join(found.hosts)}, meeting {found.meeting}"]
    lines += [f"{issue.level} {issue.code}: {issue.text}; {issue.fix}" for issue in found.issues]
    lines += [
        f"{rank.host}: {' '.join((rank.line or rank.command).split())}" for rank in found.ranks if rank.line != ""
    ]
    lines += [f"{one.host} in {one.image}: {one.command[-60:]!r}" for one in found.containers[:1]]
    if found.script and not found.ranks:
        lines.append(f"script: {' '.join(found.script.split())}")
    lines += [" ".join(words) for words in found.launch]
    return "\n".join(lines)


def rendered(one: Case) -> RenderedRecipe:
    keys = {name: value for name, value in one[0].items() if value is not None}
    return render_recipe(load_model_recipe(json.dumps(keys), "r.yaml"), one[1])


def test_what_each_node_runs(golden: Golden) -> None:
    found = []
    assert set(IMAGES) == set(RUNTIMES)
    for runtime, command in COMMANDS.items():
        for title, sizes in SIZES.items():
            count = 4 if "dp" in title else 2 if sizes else 1
            for form, text in (("command", command), ("built", None)):
                one = case({**COMMON, **sizes}, nodes(count), runtime=runtime, command=text)
                if form == "command" or title != "tp 2":
                    found.append(section(f"{runtime}, {title}, {form}", shown(rendered(one))))
    golden("render/launch-commands.txt", "\n".join(found) + "\n")


def test_recipes_with_something_odd(golden: Golden) -> None:
    found = []
    for title, one in {**ODD, **SIZED}.items():
        made = rendered(one)
        text = shown(made)
        if made.script is None:
            recipe = load_model_recipe(json.dumps({k: v for k, v in one[0].items() if v is not None}), "r.yaml")
            text += f"\n{refused(recipe, made.issues).message}"
        found.append(section(title, text))
    golden("render/odd-recipes.txt", "\n".join(found) + "\n")


PLAIN: Final = (
    "vllm serve a",
    " \n A=1 B='x y' vllm serve a \\\n --b \"c d\"e'f' \\\n",
    "python3 -m vllm.entrypoints.openai.api_server --x=1",
    "python3 -m http.server",
    "vllm bench",
    "",
    "A=1",
    "vllm serve a; rm x",
    "vllm serve a\nrm x",
    "vllm serve 'a",
    'vllm serve "a$b"',
    "vllm serve 'a\\'",
    "vllm serve a\x1b",
    "vllm serve 'a\x1b'",
    "vllm serve $(" + "x" * 80 + ")",
    "sh " + "x" * 57,
    "sh " + "x" * 58,
    "vllm serve a \\",
    "vllm serve a --config b --tool-parser-plugin=c --tool-parser-plug d --reasoning-parser e --con f --co g",
    "vllm serve a --x /proc/1 --y ../z --hf-overrides '{\"my_cls\": 1}' --a.module_path b --z /data",
)


def test_commands_of_somebody_else(golden: Golden) -> None:
    found = []
    for text in PLAIN:
        try:
            made = plain_command(text)
            found.append(f"{text!r}: {made.words}, {dict(made.environment)}; {'; '.join(doubts_of(made.words))}")
        except NotPlainError as error:
            found.append(f"{text!r}: refused: {error}")
    recipe = load_model_recipe(
        json.dumps({"model": "a/b", "command": "vllm serve {model} --config x", "env": {"PATH": "/x", "OK": "y"}}),
        "r.yaml",
    )
    one = judge_rendered(recipe, render_recipe(recipe, RenderRequest()))
    found.append(f"judged: {one}")
    golden("render/untrusted-commands.txt", "\n".join(found) + "\n")


def test_ports_quotes_and_options() -> None:
    assert [port_in_command(f"x --port {port}") for port in ("0", "1", "65535", "65536")] == [None, 1, 65535, None]
    assert port_in_command("x --port 1 --port='2'") == 2
    assert [api_port("x", name) for name in ("sglang", "llama-cpp", "vllm-ray")] == [30000, 8080, 8000]
    for low, high in BLOCKS:
        for api in (low, low + 1, high):
            port = Meeting(api).port(25000)
            assert port != api
            assert low <= port <= high
    assert Meeting().port(25000) == 25000
    assert Meeting(8000).port(25000) == 25000
    assert Meeting(8001, step=2).port(25000) == 25003
    assert [quote_open_after(text) for text in ("a'b", 'a"b', "a'\\", 'a\\"', "a'b'", "a\"'")] == [
        "'",
        '"',
        "'",
        "",
        "",
        '"',
    ]
    assert option_words(' --a \'{"b": 1}\' {"c": [1, 2]} d"e f"g \'x ') == [
        *("--a", '{"b": 1}', '{"c": [1, 2]}', "de fg", "'x")
    ]
    assert options_file({"moe_backend": "X", "kv_cache_dtype": "fp8", "free_gpu_memory_fraction": 0.5, "port": 1}) == {
        "kv_cache_config": {"free_gpu_memory_fraction": 0.5, "dtype": "fp8"},
        "moe_config": {"backend": "X"},
    }
