"""One fuzzer for each kind of input: real inputs of this repository, how they are changed, and what reads them."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import yaml
from packaging.version import Version

from gb10.cli.models.recipe_show import document as recipe_document
from gb10.core.document import parse_document
from gb10.core.fields import ARCHITECTURES
from gb10.core.folder_files import write_files
from gb10.errors import Gb10Error
from gb10.image.context import open_context
from gb10.image.lock.lockfile import check_lock, load_any, load_lock, load_recipe
from gb10.image.mods.declaration import ModRecord
from gb10.image.mods.read import load_mod
from gb10.image.patches.diff import FileDiff
from gb10.image.patches.foreign import apply_foreign, load_foreign
from gb10.image.patches.on_base import apply_on, place_diff
from gb10.image.patches.record import Record
from gb10.image.patches.releases import load_releases
from gb10.image.patches.source_tree import Changed, open_tree
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.plan_record import record
from gb10.image.plan.render import dockerfile, placing_stages
from gb10.image.proof.reading import scan_path
from gb10.image.recipe.image_recipe import Layout
from gb10.image.recipe.kernel_sets import model_set
from gb10.image.request.from_image import on_base
from gb10.image.request.kernel_choice import read_config
from gb10.image.request.plan_replay import ReplayInputs, plan_again, read_record
from gb10.image.request.recipe_mods import load_file
from gb10.inside.scan.binary import scan_buffer
from gb10.models.importing.import_result import ImportChoices, recipe_text
from gb10.models.importing.importing import import_recipe
from gb10.models.lint.linting import lint
from gb10.models.lint.rule import load_rules
from gb10.models.load.loading import load_model_recipe
from gb10.models.load.mending import mended_text
from gb10.models.registries.recipe_file import RecipeFile
from gb10.models.render.rendered import PEERS, RenderRequest
from gb10.models.render.rendering import render_recipe
from gb10.sources.index.client import project_of
from tests.fuzz import mutate
from tests.fuzz.bases import read_base, some_base
from tests.fuzz.command_lines import run_command_line, some_command_line
from tests.fuzz.dockerfiles import DIFF, read_dockerfile, read_hunks, some_dockerfile
from tests.fuzz.folders import build_folder, some_folder
from tests.fuzz.libraries import slim_library, some_library
from tests.fuzz.pages import HTML, JSON, read_as
from tests.fuzz.releases import read_metadata, some_metadata
from tests.fuzz.streams import read_stream, some_stream
from tests.fuzz.tokens import DIFF_TOKENS, HTML_TOKENS, JSON_TOKENS, YAML_TOKENS
from tests.recipes import SHIPPED
from tests.unit.made_up_base import PATCH, WHEEL, base, plan_on

Mutate = Callable[[random.Random], bytes]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fuzzer:
    """``count`` inputs of a kind are run with the tests; ``make soak`` goes on for as long as it is given."""

    make: Mutate
    read: Callable[[bytes, Path], None]
    count: int

    def input(self, seed: str, index: int) -> bytes:
        """The input of a number: the same for the same seed."""
        return self.make(random.Random(f"{seed} {index}"))  # noqa: S311 - repeatable on purpose


def files(*patterns: str) -> tuple[bytes, ...]:
    """The repository's own files, in order."""
    return tuple(path.read_bytes() for pattern in patterns for path in sorted(ROOT.glob(pattern)))


@lru_cache
def recipes() -> tuple[bytes, ...]:
    """Recipes, and the records of mods and patches, each behind the letter of its kind."""
    kinds = {
        "R": ("recipes/images/*.yaml", "tests/unit/data/on_image.yaml"),
        "M": ("mods/*/mod.yaml",),
        "P": ("patches/*/*.yaml",),
    }
    return tuple(kind.encode() + text for kind, patterns in kinds.items() for text in files(*patterns))


def some_document(rng: random.Random) -> bytes:
    """A YAML document with other values, or other bytes."""
    if rng.randrange(3):
        return mutate.of_bytes(rng, recipes(), YAML_TOKENS)
    chosen = rng.choice(recipes())
    value = mutate.of_value(rng, yaml.safe_load(chosen[1:]))
    return chosen[:1] + yaml.safe_dump(value, allow_unicode=False).encode("utf-8", "replace")


def read_document(data: bytes, scratch: Path) -> None:
    """As what its first letter says."""
    text = data[1:].decode("utf-8", "replace")
    if data[:1] == b"M":
        parse_document(text, ModRecord, where="x.yaml", what="record")
    elif data[:1] == b"P":
        parse_document(text, Record, where="x.yaml", what="record")
    else:
        (scratch / "x.yaml").write_bytes(data[1:])
        load_any(scratch / "x.yaml")


@lru_cache
def locks() -> tuple[bytes, ...]:
    """The repository's locks, with a few entries of each list."""
    return tuple(json.dumps(_short(json.loads(text))).encode() for text in files("recipes/images/*.lock.json"))


def _short(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {name: _short(below) for name, below in value.items()}
    return [_short(below) for below in value[:4]] if isinstance(value, list) else value


def read_lock(data: bytes, scratch: Path) -> None:
    """The lock, and what its readers ask of each entry."""
    (scratch / "x.lock.json").write_bytes(data)
    lock = load_lock(scratch / "x.lock.json")
    for wheels in (*lock.wheels.image.values(), *lock.wheels.tools.values()):
        for wheel in wheels:
            assert Version(wheel.version) >= Version("0a0.dev0")
            assert project_of(wheel.filename)
    for architecture in ARCHITECTURES:
        assert (lock.debs.image[architecture], lock.wheels.tools[architecture]) is not None
    check_lock(load_recipe(ROOT / "recipes/images/vllm.yaml"), lock, Path("x.yaml"))


CONFIGS: Final = tuple(
    json.dumps(config).encode()
    for config in (
        {"hidden_size": 4096, "num_attention_heads": 32, "torch_dtype": "bfloat16", "head_dim": 128},
        {
            "text_config": {"hidden_size": 2880, "num_attention_heads": 64, "dtype": "bfloat16"},
            "sliding_window": 128,
            "layer_types": ["sliding_attention", "full_attention"],
            "quantization_config": {"quant_method": "mxfp8", "config_groups": {"group_0": {"input_activations": {}}}},
        },
        {
            "torch_dtype": "bfloat16",
            "num_attention_heads": 128,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
            "qk_nope_head_dim": 128,
            "v_head_dim": 128,
            "index_topk": 2048,
            "n_routed_experts": 256,
            "quantization_config": {"quant_algo": "NVFP4", "quantization": {"quant_algo": "FP8"}},
        },
    )
)


def read_model(data: bytes, scratch: Path) -> None:
    """A folder with a config.json, as ``--for-model`` reads it."""
    (scratch / "config.json").write_bytes(data)
    ctx = open_context({"HOME": str(scratch), "GB10_CACHE_DIR": str(scratch / "store")}, verbosity=-1)
    model_set(read_config(ctx, str(scratch)), "x", ["0.7.2"])


def read_mod_zip(data: bytes, scratch: Path) -> None:
    """A mod from a zip, laid out as for a build."""
    (scratch / "m.zip").write_bytes(data)
    write_files(load_mod(scratch / "m.zip").files, scratch / "out")


def read_mod_folder(data: bytes, scratch: Path) -> None:
    """A mod from a folder, laid out as for a build."""
    build_folder(data, scratch / "m")
    write_files(load_mod(scratch / "m").files, scratch / "out")


@lru_cache
def binaries() -> tuple[bytes, ...]:
    """Small ELFs, cubins and fatbins of nvcc's."""
    return tuple(data for data in files("tests/unit/data/scan/*") if data[:4] in (b"\x7fELF", b"\x50\xed\x55\xba"))


def some_binary(rng: random.Random) -> bytes:
    """An ELF with other bytes, most of them in its headers."""
    chosen = rng.choice(binaries())
    head = mutate.of_bytes(rng, (chosen[:200],), (b"\xff" * 8, b"\0" * 8)) if rng.randrange(2) else chosen[:200]
    return mutate.of_bytes(
        rng, (head + chosen[200:],), (b"\xff" * 8, b"\0" * 8, b"\x50\xed\x55\xba", b"\x7fELF\x02\x01")
    )


def read_binary(data: bytes, _: Path) -> None:
    """An ELF, as a scan reads it: damaged is a result."""
    scan_buffer(data, "x")


def read_wheel(data: bytes, scratch: Path) -> None:
    """A wheel, as ``verify`` reads it."""
    (scratch / "x-1-py3-none-any.whl").write_bytes(data)
    scan_path(scratch / "x-1-py3-none-any.whl")


def read_patch(data: bytes, scratch: Path) -> None:
    """A diff given by hand, on a tree that has the files which it changes, and on one that has none."""
    (scratch / "x.patch").write_bytes(data)
    patch = load_foreign(scratch / "x.patch", {"vllm": Layout(packages=("vllm",))}, "vllm")
    for tree in (open_tree(scratch), Changed(open_tree(scratch), dict(_before(diff) for diff in patch.diffs))):
        apply_foreign(patch, tree)


def _before(diff: FileDiff) -> tuple[str, bytes]:
    return diff.path, b"".join(line for hunk in diff.hunks for line in hunk.old)


def read_patch_on_base(data: bytes, _: Path) -> None:
    """A diff on an image of others that has its files at each place where they may lie, and on one that has none."""
    on, releases = on_base(base()), load_releases(ROOT / "patches")
    given = place_diff(data, "x.diff", on, releases)
    before = {path: _before(file.diff)[1] for file in given.files for path in file.paths if file.diff.kind != "add"}
    for there in (before, {}):
        found = apply_on([given], on, lambda _, there=there: there)  # type: ignore[misc]
        assert all(path.startswith("/") and "/../" not in f"{path}/" for path in found)


@lru_cache
def records() -> tuple[bytes, ...]:
    """The record of an image on an image of others, with a few entries of each list."""
    plan = plan_on(base(), patches=(PATCH,), added=(WHEEL,), env={"A": "b"})
    return (json.dumps(_short(record(plan))).encode(),)


def read_plan_on_base(data: bytes, scratch: Path) -> None:
    """The record that such an image holds, as ``rebuild`` reads it; what is planned of it is one Dockerfile."""
    found = read_record(data, "plan.json")
    plan = plan_again(SHIPPED, found, ReplayInputs(), scratch)
    text = dockerfile(plan, SHIPPED.templates)
    stages = [line.split(" AS ")[1] for line in text.splitlines() if line.startswith("FROM ")]
    assert stages == ["base-build", "base", *placing_stages(plan), "assembled", "proof", "record", "image"]


def contents() -> Sequence[bytes]:
    """What archives hold."""
    return (b"#!/bin/sh\ntrue\n", *binaries())


def some_tree(rng: random.Random) -> bytes:
    """A source archive, or a wheel: its sizes are any, too."""
    if rng.randrange(3):
        return mutate.of_tar(rng, contents())
    made = mutate.of_zip(rng, contents(), "vllm/a.py")
    return made if rng.randrange(2) else b"PK" + mutate.of_bytes(rng, (made,), (b"PK\x01\x02", b"\xff" * 8))[2:]


def read_tree(data: bytes, scratch: Path) -> None:
    """A source archive or a wheel, as ``--tree`` reads it."""
    path = scratch / ("x.whl" if data[:2] == b"PK" else "x.tar.gz")
    path.write_bytes(data)
    tree = open_tree(path)
    for name in tree.paths()[:50]:
        tree.read(name)


RECIPE_TOKENS: Final = (
    *YAML_TOKENS,
    *(b"{", b"}", b"{{", b"}}", b"{model}", b"{port:>99999999}", b"{0}", b"{a.b[c]!r}", b"\\\n", b" \\ \n"),
    *(b"model: x", b"command: |\n  ", b"defaults:", b"solo_only: true", b"max_nodes: 1", b"recipe_version: 1"),
)


@lru_cache
def model_recipes() -> tuple[bytes, ...]:
    """Our model recipes, and those that were compared with the peers."""
    return files("recipes/models/*.yaml", "tests/unit/data/models/*.yaml")


def some_model_recipe(rng: random.Random) -> bytes:
    """A model recipe with other bytes, or with other values."""
    if rng.randrange(3):
        return mutate.of_bytes(rng, model_recipes(), RECIPE_TOKENS)
    value = mutate.of_value(rng, yaml.safe_load(rng.choice(model_recipes())))
    return yaml.safe_dump(value, allow_unicode=False).encode("utf-8", "replace")


def read_model_recipe(data: bytes, scratch: Path) -> None:
    """A model recipe: loaded, linted, mended, and rendered as each peer renders it."""
    (scratch / "x.yaml").write_bytes(data)
    recipe = load_file(RecipeFile(scratch / "x.yaml"))
    json.dumps(recipe_document(recipe))
    try:
        json.dumps([issue.document for issue in lint(recipe, load_rules()).issues])
    except Gb10Error as error:
        raise AssertionError("one recipe must not end the check of a folder") from error
    mended_text(data.decode("utf-8"), "x.yaml")
    for peer in (None, *PEERS):
        for nodes in ((), ("a", "b")):
            overrides = (("port", "1"), ("config.n", "2")) if nodes else ()
            for lenient in (False, True):
                request = RenderRequest(peer=peer, nodes=nodes, lenient=lenient, overrides=overrides)
                json.dumps(render_recipe(recipe, request).document)


@lru_cache
def foreign_recipes() -> tuple[bytes, ...]:
    """Files of the forms that `recipe import` reads."""
    return files("tests/unit/data/import/*.yaml")


def some_foreign_recipe(rng: random.Random) -> bytes:
    """A file to import, with other bytes, or with other values."""
    if rng.randrange(2):
        return mutate.of_bytes(rng, foreign_recipes(), YAML_TOKENS)
    value = mutate.of_value(rng, yaml.safe_load(rng.choice(foreign_recipes())))
    return yaml.safe_dump(value, allow_unicode=False).encode("utf-8", "replace")


def read_foreign_recipe(data: bytes, _: Path) -> None:
    """A file to import: what becomes of it is a recipe, or one error."""
    text = data.decode("utf-8", "replace")
    load_model_recipe(
        recipe_text(import_recipe(text, "x.yaml", ImportChoices(image="gb10/vllm:1")), "x.yaml"), "x.yaml"
    )


FUZZERS: Final[Mapping[str, Fuzzer]] = {
    "base": Fuzzer(make=some_base, read=read_base, count=300),
    "yaml": Fuzzer(make=some_document, read=read_document, count=100),
    "page-json": Fuzzer(make=lambda rng: mutate.of_json(rng, JSON, JSON_TOKENS), read=read_as("json"), count=300),
    "page-html": Fuzzer(make=lambda rng: mutate.of_bytes(rng, HTML, HTML_TOKENS), read=read_as("html"), count=300),
    "model": Fuzzer(make=lambda rng: mutate.of_json(rng, CONFIGS, JSON_TOKENS), read=read_model, count=150),
    "mod-zip": Fuzzer(make=lambda rng: mutate.of_zip(rng, contents(), "run.sh"), read=read_mod_zip, count=150),
    "mod-folder": Fuzzer(make=some_folder, read=read_mod_folder, count=60),
    "wheel": Fuzzer(make=lambda rng: mutate.of_zip(rng, contents(), "x/_C.so"), read=read_wheel, count=100),
    "binary": Fuzzer(make=some_binary, read=read_binary, count=500),
    "library": Fuzzer(make=some_library, read=slim_library, count=300),
    "model-recipe": Fuzzer(make=some_model_recipe, read=read_model_recipe, count=150),
    "import": Fuzzer(make=some_foreign_recipe, read=read_foreign_recipe, count=150),
    "lock": Fuzzer(make=lambda rng: mutate.of_json(rng, locks(), JSON_TOKENS), read=read_lock, count=150),
    "patch": Fuzzer(
        make=lambda rng: mutate.of_bytes(rng, files("patches/*/*.patch"), DIFF_TOKENS), read=read_patch, count=250
    ),
    "patch-on-base": Fuzzer(
        make=lambda rng: mutate.of_bytes(rng, files("patches/*/*.patch"), DIFF_TOKENS),
        read=read_patch_on_base,
        count=150,
    ),
    "plan-on-base": Fuzzer(
        make=lambda rng: mutate.of_json(rng, records(), JSON_TOKENS), read=read_plan_on_base, count=100
    ),
    "metadata": Fuzzer(make=some_metadata, read=read_metadata, count=100),
    "stream": Fuzzer(make=some_stream, read=read_stream, count=150),
    "tree": Fuzzer(make=some_tree, read=read_tree, count=100),
    "dockerfile": Fuzzer(make=some_dockerfile, read=read_dockerfile, count=150),
    "hunks": Fuzzer(
        make=lambda rng: mutate.of_bytes(rng, (DIFF, *files("patches/vllm/*.patch")), DIFF_TOKENS),
        read=read_hunks,
        count=150,
    ),
    "command-line": Fuzzer(make=some_command_line, read=run_command_line, count=40),
}
