"""What each request of an image becomes: what is printed, then the plan's parts or the error. Nothing is downloaded."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gb10.errors import Gb10Error
from gb10.image.context import Context, open_context
from gb10.image.lock.base_lock import on_image_digest
from gb10.image.lock.lockfile import load_any, load_lock, lock_path, write_lock
from gb10.image.plan.base_plan import lock_on, requested_base
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.values import Plan
from gb10.image.recipe.base_image import BaseImage
from gb10.image.recipe.locked import Lock
from gb10.image.recipe.on_image import OnImage
from gb10.image.request.planning import Request, make_plan
from tests.golden.conftest import Golden, section
from tests.unit.image.test_base_kernels import part, taken
from tests.unit.image.test_owners import BUILDER, KERNELS, diff
from tests.unit.made_up_base import RECIPE, base

DRIVES: Final = (
    "gb10.image.lock.base_lock",
    "gb10.image.mods.declaration",
    "gb10.image.mods.read",
    "gb10.image.patches.foreign",
    "gb10.image.patches.on_base",
    "gb10.image.patches.owners",
    "gb10.image.patches.selection",
    "gb10.image.plan.base_plan",
    "gb10.image.plan.dag",
    "gb10.image.plan.options",
    "gb10.image.plan.steps",
    "gb10.image.plan.values",
    "gb10.image.recipe.kernel_sets",
    "gb10.image.request.from_image",
    "gb10.image.request.given_diffs",
    "gb10.image.request.kernel_choice",
    "gb10.image.request.kernel_probe",
    "gb10.image.request.optional_layers",
    "gb10.image.request.planning",
    "gb10.image.request.refs",
)
"""Modules that the requests go through: tests/mutations.py runs this file for a mutant of each."""
HELD: Final = {"vllm": "0.33.0", "torch": "2.14.0+cu132", "flashinfer-python": "0.7.2.post1"}
RUN: Final = "#!/usr/bin/env bash\nexit 0\n"
RECORD: Final = {"what": "It adds a file.", "why": "A test needs it.", "delete_when": "Nobody needs it."}
MODEL: Final = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "head_dim": 128}
TREE: Final[Mapping[str, str | bytes]] = {
    "overlay/etc/motd": "hello\n",
    "file": "no folder\n",
    "mods/one/run.sh": RUN,
    "again/one/run.sh": RUN,
    "mods/net/run.sh": RUN,
    "mods/net/mod.yaml": yaml.safe_dump({**RECORD, "engines": {"vllm": ">=0.1", "sglang": ">=0.1"}, "network": True}),
    "mods/other/run.sh": RUN,
    "mods/other/mod.yaml": yaml.safe_dump({**RECORD, "engines": {"vllm": "<0.30"}}),
    "mods/gone/run.sh": RUN,
    "mods/gone/mod.yaml": yaml.safe_dump(
        {**RECORD, "engines": {"vllm": ">=0.1", "sglang": ">=0.1"}, "fixed": {"vllm": "0.33.0"}}
    ),
    "mods/bad/sub/run.sh": RUN,
    "model/config.json": json.dumps(MODEL),
    "list.json": "[1]",
    "broken.json": "{",
    "latin.json": b"\xff\xfe",
    "bundled.diff": diff(BUILDER),
    "two.diff": diff(BUILDER, KERNELS),
    "engine.diff": diff("vllm/envs.py"),
    "tests.diff": diff("tests/test_one.py", "docs/a.md", "tests/b.py", "docs/c.md"),
    "part.diff": diff("vllm/envs.py", "tests/test_one.py"),
    "compiled.diff": diff("csrc/attention/a.cu"),
    "unheard.diff": diff("unheard/of.py"),
    "both.diff": diff("vllm/envs.py", "flashinfer/sampling.py"),
    "text.diff": "no diff\n",
}
OWN: Final[Mapping[str, Mapping[str, Any]]] = {
    "as the recipe": {},
    "another arch and machine": {"arch": "12.0", "platform": "linux/amd64"},
    "an arch that is none": {"arch": "9.0"},
    "an engine that has no recipe": {"engine": "vlm"},
    "without an optional layer": {"without": ("b12x",)},
    "an optional layer of another engine": {"engine": "sglang", "without": ("b12x",)},
    "without a layer that is needed": {"without": ("torch",)},
    "without a layer that is none": {"without": ("x",)},
    "overlay": {"overlay": Path("overlay")},
    "overlay of this folder": {"overlay": Path()},
    "overlay that is a file": {"overlay": Path("file")},
    "mods of the checkout and of a folder": {"mods": ("fixed-memory", "./mods/one")},
    "a mod whose name is almost right": {"mods": ("fixed-memry",)},
    "a mod whose name is of none": {"mods": ("zzz",)},
    "a mod that is no mod": {"mods": ("./mods/bad",)},
    "a mod that is a file": {"mods": ("./file",)},
    "two mods of one name": {"mods": ("./mods/one", "./again/one")},
    "a mod for other releases": {"mods": ("./mods/other",)},
    "a mod for another engine": {"engine": "sglang", "mods": ("./mods/other",)},
    "a mod that is upstream": {"mods": ("./mods/gone",)},
    "a mod with a network of its own": {"mods": ("./mods/net",)},
    "the same with consent": {"mods": ("./mods/net",), "mod_network": True},
    "a mod without a record, with consent": {"mods": ("./mods/one",), "mod_network": True},
    "consent for a mod of the checkout": {"mods": ("fixed-memory",), "mod_network": True},
    "targets": {"targets": ("_C", "_moe_C")},
    "a target that is none": {"targets": ("a b",)},
    "another kernel set": {"kernels": "smoke"},
    "a kernel set that is none": {"kernels": "nosuch"},
    "two choices of kernels": {"kernels": "core", "model": "model"},
    "options without a model": {"served_with": ("block_size=16",)},
    "an option twice": {"model": "model", "served_with": ("block-size=16", "block_size=32")},
    "an option that is none": {"model": "model", "served_with": ("port=80",)},
    "an option without a value": {"model": "model", "served_with": ("block-size=",)},
    "an option of letters": {"model": "model", "served_with": ("block-size=a",)},
    "an option of zero": {"model": "model", "served_with": ("block-size=0",)},
    "an option that is too large": {"model": "model", "served_with": ("max-model-len=16777217",)},
    "an option that is no word": {"model": "model", "served_with": ("moe-backend=a;b",)},
    "a folder without a model": {"model": "overlay"},
    "a config that is a list": {"model": "list.json"},
    "a config that breaks off": {"model": "broken.json"},
    "a config that is no text": {"model": "latin.json"},
    "a model that is nowhere": {"model": "nowhere"},
    "a diff of what is bundled": {"patches": ("bundled.diff",)},
    "the same by its source": {"patches": ("cutlass=bundled.diff",)},
    "a diff of two sources": {"patches": ("two.diff",)},
    "a diff of the engine": {"patches": ("engine.diff",)},
    "a diff of tests": {"patches": ("tests.diff",)},
    "a diff with tests": {"patches": ("part.diff",)},
    "a diff of what is compiled": {"patches": ("compiled.diff",)},
    "a diff of no source": {"patches": ("unheard.diff",)},
    "a source that is none": {"patches": ("zzz=engine.diff",)},
    "no diff": {"patches": ("text.diff",)},
    "a diff that is nowhere": {"patches": ("nowhere.diff",)},
    "without a patch": {"without_patches": ("vllm/0006",)},
    "without a patch by its whole name": {"without_patches": ("vllm/0006-shm-readers-park",)},
    "without a patch that others need": {"without_patches": ("vllm/0003",)},
    "without a patch of another source": {"without_patches": ("sglang/0001",)},
    "without a patch that is none": {"without_patches": ("0006",)},
    "a release that is none": {"refs": {"vllm": "main"}},
    "a release of what the recipe lacks": {"refs": {"nothing": "1"}},
    "a release of another engine": {"refs": {"sglang": "0.5.10"}},
    "a release of a git source": {"refs": {"qutlass": "1"}},
    "a checkout that is nowhere": {"sources": ("vllm=nowhere",)},
    "a checkout without a name": {"sources": ("nowhere",)},
}


def with_sources(lock: Lock, modules: str = "", cutlass: str = "4.5.0") -> Lock:
    """The lock with what kernels for the image are compiled from."""
    ours = load_lock(lock_path(RECIPE))
    headers = tuple(one for one in ours.wheels.image["arm64"] if one.name.startswith("nvidia-cu"))
    own = {
        "sdists": {"flashinfer-python": part(modules, cutlass).model_copy(update={"version": "0.7.2.post1"})},
        "headers": (*headers, taken()),
        "wheels": lock.wheels.model_copy(update={"tools": ours.wheels.tools}),
    }
    return lock.model_copy(update=own)


def without_base(lock: Lock) -> Lock:
    return lock.model_copy(update={"base": None})


PLAIN: Final = base(versions=HELD)
BARE: Final = base(engine="", cuda="", python="", interpreter="", installed={}, glibc="")
SGLANG: Final = base(versions={"sglang": "0.5.10"}, engine="sglang")
CACHED: Final = base(versions={**HELD, "flashinfer-jit-cache": "0.7.2"})
KERNELS_IN: Final = base(versions={**HELD, "gb10-kernels": "0.1.0"})
CORE: Final = {"kernels": "core"}
BOTH: Final = {"kernels": "core", "own_kernels": "moe"}
Case = tuple[BaseImage, Mapping[str, object], Callable[[Lock], Lock] | None, Mapping[str, Any]]
EXCLUDED: Final[dict[str, Case]] = {
    "with --ref": (PLAIN, {}, None, {"refs": {"vllm": "1"}}),
    "with --source": (PLAIN, {}, None, {"sources": ("a=b",)}),
    "with --targets": (PLAIN, {}, None, {"targets": ("x",)}),
    "with --without": (PLAIN, {}, None, {"without": ("x",)}),
    "with --recipe": (PLAIN, {}, None, {"serves": "x"}),
    "with --slim all": (PLAIN, {}, None, {"slim": "all"}),
}
OTHERS: Final[Mapping[str, Case]] = {
    "nothing over it": (PLAIN, {}, None, {}),
    "for amd64": (base(platform="linux/amd64"), {"platform": "linux/amd64"}, None, {}),
    "another platform": (PLAIN, {}, None, {"platform": "linux/amd64"}),
    "its own platform": (PLAIN, {}, None, {"platform": "linux/arm64"}),
    "another engine": (PLAIN, {"engine": "sglang"}, None, {}),
    "an engine in an image without": (BARE, {"engine": "vllm"}, None, {}),
    "its engine": (PLAIN, {"engine": "vllm", "env": {"A": "b"}}, None, {}),
    "a lock without an image": (PLAIN, {}, without_base, {}),
    "a lock of another recipe": (
        PLAIN,
        {},
        lambda lock: lock.model_copy(update={"input_digest": "0" * 64}),
        {},
    ),
    "our series": (PLAIN, {}, None, {"patches": ("vllm",)}),
    "our series in the recipe": (PLAIN, {"patches": ["vllm"]}, None, {}),
    "a series of what it lacks": (PLAIN, {}, None, {"patches": ("sglang",)}),
    "a series and a diff": (PLAIN, {}, None, {"patches": ("vllm", "engine.diff")}),
    "a file of a series' name": (PLAIN, {}, None, {"patches": ("./cutlass",)}),
    "diffs": (PLAIN, {}, None, {"patches": ("both.diff", "part.diff", "vllm=engine.diff")}),
    "a diff of a named source": (PLAIN, {}, None, {"patches": ("zzz=engine.diff",)}),
    "a diff of tests": (PLAIN, {}, None, {"patches": ("tests.diff",)}),
    "a diff of what is compiled": (PLAIN, {}, None, {"patches": ("compiled.diff",)}),
    "a diff on an image without Python": (BARE, {}, None, {"patches": ("unheard.diff",)}),
    "without a patch": (PLAIN, {}, None, {"patches": ("vllm",), "without_patches": ("vllm/0006",)}),
    "without a patch that it has not": (PLAIN, {}, None, {"without_patches": ("vllm/0006",)}),
    "our series of sglang": (SGLANG, {}, None, {"patches": ("sglang",)}),
    "a mod and an overlay": (PLAIN, {"mods": ["./mods/one"]}, None, {"mods": (), "overlay": Path("overlay")}),
    "a mod without Python": (BARE, {}, None, {"mods": ("./mods/one",)}),
    "a mod for another release": (PLAIN, {}, None, {"mods": ("./mods/other",)}),
    "an overlay without Python": (BARE, {}, None, {"overlay": Path("overlay")}),
    "FlashInfer's kernels": (PLAIN, CORE, with_sources, {}),
    "the same where it looks elsewhere": (CACHED, CORE, lambda lock: with_sources(lock, "/opt/aot"), {}),
    "the same without a package": (PLAIN, CORE, lambda lock: with_sources(lock, "/opt/aot"), {}),
    "a set that is none": (PLAIN, {"kernels": "nosuch"}, with_sources, {}),
    "both kinds that nothing calls": (PLAIN, BOTH, with_sources, {}),
    "both kinds": (PLAIN, BOTH, with_sources, {"patches": ("vllm",)}),
    "ours alone": (PLAIN, {"own_kernels": "moe"}, with_sources, {"patches": ("vllm",)}),
    "ours without the patch": (
        PLAIN,
        {"own_kernels": "moe"},
        with_sources,
        {"patches": ("vllm",), "without_patches": ("vllm/0003",)},
    ),
    "ours in an image of no engine": (replace(PLAIN, engine=""), {"own_kernels": "moe"}, with_sources, {}),
    "ours twice": (KERNELS_IN, BOTH, with_sources, {"patches": ("vllm",)}),
    "the series over kernels that it holds": (KERNELS_IN, {}, None, {"patches": ("vllm",)}),
    "ours over an older CUTLASS": (PLAIN, BOTH, lambda lock: with_sources(lock, "", "4.4.2"), {"patches": ("vllm",)}),
    "sets of the command line": (PLAIN, BOTH, with_sources, {"kernels": "smoke,gb10-moe", "patches": ("vllm",)}),
    "two sets": (PLAIN, CORE, with_sources, {"kernels": "core,moe"}),
    "a model": (PLAIN, CORE, with_sources, {"model": "model"}),
    "a model and a set": (PLAIN, CORE, with_sources, {"kernels": "core", "model": "model"}),
    **EXCLUDED,
}


@pytest.fixture
def ctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    """In a folder with the files that the requests name."""
    for name, content in TREE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    return open_context({"GB10_CACHE_DIR": str(tmp_path / "s"), "HOME": str(tmp_path)}, verbosity=0)


def results(made: Mapping[str, Callable[[], Plan]], capsys: pytest.CaptureFixture[str]) -> str:
    """What each request prints, then its error, or what its plan has otherwise than the first one's.

    No digest and no path of this machine is in it.
    """
    found, plain = list[str](), next(iter(made.values()))()
    capsys.readouterr()
    for name, make in made.items():
        try:
            plan = make()
            text = "\n".join(parts(plan) if not found else differences(plain, plan))
        except Gb10Error as error:
            text = f"exit {error.code}: {error}"
        text = f"{capsys.readouterr().err}{text}\n"
        text = text.replace(str(Path.cwd()), "HERE").replace(str(ROOT), "CHECKOUT")
        found.append(section(name, re.sub(r"\b[0-9a-f]{64}\b|-[0-9a-f]{12}\b", "KEY", text)))
    return "\n".join(found)


def differences(plain: Plan, plan: Plan) -> list[str]:
    """What a plan has and the plain one has not, what it lacks, and which steps have other keys."""
    before, after = parts(plain), parts(plan)
    keys = {step.name: step.key for step in plain.steps}
    moved = [step.name for step in plan.steps if keys.get(step.name, step.key) != step.key]
    lines = [
        *(f"- {line}" for line in before if line not in after),
        *(f"+ {line}" for line in after if line not in before),
    ]
    return [*lines, f"other keys: {', '.join(moved) or 'none'}"]


def parts(plan: Plan) -> list[str]:
    """The parts of a plan, a line each."""
    options, recipe = plan.options, plan.recipe
    found = [f"tags: {', '.join(plan.tags)}"]
    for name in ("kernels", "targets", "without", "unpatched", "slim", "refs"):
        found += [f"{name}: {getattr(options, name)}"] if getattr(options, name) else []
    for use in options.patches:
        own = f" of {use.folder}" if use.folder else ""
        found.append(f"patch: {use.source} {use.name}{own}{'' if use.installable else ', compiled alone'}")
        found[-1] += f" from {use.path}" if use.path else ""
        found[-1] += ", a part" if use.whole else ""
    found += [f"mod: {mod.name}{' with the network' if mod.network else ''}" for mod in options.mods]
    found += [f"overlay: {options.overlay.path}"] if options.overlay else []
    found += [f"served: {options.served.name} {options.served.options}"] if options.served else []
    found.append(f"recipe: {recipe.engine} {recipe.version} {recipe.python} {recipe.cuda}")
    for step in plan.steps:
        count = f"{len(step.files)} files, " if step.name not in ("base-build", "tools") else ""  # of this machine
        found.append(f"{step.kind} {step.name}: {count}after {', '.join(step.needs) or 'nothing'}")
    return found


def test_requests_of_our_own_recipes(ctx: Context, capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    asked = {name: Request(**{"engine": "vllm", "arch": "12.1f", **given}) for name, given in OWN.items()}
    golden("cli/requests.txt", results({name: partial(make_plan, ctx, one) for name, one in asked.items()}, capsys))


def test_requests_on_an_image_of_others(ctx: Context, capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    made = {name: partial(planned, ctx, *case) for name, case in OTHERS.items()}
    golden("cli/requests-on-an-image.txt", results(made, capsys))


def planned(
    ctx: Context,
    image: BaseImage,
    recipe: Mapping[str, object],
    locked: Callable[[Lock], Lock] | None,
    asked: Mapping[str, Any],
) -> Plan:
    """The plan of a recipe file on an image; ``locked`` changes its lock, which is written beside it."""
    path = Path("my.yaml").absolute()
    path.write_text(yaml.safe_dump({"base": {"image": image.reference}, **recipe}), encoding="utf-8")
    given = load_any(path)
    assert isinstance(given, OnImage)
    lock = lock_on(image, load_lock(lock_path(RECIPE)), on_image_digest(given), asked=requested_base(given))
    write_lock(lock_path(path), locked(lock) if locked else lock)
    return make_plan(ctx, Request(**{"engine": str(path), "arch": "12.1f", **asked}))
