"""``show``: what an image holds, or what differs between two."""

import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from gb10.cli.common import JsonOption, print_json, verb_app, with_context
from gb10.cli.values import ArchOption
from gb10.core.printing import printable
from gb10.errors import UsageError
from gb10.image.context import Context
from gb10.image.inspect.any_image import portrait, sbom
from gb10.image.inspect.differences import Differences, differences
from gb10.image.inspect.differences import document as difference_document
from gb10.image.inspect.remote import Trust
from gb10.image.inspect.summary import ImageSummary, PatchStory, codes_of, document
from gb10.image.proof.arch_match import MEANING
from gb10.image.publish.signing import check_signers, signer_of
from gb10.image.recipe.arch import parse_arch
from gb10.image.recipe.base_image import BaseImage

FIRST = ("torch", "triton", "vllm", "sglang", "flashinfer-python", "flashinfer-jit-cache", "transformers")
"""Packages that are named first."""
WIDTH = 100


def portrait_lines(one: ImageSummary) -> list[str]:
    """The whole portrait."""
    return [printable(line) for section in _sections(one) for line in section]


def _sections(one: ImageSummary) -> Iterator[Iterable[str]]:
    yield _head(one)
    yield _versions(one)
    yield _patches(one)
    yield _mods(one)
    yield _codes(one)
    yield _base(one)
    yield _layers(one)
    yield _slim(one)
    yield [f"note: {remark}" for remark in one.remarks]


def _head(one: ImageSummary) -> Iterator[str]:
    size = f"{one.size / 1e9:.2f} GB{' compressed' if one.packed else ''} in {len(one.layers)} layers"
    yield f"{one.reference}  {one.platform}  {size}"
    if one.plan:
        plan = one.plan
        dated = f", lock of {plan.created}" if plan.created else ""
        yield f"{plan.engine} {plan.version} for {plan.arch}{dated}, key {plan.key}"
    yield f"{one.digest}"
    user = one.user or "root"
    yield f"starts as {'root' if user in ('0', '0:0') else user}, from {one.place}"


def _versions(one: ImageSummary) -> Iterator[str]:
    if not one.packages:
        return
    yield ""
    others = f", and {len(one.debs)} Debian packages" if one.debs else ""
    yield f"{len(one.packages)} Python packages{others}"
    first = [name for name in FIRST if name in one.packages]
    width = max(map(len, first), default=0)
    yield from (f"  {name:{width}}  {one.packages[name]}" for name in first)


def _patches(one: ImageSummary) -> Iterator[str]:
    if one.patches:
        yield ""
        yield f"{len(one.patches)} patches"
    for patch in one.patches:
        yield f"  {patch.source}/{patch.name}  {patch.sha256[:12]}"
        yield from _why(patch)
    if one.plan and one.plan.unpatched:
        yield ""
        yield f"without our patches {', '.join(one.plan.unpatched)}"


def _why(patch: PatchStory) -> Iterator[str]:
    if not patch.defect:
        yield f"    {patch.origin or 'this checkout has no such patch'}"
        return
    yield from textwrap.wrap(patch.defect, WIDTH, initial_indent="    ", subsequent_indent="    ")
    life = [f"for {patch.source} {patch.applies}"]
    life += [f"until {patch.until}"] if patch.until else []
    life += [patch.upstream] if patch.upstream else []
    yield f"    {', '.join(life)}"


def _mods(one: ImageSummary) -> Iterator[str]:
    if one.mods:
        yield ""
        yield f"{len(one.mods)} mods"
    for mod in one.mods:
        yield f"  {mod.name}  {mod.sha256[:12]}"
        yield from textwrap.wrap(
            mod.what or "this checkout has no such mod", WIDTH, initial_indent="    ", subsequent_indent="    "
        )


def _codes(one: ImageSummary) -> Iterator[str]:
    if one.verdict is None:
        return
    yield ""
    yield f"GPU code, for {one.verdict.arch.capability}"
    for fit, count in one.verdict.counts.items():
        if count:
            yield f"  {count:6}  {fit:10}  {MEANING[fit]}"
    pieces = (f"{code} x{count:,}" for code, count in codes_of(one).items())
    yield from textwrap.wrap(", ".join(pieces), WIDTH, initial_indent="  ", subsequent_indent="  ")


def _flashinfer(base: BaseImage) -> Iterator[tuple[str, str]]:
    """FlashInfer, and what brings modules or cubins for it: such packages of another release are not used."""
    for name, found in base.installed.items():
        if name.startswith("flashinfer-"):
            yield name, found.version


def _base(one: ImageSummary) -> Iterator[str]:
    base = one.base
    if base is None:
        return
    torch, engine = base.installed.get("torch"), base.installed.get(base.engine)
    checkout = ", an editable checkout" if engine and engine.editable else ""
    cuda = {"": "CUDA not known", "none": "without CUDA"}.get(base.cuda, f"CUDA {base.cuda}")
    rows = {
        "engine": f"{base.engine} {base.version} in {engine.folder}{checkout}" if engine else "none",
        "python": f"{base.python}, {base.interpreter}",
        "packages in": base.site_packages[0],
        "and in": ", ".join(folder for folder in base.search if folder != base.site_packages[0]),
        "torch": f"{torch.version}, {cuda}" if torch else "none",
        "flashinfer": ", ".join(f"{name} {version}" for name, version in _flashinfer(base)),
        "glibc": f"{base.glibc or 'not found'}{base.system and ', '}{base.system}",
        "user": base.user or "root",
        "entrypoint": shlex.join(base.entrypoint) or "none",
        "command": shlex.join(base.command),
        "folder": base.workdir,
    }
    yield ""
    yield "as a base"
    yield from (f"  {name:11}  {text}" for name, text in rows.items() if text)


def _layers(one: ImageSummary) -> Iterator[str]:
    yield ""
    yield "layers, lowest first"
    width = max((len(layer.name) for layer in one.layers), default=0)
    for layer in one.layers:
        size = f"{layer.size / 1e6:10,.1f} MB" if layer.size or one.packed else " " * 13
        yield f"  {layer.name:{width}}  {size}  {layer.digest.removeprefix('sha256:')[:12]}"


def _slim(one: ImageSummary) -> Iterator[str]:
    rules = one.plan.slim if one.plan else ()
    if rules:
        yield ""
        yield f"{len(rules)} slimming rules, {sum(rule.mb for rule in rules):,.0f} MB less"
        width = max(len(rule.name) for rule in rules)
        for rule in sorted(rules, key=lambda rule: -rule.mb):
            own = "" if rule.publish else "  own use only"
            yield f"  {rule.name:{width}}  {rule.mb:8,.1f} MB  {rule.action}{own}"


def difference_lines(found: Differences) -> list[str]:
    """What changed, by section; one line says so when nothing did."""
    before, after = found.size
    lines = [
        f"{found.one}  ->  {found.two}",
        f"{before / 1e9:.2f} GB  ->  {after / 1e9:.2f} GB; {found.shared} layers are the same, "
        f"{found.moved} are new: {found.new / 1e6:,.1f} MB to pull",
    ]
    if found.same:
        return [printable(line) for line in (*lines, "no difference")]
    return [printable(line) for line in (*lines, *_changed(found.sections))]


def _changed(sections: Mapping[str, tuple[tuple[str, str, str], ...]]) -> Iterator[str]:
    for title, rows in sections.items():
        if not rows:
            continue
        yield ""
        yield f"{title}: {len(rows)} changed"
        width = min(60, max(len(row[0]) for row in rows))
        for name, one, two in rows:
            yield f"  {name:{width}}  {one or '-'}  ->  {two or '-'}"


app = verb_app("""Show what an image holds: versions, patches and why, mods, GPU code, the size of each layer.

\b
./build.py show gb10/vllm:0.33.0-cu130-sm121f                  # an image of the container engine
./build.py show registry.example/gb10/vllm:stable              # in a registry, without a pull
./build.py show gb10/vllm:old gb10/vllm:new                    # what changed, and what a pull would move
./build.py show gb10/vllm:0.33.0-cu130-sm121f --sbom > vllm.spdx.json
./build.py show docker.io/vllm/vllm-openai:nightly --base      # of others: what it is to build on
./build.py show registry.example/gb10/vllm:stable --sbom --require-signer ~/.config/gb10/signers

An image of gb10 is shown by the records that it holds; in a registry, by what `publish` attached to it. Any other image
of the engine is scanned: that takes minutes the first time, and shows packages, GPU code and layers. Of another image
in a registry, its layers and settings are shown. `verify IMAGE` believes no record: it reads the files.

--base reads the layers of an image in a registry as they stream by, without a pull and without running it: which Python
runs the engine, where its packages are, engine, torch, CUDA, glibc, user and entrypoint. Each layer is read once; a
second look takes a second and fetches nothing.

--require-signer reads the registry, and takes ssh's allowed_signers file (man ssh-keygen). It shows nothing unless one
of its keys signed the image, and only documents that one of them signed (`publish --sign`).
""")


@app.command(help=app.info.help)
@with_context
def show(
    *,
    ctx: Context,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="A tag, an id, or a reference to a registry.")],
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="Another image: show what changed from the first to it.")
    ] = None,
    arch: ArchOption = "12.1f",
    only_sbom: Annotated[
        bool, typer.Option("--sbom", help="Print the SBOM, SPDX 2.3 in JSON, and nothing else.")
    ] = False,
    signers: Annotated[
        Path | None,
        typer.Option("--require-signer", metavar="FILE", help="Show only what a key in this file has signed."),
    ] = None,
    as_base: Annotated[
        bool,
        typer.Option("--base", help="Read the layers of an image in a registry, once: what it is to build on."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what an image holds."""
    wanted, trust = parse_arch(arch), _trust(ctx, signers)
    if only_sbom:
        if other or as_json:
            raise UsageError("--sbom is for one image, and is JSON itself", hint=f"./build.py show {image} --sbom")
        sys.stdout.write(sbom(ctx, image, wanted, trust).decode())
        return
    if as_base and other:
        raise UsageError("--base is for one image", hint=f"./build.py show {image} --base")
    one = portrait(ctx, image, wanted, trust, as_base=as_base)
    if other is None:
        print_json(document(one)) if as_json else print("\n".join(portrait_lines(one)))
        return
    found = differences(one, portrait(ctx, other, wanted, trust))
    print_json(difference_document(found)) if as_json else print("\n".join(difference_lines(found)))


def _trust(ctx: Context, signers: Path | None) -> Trust | None:
    """What must be signed, by a key of a file. Raises UsageError for a file that is not there."""
    if signers is None:
        return None
    check_signers(signers)
    return lambda name, digest, beside: signer_of(ctx, name, digest, beside, signers)
