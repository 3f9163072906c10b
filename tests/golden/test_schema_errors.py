"""Every mistake in a recipe is told with its place and the way out: one golden file has a section for each kind."""

from pathlib import Path

import pytest

from gb10.core.document import parse_document
from gb10.errors import UsageError
from gb10.image.recipe.image_recipe import Recipe
from tests.golden.conftest import Golden, section

GOOD = (Path(__file__).parent / "schema" / "good.yaml").read_text(encoding="utf-8")

MISTAKES = {
    "unknown-key": ("requirements:", "requirments:"),
    "unknown-key-far": ("workdir:", "colour: red\nworkdir:"),
    "unknown-key-deep": ("  packages:", "  packagse: []\n  packages:"),
    "number-for-text": ('python: "3.13"', "python: 3.13"),
    "switch-for-text": ("A: b", "A: yes"),
    "text-for-list": ("requirements: [alpha==1]", "requirements: alpha==1"),
    "duplicate-key": ("workdir:", "engine: vllm\nworkdir:"),
    "duplicate-layer": ("  - {name: most, rest: true}", "  - {name: one, rest: true}"),
    "duplicate-requirement": ("[alpha==1]", "[alpha==1, beta, Alpha>=2]"),
    "duplicate-package": ("image: [g++]", "image: [g++, python3, g++]"),
    "no-requirement": ("[alpha==1]", "['alpha=1']"),
    "not-pinned": ("sdist: alpha==1", "sdist: alpha>=1"),
    "source-without-tag": ("{sdist: alpha==1}", '{git: "https://git.invalid/alpha"}'),
    "source-with-tag-and-commit": (
        "{sdist: alpha==1}",
        '{git: "https://git.invalid/alpha", tag: v1.0, commit: ' + "1" * 39 + "a}",
    ),
    "short-commit": ("{sdist: alpha==1}", '{git: "https://git.invalid/alpha", commit: 1a2b3c4}'),
    "submodules-of-an-archive": ("{sdist: alpha==1}", "{sdist: alpha==1, submodules: [b]}"),
    "no-git-url": ("{sdist: alpha==1}", "{git: alpha, tag: v1.0}"),
    "unknown-source": ("source: alpha", "source: beta"),
    "unknown-method": ("method: aot", "method: guess"),
    "extension-without-torch": ("method: aot", "method: extension"),
    "source-without-cutlass": (
        "method: aot, source: alpha, kernels: core",
        "method: source, source: alpha, headers: [torch]",
    ),
    "nested-archive": (
        "method: aot, source: alpha, kernels: core",
        "method: source, source: alpha, headers: [torch], cutlass: {source: alpha}, nested: {alpha: [_C]}",
    ),
    "nested-unknown": (
        "method: aot, source: alpha, kernels: core",
        "method: source, source: alpha, headers: [torch], cutlass: {source: alpha}, nested: {beta: [_C]}",
    ),
    "nested-without-targets": (
        "method: aot, source: alpha, kernels: core",
        "method: source, source: alpha, headers: [torch], cutlass: {source: alpha}, nested: {alpha: []}",
    ),
    "all-and-more": (
        "method: aot, source: alpha, kernels: core",
        "method: source, source: alpha, headers: [torch], cutlass: {source: alpha}, targets: [all, _C]",
    ),
    "targets-of-kernels": ("method: aot", "targets: [_C], method: aot"),
    "index-of-nobody": ("layers:", "indexes: {own: {url: https://a.invalid, packages: [beta]}}\nlayers:"),
    "index-of-two": (
        "layers:",
        "indexes: {b: {url: https://b.invalid, packages: [alpha]}, a: {url: https://a.invalid, packages: [alpha]}}\n"
        "layers:",
    ),
    "index-overridden": (
        "layers:",
        "overrides: [{requirement: Alpha==2, why: it is newer}]\n"
        "indexes: {own: {url: https://a.invalid, packages: [alpha]}}\nlayers:",
    ),
    "index-unencrypted": ("layers:", "indexes: {own: {url: http://a.invalid, packages: [alpha]}}\nlayers:"),
    "index-with-a-quote": ("layers:", "indexes: {own: {url: 'https://a.invalid/\"x', packages: [alpha]}}\nlayers:"),
    "index-with-a-query": ("layers:", "indexes: {own: {url: 'https://a.invalid?x=1', packages: [alpha]}}\nlayers:"),
    "index-with-a-password": ("layers:", "indexes: {own: {url: https://me:pw@a.invalid, packages: [alpha]}}\nlayers:"),
    "layer-of-nothing": ("{name: one, packages: [alpha]}", "{name: one}"),
    "two-rests": ("{name: one, packages: [alpha]}", "{name: one, rest: true}"),
    "bad-architecture": ("amd64: [", "x86_64: ["),
    "not-yaml": ("workdir:", "workdir: ["),
    "unknown-tag": ("workdir: /w", "workdir: !!python/name:os.system"),
    "no-date": ("workdir:", "exclude-newer: 2026-13-01\nworkdir:"),
    "control-character": ("workdir:", "workdir: \x01"),
    "list-for-key": ("workdir: /w", "workdir: /w\n? [a, b]\n: c"),
}


def refused(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_document(text, Recipe, where="recipes/images/x.yaml", what="image recipe")
    return f"{caught.value}\n"


def test_mistakes(golden: Golden) -> None:
    texts = []
    for name, (right, wrong) in MISTAKES.items():
        assert GOOD.count(right) == 1
        texts.append(section(f"{name}: {right!r} -> {wrong!r}", refused(GOOD.replace(right, wrong))))
    at_once = ("unknown-key", "unknown-key-deep", "number-for-text", "switch-for-text", "duplicate-package")
    text = GOOD
    for name in at_once:
        text = text.replace(*MISTAKES[name])
    golden("schema/mistakes.txt", "\n".join([*texts, section(" and ".join(at_once), refused(text))]))


@pytest.mark.parametrize("text", ["", "- a\n", "just words\n"])
def test_no_mapping(text: str) -> None:
    with pytest.raises(UsageError, match="must be a mapping"):
        parse_document(text, Recipe, where="x.yaml", what="image recipe")


def test_the_good_one_is_good() -> None:
    recipe = parse_document(GOOD, Recipe, where="x.yaml", what="image recipe")
    assert recipe.layers[1].rest
    assert recipe.base.packages.cross == {"amd64": ("g++-aarch64-linux-gnu",)}
