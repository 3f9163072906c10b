"""Mods for real: baked into a small image by a real engine; our own, run on the files of real releases."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment
from packaging.version import Version

from gb10.cli.patch.patches import library
from gb10.containers.buildx.build import BuildRequest
from gb10.containers.connection import Engine, client
from gb10.containers.images import require_image
from gb10.containers.reach import connect_or_start
from gb10.core.proc import CommandFailedError, capture
from gb10.core.reporter import Reporter
from gb10.errors import BuildError
from gb10.image.build import image_build
from gb10.image.build.assemble import image_request
from gb10.image.build.contexts import BuildContext
from gb10.image.build.image_build import ImageBuild, Verified
from gb10.image.build.stage import log_path
from gb10.image.context import Context, build_architecture, open_context
from gb10.image.mods.declaration import unfit
from gb10.image.mods.read import load_mod
from gb10.image.moe.child.cut import Cut, Module
from gb10.image.moe.child.stand_in import machine, standard
from gb10.image.moe.expected import nearest
from gb10.image.patches.release_files import open_release
from gb10.image.patches.releases import load_releases
from gb10.image.patches.source_tree import Tree
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Mod, Options
from gb10.image.plan.values import Plan
from gb10.image.proof.scans import read_record
from gb10.image.recipe.arch import parse_arch
from tests.integration.debian_git import put_on_path
from tests.integration.test_pipeline import read_file, small, small_plan

pytestmark = pytest.mark.integration

SITE = "usr/local/lib/python3.13/dist-packages"
FIRST = """\
#!/usr/bin/env bash
set -euo pipefail
{ id -u; pwd; echo "$WORKSPACE_DIR"; ls -A | sort | tr '\\n' ' '; echo; ls /sys/class/net | tr '\\n' ' '; } > /found
echo 'MOD = "first"' >> /usr/local/lib/python3.12/dist-packages/jinja2/__init__.py
"""
SECOND = """\
set -eu
python3 -c 'import jinja2; print(jinja2.MOD)' > /second
cat /found >> /second
cp /usr/bin/true /usr/local/bin/added
rm /usr/bin/tac
"""


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


def write_mod(folder: Path, script: str, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"run.sh": script, **files}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def plan_with(ctx: Context, *paths: Path, network: bool = False) -> Plan:
    found = [load_mod(path) for path in paths]
    mods = tuple(Mod(name=mod.name, path=str(mod.path), digest=mod.digest, network=network) for mod in found)
    options = Options(arch=parse_arch("12.1f"), platform="linux/arm64", build=build_architecture(), mods=mods)
    return plan_image(*small(), ctx.catalog.toolkit, options)


@pytest.fixture(scope="module")
def mods(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder with a dotfile, and a zip without an executable bit or a first line; new ones for each run."""
    folder = tmp_path_factory.mktemp("mods")
    first = write_mod(folder / "first", FIRST)
    (first / ".hidden").write_text(uuid.uuid4().hex, encoding="ascii")
    second = write_mod(folder / "second", SECOND)
    return first, Path(shutil.make_archive(str(folder / "packed"), "zip", second))


@pytest.fixture(scope="module")
def image(ctx: Context, mods: tuple[Path, Path]) -> Verified:
    return ImageBuild(ctx, plan_with(ctx, *mods)).image()


def text_of(ctx: Context, image: Verified, path: str) -> str:
    return read_file(ctx, image.tags[-1], path)[1].decode()


def test_a_mod_runs_as_the_contract_says(ctx: Context, image: Verified) -> None:
    assert text_of(ctx, image, "/found").splitlines() == [
        "0",
        "/workspace/mods/first",
        "/workspace/vllm",
        ".hidden run.sh ",
        "lo ",
    ]


def test_the_second_mod_sees_the_first_and_the_bytecode_follows_the_source(ctx: Context, image: Verified) -> None:
    assert text_of(ctx, image, "/second").startswith("first\n0\n")
    _, bytecode = read_file(ctx, image.tags[-1], f"/{SITE}/jinja2/__pycache__/__init__.cpython-313.pyc")
    assert bytecode[4:8] == b"\x03\0\0\0"
    assert b"first" in bytecode


def test_a_mod_is_one_small_layer_and_moves_no_other(ctx: Context, image: Verified) -> None:
    engine = connect_or_start(ctx.env, ctx.store)
    plain = require_image(engine, ImageBuild(ctx, small_plan(ctx)).image().tags[-1])
    made = require_image(engine, image.tags[-1])
    assert made.diff_ids[: len(plain.diff_ids) - 2] == plain.diff_ids[:-2]  # above: the record, and WORKDIR's
    assert len(made.diff_ids) == len(plain.diff_ids) + 2
    assert made.size - plain.size < 200_000


def test_mods_are_recorded_and_the_user_stays(ctx: Context, image: Verified, mods: tuple[Path, Path]) -> None:
    with closing(client(connect_or_start(ctx.env, ctx.store))) as sdk:
        config = sdk.images.get(image.tags[-1]).attrs["Config"]
    found = [load_mod(path) for path in mods]
    assert [config["Labels"][f"io.github.gb10.mod.{number}"] for number in (1, 2)] == [
        f"{mod.name}@{mod.digest[:12]}" for mod in found
    ]
    recorded = json.loads(text_of(ctx, image, "/usr/share/gb10/plan.json"))["mods"]
    assert [(mod["name"], mod["sha256"]) for mod in recorded] == [(mod.name, mod.digest) for mod in found]
    assert (config["User"], config["WorkingDir"]) == ("0", "/workspace/vllm")
    assert len(image.tags) == 1


def test_the_same_mods_again_build_nothing(ctx: Context, image: Verified, mods: tuple[Path, Path]) -> None:
    again = ImageBuild(ctx, plan_with(ctx, *mods)).image()
    assert (again.hit, again.digest) == (True, image.digest)


@pytest.mark.slow
def test_a_changed_mod_runs_alone(ctx: Context, image: Verified, mods: tuple[Path, Path], tmp_path: Path) -> None:
    other = write_mod(tmp_path / "other", f"echo {uuid.uuid4().hex} > /other\n")
    plan = plan_with(ctx, mods[0], other)
    ImageBuild(ctx, plan).image()
    lines = log_path(ctx.store, plan.step("image")).read_text(encoding="utf-8").splitlines()
    assert any("[mod-2 1/1] RUN" in line for line in lines)
    assert not [line for line in lines if "[mod-1 1/1] RUN" in line]  # a cached step has no line of its own


def test_a_program_of_a_mod_is_scanned_and_a_removed_one_is_gone(ctx: Context, image: Verified) -> None:
    plain = ImageBuild(ctx, small_plan(ctx)).image()
    before, after = ({judged.binary.path for judged in one.verdict.judged} for one in (plain, image))
    assert (before - after, after - before) == ({"usr/bin/tac"}, {"usr/local/bin/added"})


DIFFERS = 'name=$(cat /proc/sys/kernel/random/uuid)\ncp /usr/bin/true "/usr/local/bin/$name"\necho "$name" > /name\n'


def losing(lost: tuple[str, ...], plan: Plan, context: BuildContext, engine: Engine, tag: str) -> BuildRequest:
    """The request for an image whose stages ``lost`` are in no cache."""
    request = image_request(plan, context, engine, tag)
    return replace(request, fresh=(*request.fresh, *lost))


@pytest.mark.slow
def test_what_is_tagged_is_what_was_scanned_also_where_a_mod_differs_on_each_run(
    ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second build runs the mod again, and all else comes from the cache: its scan is of that run."""
    plan = plan_with(ctx, write_mod(tmp_path / "differs", f"{DIFFERS}# {uuid.uuid4().hex}\n"), network=True)
    engine, names = connect_or_start(ctx.env, ctx.store), set[str]()
    for lost in ((), ("mod-1",)):
        monkeypatch.setattr(image_build, "image_request", partial(losing, lost))
        made = ImageBuild(ctx, plan).image()
        name = text_of(ctx, made, "/name").strip()
        record, image = read_record(ctx.store, plan), require_image(engine, made.tags[-1])
        found = {judged.binary.path for judged in made.verdict.judged}
        assert [path for path in found if re.fullmatch(r"usr/local/bin/[0-9a-f-]{36}", path)] == [
            f"usr/local/bin/{name}"
        ]
        assert record is not None
        assert (record.id, record.layers) == (image.id, image.diff_ids)
        names.add(name)
        with closing(client(engine)) as sdk:
            sdk.images.remove(image.id, force=True)
    assert len(names) == 2  # the mod ran anew


@pytest.mark.slow
def test_a_failing_mod_says_its_own_words_and_stops(ctx: Context, tmp_path: Path) -> None:
    script = f"seq 1 60\necho the reason {uuid.uuid4().hex} >&2\nexit 7\n"
    plan = plan_with(ctx, write_mod(tmp_path / "broken", script))
    with pytest.raises(BuildError, match="the mod broken failed") as caught:
        ImageBuild(ctx, plan).image()
    text = str(caught.value)
    assert "the reason" in text
    assert "run.sh exited with 7" in text
    assert "--mod-network" in text
    assert "  60\n" in text
    assert "  20\n" not in text  # the last 30 lines
    with closing(client(connect_or_start(ctx.env, ctx.store))) as sdk:
        assert not sdk.images.list(name=plan.tags[-1])


@pytest.mark.slow
def test_a_crash_in_a_mod_and_its_progress_are_named(
    ctx: Context, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"the line {uuid.uuid4().hex}"
    plan = plan_with(ctx, write_mod(tmp_path / "crashing", f"echo {words}\nkill -SEGV $$\n"))
    emulated = plan.options.build != plan.options.target
    message = "the emulator crashed while it ran the mod crashing" if emulated else "the mod crashing failed"
    with pytest.raises(BuildError, match=message) as caught:
        ImageBuild(replace(ctx, reporter=Reporter({}, verbosity=1, interval=0)), plan).image()
    assert "run.sh exited with -11" in str(caught.value)
    said = capsys.readouterr().err
    assert f"mod crashing 1/1{' (emulated)' * emulated}" in said
    assert said.index("mod crashing 1/1") < said.index(words)


NETWORK = """\
set -eu
test -s "$PIP_CERT" && test "$PIP_CERT" = "$SSL_CERT_FILE" && test -n "$PIP_INDEX_URL"
test "$no_proxy" = nowhere.invalid
python3 - <<'EOF'
import os, urllib.request
reply = urllib.request.urlopen(os.environ["PIP_INDEX_URL"].rstrip("/") + "/six/", timeout=60)
open("/reached", "w").write(str(reply.status))
EOF
"""


@pytest.mark.slow
def test_a_declared_network_reaches_the_index_and_leaves_no_secret(ctx: Context, tmp_path: Path) -> None:
    mod = write_mod(tmp_path / "net", f"{NETWORK}# {uuid.uuid4().hex}\n")
    behind = replace(ctx, env={**ctx.env, "no_proxy": "nowhere.invalid"})
    made = ImageBuild(behind, plan_with(ctx, mod, network=True)).image()
    assert text_of(ctx, made, "/reached") == "200"
    with closing(client(connect_or_start(ctx.env, ctx.store))) as sdk:
        kept = sdk.images.get(made.tags[-1])
        history = json.dumps([kept.history(), kept.attrs["Config"]])
    assert "PIP_INDEX_URL" not in history
    assert "no_proxy" not in history
    assert "nowhere" not in history
    assert "simple" not in history


# Our own mods, on the files of real releases.


@pytest.fixture
def release(ctx: Context, tmp_path: Path) -> Callable[..., Path]:
    """Unpack some files of a release, as they are, into a directory that Python finds packages in."""

    def unpack(source: str, version: str, *parts: str) -> Path:
        tree: Tree = open_release(library(ctx), load_releases(ctx.catalog.patches), source, Version(version)).tree
        root = tmp_path / f"{source}-{version}"
        for path in tree.paths():
            if any(part in path for part in parts) or path == f"{source}/__init__.py":
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(tree.read(path) or b"")
        return root

    return unpack


def run_mod(name: str, site: Path, **env: str) -> str:
    """What run.sh of one of our mods says; nothing of the release is imported."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {**os.environ, "PATH": path, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", **env}
    return capture(["bash", "./run.sh"], env=own, cwd=ROOT / "mods" / name)


MEMORY = ("vllm/config/cache.py", "vllm/engine/arg_utils.py", "vllm/v1/worker/utils.py")


@pytest.mark.parametrize("version", ["0.24.0", "0.26.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"])
def test_fixed_memory_reserves_what_is_asked(release: Callable[..., Path], version: str) -> None:
    site = release("vllm", version, *MEMORY)
    assert "reserves a fixed amount" in run_mod("fixed-memory", site)
    request = function(site / MEMORY[2], "request_memory")
    total = 119 * 2**30
    for asked, expected in ((None, int(total * 0.5)), (40.5, int(40.5 * 2**30))):
        config = SimpleNamespace(gpu_memory_utilization=0.5, gpu_memory_utilization_gb=asked)
        snapshot = SimpleNamespace(total_memory=total, free_memory=total, device_="cuda:0")
        assert request(snapshot, config) == expected
        assert config.gpu_memory_utilization == pytest.approx(expected / total)
    with pytest.raises(ValueError, match=r"119\.00 GiB of the device"):
        request(snapshot, SimpleNamespace(gpu_memory_utilization=0.5, gpu_memory_utilization_gb=200.0))
    texts = [(site / path).read_text(encoding="utf-8") for path in MEMORY]
    assert [len(ast.parse(text).body) > 0 for text in texts] == [True] * 3
    assert '"--gpu-memory-utilization-gb"' in texts[1]
    assert "there already" in run_mod("fixed-memory", site)
    assert [(site / path).read_text(encoding="utf-8") for path in MEMORY] == texts


def function(path: Path, name: str) -> Callable[..., int]:
    """One function of a module that cannot be imported here, its annotations left out."""
    found = next(
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    for argument in found.args.args:
        argument.annotation = None
    names: dict[str, Any] = {"math": __import__("math"), "format_gib": lambda size: f"{size / 2**30:.2f}"}
    exec(compile(ast.Module([found], []), str(path), "exec"), names)  # noqa: S102 - this is the release's own code
    made: Callable[..., int] = names[name]
    return made


def test_fixed_memory_leaves_an_unknown_vllm_alone(release: Callable[..., Path]) -> None:
    site = release("vllm", "0.33.0", *MEMORY)
    path = site / MEMORY[2]
    path.write_text(path.read_text(encoding="utf-8").replace("math.ceil(", "math.floor("), encoding="utf-8")
    before = {name: (site / name).read_bytes() for name in MEMORY}
    with pytest.raises(CommandFailedError) as caught:
        run_mod("fixed-memory", site)
    assert "has another shape: found 0 times" in caught.value.tail
    assert {name: (site / name).read_bytes() for name in MEMORY} == before


@pytest.mark.parametrize(("version", "needed"), [("0.17.1", True), ("0.19.1", False)])
def test_autoround_hands_transformers_a_set(release: Callable[..., Path], version: str, needed: bool) -> None:
    site = release("vllm", version, "vllm/transformers_utils/configs/qwen3_5")
    files = sorted((site / "vllm/transformers_utils/configs").glob("qwen3_5*.py"))
    before = [path.read_text(encoding="utf-8") for path in files]
    said = run_mod("qwen3.5-autoround", site)
    after = [path.read_text(encoding="utf-8") for path in files]
    assert said.count("is a set now") == (2 if needed else 0)
    assert (before != after) == needed
    keys = [
        node.value
        for text in after
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Assign) and "ignore_keys_at_rope_validation" in ast.unparse(node.targets[0])
    ]
    assert [type(key) for key in keys] == [ast.Set, ast.Set]
    assert run_mod("qwen3.5-autoround", site).count("already") == 2


SHARED_MEMORY = 101_376


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.5.10", "0.5.11", "0.5.12", "0.5.13"])
def test_moe_configs_are_the_engines_own_defaults_where_those_fit(release: Callable[..., Path], version: str) -> None:
    """The engine's own function, cut out here by the checker of tuned files, for every batch size to 2,048."""
    site = release("sglang", version, "/layers/moe/")
    metadata = site / "triton-3.8.0.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: triton\nVersion: 3.8.0\n", encoding="ascii")
    assert "differs from the defaults in 0 rows that fit" in run_mod("moe-configs", site)
    (module,) = (site / "sglang/srt/layers/moe").glob("**/fused_moe_triton_config.py")
    known = machine("NVIDIA GB10", SHARED_MEMORY, "3.8.0", None)
    cut = Cut(Module(module.read_text(encoding="utf-8"), str(module)), ("get_default_config",), known)
    default = cut.run(dict(known), standard)["get_default_config"]
    written = sorted(site.rglob("*NVIDIA_GB10*.json"))
    assert {path.parent.name for path in written} == {"triton_3_8_0"}
    assert {path.name for path in written} >= {f"E=161,N=384,device_name=NVIDIA_GB10{tag}.json" for tag in FP8_TAGS}
    for path in written[::7]:
        rows = {int(key): row for key, row in json.loads(path.read_bytes()).items()}
        experts = int(path.name.removeprefix("E=").partition(",")[0])
        for size in range(1, 2049):
            own, found = default(size, experts, 1, 1, 8, "fp8_w8a8", False, None), rows[nearest(rows, size)]
            assert (needs(own) > SHARED_MEMORY) == (size > experts)
            assert found == own or size > experts
            assert needs(found) <= SHARED_MEMORY
    assert " 0 files written" in run_mod("moe-configs", site)


FP8_TAGS = (",dtype=fp8_w8a8", ",dtype=fp8_w8a8,per_channel_quant=True")


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.33.0"), ("sglang", "0.5.14"), ("sglang", "0.5.23")])
def test_moe_configs_is_refused_where_the_defaults_fit(engine: str, version: str) -> None:
    record = load_mod(ROOT / "mods/moe-configs").record
    assert record
    assert unfit(record, engine, version)


def needs(tile: dict[str, int]) -> int:
    """The closed form for FP8 without blocks, written apart from the mod's own."""
    return (tile["BLOCK_SIZE_M"] + tile["BLOCK_SIZE_N"]) * tile["BLOCK_SIZE_K"] * (tile["num_stages"] - 1)


TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
CALL = {"function": {"name": "weather", "arguments": {"town": "Ulm", "days": 2, "at": ["am", "pm"], "wet": True}}}
SAME = {
    "plain": [{"role": "user", "content": " hello "}],
    "system": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}],
    "parts": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}, {"type": "video"}]}],
    "history": [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\ntwo"},
        {"role": "user", "content": "3"},
        {"role": "assistant", "content": "four", "reasoning_content": "I count"},
    ],
    "tools": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": "", "reasoning_content": "ask", "tool_calls": [CALL, CALL]},
        {"role": "tool", "content": "sun"},
        {"role": "tool", "content": "rain"},
        {"role": "assistant", "content": "so so", "tool_calls": [CALL]},
        {"role": "tool", "content": "wind"},
    ],
    "answer-in-user": [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "x", "reasoning_content": "y"},
        {"role": "user", "content": "<tool_response>\nz\n</tool_response>"},
    ],
}
REFUSED = {
    "late system": [{"role": "user", "content": "1"}, {"role": "system", "content": "new rule"}],
    "two systems": [{"role": "system", "content": c} for c in ("a", "b")] + [{"role": "user", "content": "1"}],
    "developer": [{"role": "developer", "content": "new rule"}, {"role": "user", "content": "1"}],
    "no user": [{"role": "system", "content": "a"}, {"role": "assistant", "content": "b"}],
}


def template(text: str) -> Callable[..., str]:
    """A chat template as transformers renders it."""

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    env.globals["raise_exception"] = refuse
    return env.from_string(text).render


@pytest.fixture
def templates(release: Callable[..., Path], tmp_path: Path) -> tuple[Callable[..., str], Callable[..., str]]:
    """The model's own template, as vLLM's tests hold it, and what the mod puts into WORKSPACE_DIR."""
    site = release("vllm", "0.33.0", "rust/src/chat/tests/templates/qwen35.jinja")
    run_mod("qwen3.5-chat-template", site, WORKSPACE_DIR=str(tmp_path))
    own = template((tmp_path / "qwen3.5.jinja").read_text(encoding="utf-8"))
    return template((next(site.rglob("qwen35.jinja"))).read_text(encoding="utf-8")), own


@pytest.mark.parametrize("tools", [None, [TOOL]])
@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("name", SAME)
def test_where_the_models_template_works_ours_says_the_same(
    templates: tuple[Callable[..., str], Callable[..., str]], name: str, thinking: bool, tools: list[Any] | None
) -> None:
    values = {"messages": SAME[name], "tools": tools, "enable_thinking": thinking, "add_generation_prompt": True}
    assert templates[1](**values) == templates[0](**values)


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_models_template_refuses_ours_takes(
    templates: tuple[Callable[..., str], Callable[..., str]], name: str
) -> None:
    with pytest.raises(jinja2.TemplateError):
        templates[0](messages=REFUSED[name])
    text = templates[1](messages=REFUSED[name])
    assert text.count("<|im_start|>system\n") == 1
    assert all(message["content"] in text for message in REFUSED[name])


def test_a_call_whose_arguments_are_text_is_kept(templates: tuple[Callable[..., str], Callable[..., str]]) -> None:
    call = {"function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    assert "<function=f>\n{}\n</function>" in templates[1](messages=messages)


def test_a_mod_for_another_release_changes_nothing() -> None:
    argv = [sys.executable, str(ROOT / "build.py"), "plan", "--mod", "qwen3.5-autoround"]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "already upstream" in done.stderr


OF_OTHERS = {
    "sglang-0.5.10": ("sglang", ("0.5.10",)),
    "flashinfer-0.6.7": ("flashinfer", ("0.6.7.post2", "0.6.7.post3")),
}


def diffs_of(mod: str) -> list[Path]:
    return sorted((ROOT / "mods" / mod).glob("*.patch"))


def changed_by(mod: str) -> list[str]:
    """The files that the diffs of a mod change."""
    texts = (diff.read_text(encoding="utf-8") for diff in diffs_of(mod))
    return sorted({name for text in texts for name in re.findall(r"^\+\+\+ b/(.*)$", text, re.MULTILINE)})


@pytest.mark.parametrize(
    ("mod", "version"), [(mod, version) for mod, (_, versions) in OF_OTHERS.items() for version in versions]
)
def test_our_fixes_reach_an_image_of_others_as_git_applies_them(
    release: Callable[..., Path], git_root: Path, tmp_path: Path, mod: str, version: str
) -> None:
    source = OF_OTHERS[mod][0]
    files = changed_by(mod)
    site, other = release(source, version, *files), git_root / f"{mod}-{version}"
    shutil.copytree(site, other)
    env = {"PATH": put_on_path(git_root, tmp_path), "HOME": "/"}
    capture(["git", "init", "--quiet", str(other)], env=env)
    for diff in diffs_of(mod):
        copied = shutil.copy(diff, git_root)
        capture(["git", "-C", str(other), "apply", "--unidiff-zero", str(copied)], env=env)
    assert run_mod(mod, site).count("applied") == len(diffs_of(mod))
    wanted = {name: (other / name).read_bytes() for name in files}
    assert {name: (site / name).read_bytes() for name in files} == wanted
    assert run_mod(mod, site).count("there already") == len(diffs_of(mod))
    assert {name: (site / name).read_bytes() for name in files} == wanted


def test_a_text_that_is_not_there_once_ends_the_mod_and_no_file_is_written(release: Callable[..., Path]) -> None:
    """Also where it stands in the last file alone, and where another release has other files."""
    files = changed_by("sglang-0.5.10")
    site = release("sglang", "0.5.10", *files)
    path = site / "sglang/srt/layers/quantization/modelopt_quant.py"
    path.write_text(path.read_text(encoding="utf-8").replace("import fp4_quantize\n", "import  fp4_quantize\n"))
    before = {name: (site / name).read_bytes() for name in files}
    with pytest.raises(CommandFailedError) as caught:
        run_mod("sglang-0.5.10", site)
    assert "modelopt_quant.py has another shape: found 0 times, not once" in caught.value.tail
    assert {name: (site / name).read_bytes() for name in files} == before
    other = release("sglang", "0.5.11", "sglang/srt/layers", "sglang/jit_kernel")
    with pytest.raises(CommandFailedError) as caught:
        run_mod("sglang-0.5.10", other)
    assert "is not there: this release has another layout" in caught.value.tail


def test_half_of_a_fix_ends_the_mod(release: Callable[..., Path]) -> None:
    files = changed_by("sglang-0.5.10")
    site = release("sglang", "0.5.10", *files)
    path = site / "sglang/srt/layers/moe/cutlass_moe.py"
    text = path.read_text(encoding="utf-8")
    run_mod("sglang-0.5.10", site)
    fixed = path.read_text(encoding="utf-8")
    half = text.partition("def cutlass_moe_fp4(")[0] + fixed[fixed.index("def cutlass_moe_fp4(") :]
    path.write_text(half, encoding="utf-8")
    with pytest.raises(CommandFailedError) as caught:
        run_mod("sglang-0.5.10", site)
    assert "0002-moe-maps-of-dropped-tokens.patch: 2 of its 5 changes are there already" in caught.value.tail
    assert path.read_text(encoding="utf-8") == half
