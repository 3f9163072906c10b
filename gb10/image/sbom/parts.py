"""The parts of an image by the plan that it holds: packages, wheels, sources, patches, mods. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from gb10.core.document import parse_document
from gb10.core.fields import Model, Name, Pinned
from gb10.image.plan.plan_record import RecordedFile, RecordedMod, RecordedPatch, RecordedPlan, RecordedStep
from gb10.image.recipe.base_image import BaseImage
from gb10.inside.scan.installed import Distribution

Kind = Literal["image", "base", "deb", "wheel", "built", "source", "nested", "patch", "mod", "overlay"]
Verb = Literal["CONTAINS", "GENERATED_FROM", "PATCH_APPLIED", "DESCENDANT_OF"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One part. ``id`` names it within the bill; ``layer`` is the step whose layer holds it, if one does."""

    id: str
    kind: Kind
    name: str
    version: str = ""
    filename: str = ""
    sha256: str = ""
    size: int = 0
    purl: str = ""
    git: str = ""
    """The repository and the commit or tag, for what no index has."""
    licence: str = ""
    layer: str = ""
    comment: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """The parts, the image first, and how they belong together: (from, verb, to)."""

    parts: tuple[Part, ...]
    relations: tuple[tuple[str, Verb, str], ...]

    def of_kind(self, kind: Kind) -> Iterator[Part]:
        """The parts of one kind, by name."""
        return iter(sorted((part for part in self.parts if part.kind == kind), key=lambda part: part.name))


NESTED: Final = "recipes/nested.yaml"
BASE: Final = "base"
"""The id of the image of others below."""


class NestedProject(Model):
    """A git repository, and the release, tag or commit of it that is inside."""

    git: str
    version: str


class NestedProjects(Model):
    """``recipes/nested.yaml``: by project and release, what its source archive bundles or its build fetches."""

    releases: dict[Pinned, dict[Name, NestedProject]] = {}

    def of(self, project: str, version: str) -> Mapping[str, NestedProject]:
        """What is inside of a release; nothing of one that is not listed."""
        return self.releases.get(f"{canonicalize_name(project)}=={version}", {})


def read_nested(text: str) -> NestedProjects:
    """The list; raises UsageError for a file that is not valid."""
    return parse_document(text, NestedProjects, where=NESTED, what="list of nested projects")


def deb_part(file: RecordedFile, suite: str, layer: str) -> Part:
    """A Debian package by the name of its file; of an epoch there, the archive writes ``%3a``."""
    name, _, rest = file.filename.removesuffix(".deb").partition("_")
    version, _, architecture = rest.replace("%3a", ":").rpartition("_")
    distro = f"&distro={suite}" if suite else ""
    return Part(
        id=f"deb-{name}",
        kind="deb",
        name=name,
        version=version,
        filename=file.filename,
        sha256=file.sha256,
        size=file.size,
        purl=f"pkg:deb/debian/{name}@{quoted(version)}?arch={architecture}{distro}",
        layer=layer,
    )


def wheel_part(file: RecordedFile, layer: str) -> Part:
    """A locked wheel by its file name; a name that is none is the part's own name."""
    try:
        name, version, _, _ = parse_wheel_filename(file.filename)
    except ValueError:
        return Part(id=f"wheel-{file.filename}", kind="wheel", name=file.filename, sha256=file.sha256, layer=layer)
    return Part(
        id=f"wheel-{name}",
        kind="wheel",
        name=name,
        version=str(version),
        filename=file.filename,
        sha256=file.sha256,
        size=file.size,
        purl=f"pkg:pypi/{name}@{quoted(str(version))}?file_name={quoted(file.filename)}",
        layer=layer,
    )


def source_part(file: RecordedFile) -> Part:
    """A source archive of the package index, or a commit of git."""
    name, version, purl, git = _origin(file)
    return Part(
        id=f"source-{name}",
        kind="source",
        name=name,
        version=version,
        filename=file.filename,
        sha256=file.sha256,
        size=file.size,
        purl=purl,
        git=git,
    )


def _origin(file: RecordedFile) -> tuple[str, str, str, str]:
    """Name, version, purl and repository of a source."""
    if file.checkout:
        pin = file.checkout.tag or file.checkout.commit
        purl = github_purl(file.checkout.git, file.checkout.commit)
        return file.filename.rpartition("-")[0], pin, purl, f"git+{file.checkout.git}@{pin}"
    try:
        name, release = parse_sdist_filename(file.filename)
    except ValueError:
        return file.filename, "", "", ""
    purl = f"pkg:pypi/{name}@{quoted(str(release))}?file_name={quoted(file.filename)}"
    return str(name), str(release), purl, ""


def github_purl(url: str, version: str) -> str:
    """The purl of a repository of GitHub, nothing for another host."""
    _, found, path = url.removesuffix(".git").partition("://github.com/")
    return f"pkg:github/{path.lower()}@{quoted(version)}" if found else ""


def quoted(text: str) -> str:
    """A version or file name in a purl: what is not a plain character is percent-encoded."""
    return "".join(one if one.isascii() and (one.isalnum() or one in "-._~") else f"%{ord(one):02X}" for one in text)


@dataclass(kw_only=True, slots=True)
class _Draft:
    plan: RecordedPlan
    nested: NestedProjects
    parts: dict[str, Part] = field(default_factory=dict)
    relations: dict[tuple[str, Verb, str], None] = field(default_factory=dict)

    def add(self, part: Part, verb: Verb | None = None, of: str = "") -> str:
        """A part, once, and that ``of`` is related to it."""
        self.parts.setdefault(part.id, part)
        if verb:
            self.relations[of, verb, part.id] = None
        return part.id


def bill_of(
    plan: RecordedPlan,
    nested: NestedProjects,
    *,
    overlay: str = "",
    installed: Iterable[Distribution] = (),
    whys: Mapping[str, str] | None = None,
) -> Bill:
    """The bill of an image of a plan.

    ``installed`` is what its scans say, with versions and licences; ``whys`` are the defects of patches by sha256.
    """
    draft = _Draft(plan=plan, nested=nested)
    title = plan.tags[-1] if plan.tags else plan.engine
    draft.add(Part(id="image", kind="image", name=title.partition(":")[0], version=title.partition(":")[2]))
    if plan.base:
        _base(draft, plan.base)
    for step in plan.steps:
        _step(draft, step)
    for patch in plan.patches:
        _patch(draft, patch, (whys or {}).get(patch.sha256, ""))
    for mod in plan.mods:
        draft.add(_mod(mod), "CONTAINS", "image")
    if overlay:
        draft.add(Part(id="overlay", kind="overlay", name="overlay", sha256="", comment=overlay), "CONTAINS", "image")
    found = {canonicalize_name(one.name): one for one in installed}
    parts = (_as_installed(part, found.get(canonicalize_name(part.name))) for part in draft.parts.values())
    return Bill(parts=tuple(parts), relations=tuple(draft.relations))


def _step(draft: _Draft, step: RecordedStep) -> None:
    if step.kind == "rootfs" and step.name == "base-image":
        for file in step.files:
            draft.add(deb_part(file, draft.plan.suite, step.name), "CONTAINS", "image")
    elif step.kind in ("layer", "added"):
        for file in step.files:
            _inside(draft, draft.add(wheel_part(file, step.name), "CONTAINS", "image"))
    elif step.kind == "wheel":
        _compiled(draft, step)
    elif step.kind == "graft":
        _graft(draft, step)


def _base(draft: _Draft, base: BaseImage) -> None:
    """The image of others below, and the distributions that it was read to hold; its bytes are its author's."""
    name, _, found = base.reference.partition("@sha256:")
    draft.add(
        Part(
            id=BASE,
            kind="base",
            name=name,
            version=found[:12],
            sha256=found,
            purl=f"pkg:oci/{quoted(name.rpartition('/')[2])}@{quoted(f'sha256:{found}')}?repository_url={quoted(name)}",
            comment="as received",
        ),
        "DESCENDANT_OF",
        "image",
    )
    for name, one in base.installed.items():
        draft.add(
            Part(
                id=f"{BASE}-{name}",
                kind="wheel",
                name=name,
                version=one.version,
                purl=f"pkg:pypi/{quoted(name)}@{quoted(one.version)}",
                layer="base",
                comment="as received",
            ),
            "CONTAINS",
            BASE,
        )


def _compiled(draft: _Draft, step: RecordedStep) -> None:
    """A compiled wheel and the sources that it is made of; libraries of an engine's project go into its graft."""
    made = _built(step.name, step, layer=f"layer-{step.name}")
    draft.add(made, "CONTAINS" if draft.plan.installs(step) else None, "image")
    for file in step.files:
        if not file.filename.endswith(".whl"):
            source = source_part(file)
            draft.add(source, "GENERATED_FROM", made.id)
            _inside(draft, source.id)


def _graft(draft: _Draft, step: RecordedStep) -> None:
    """A wheel with patches, made of upstream's and of what was compiled for it."""
    made = draft.add(_built(step.name.removeprefix("graft-"), step, layer=step.name), "CONTAINS", "image")
    for file in step.files:
        draft.relations[made, "GENERATED_FROM", wheel_part(file, "").id] = None
    for need in step.needs:
        if f"built-{need}" in draft.parts:
            draft.relations[made, "GENERATED_FROM", f"built-{need}"] = None


def _built(name: str, step: RecordedStep, layer: str) -> Part:
    return Part(
        id=f"built-{name}" if step.kind == "wheel" else step.name,
        kind="built",
        name=name,
        version=f"gb10.{step.key[:8]}",
        layer=layer,
        comment=f"key {step.key}" + (f": {step.about}" if step.about else ""),
    )


def _inside(draft: _Draft, identity: str) -> None:
    """The nested projects of a source or of upstream's wheel."""
    part = draft.parts[identity]
    for name, found in draft.nested.of(part.name, part.version).items():
        # CUTLASS's tags begin with v, and a header of its names the bare release; a commit has 40 digits.
        tag = f"v{found.version}" if found.version[:1].isdigit() and len(found.version) < 40 else found.version
        draft.add(
            Part(
                id=f"nested-{part.id}-{name}",
                kind="nested",
                name=name,
                version=found.version,
                git=f"git+{found.git}@{tag}",
                purl=github_purl(found.git, found.version),
                comment=f"inside of {part.name} {part.version}",
            ),
            "GENERATED_FROM" if part.kind == "wheel" else "CONTAINS",
            part.id,
        )


def _patch(draft: _Draft, patch: RecordedPatch, why: str) -> None:
    """A patch, and each part that it is applied to."""
    origin = patch.url or (f"the checkout at {patch.checkout.commit}" if patch.checkout else "")
    made = draft.add(
        Part(
            id=f"patch-{patch.source}-{patch.name}-{patch.sha256[:12]}",
            kind="patch",
            name=f"{patch.source}/{patch.name}",
            version=patch.sha256[:12],
            filename=f"patches/{patch.source}/{patch.name}",
            sha256=patch.sha256,
            comment=why or origin,
        )
    )
    for target in patched(draft.parts.values(), patch):
        draft.relations[made, "PATCH_APPLIED", target] = None


def patched(parts: Iterable[Part], patch: RecordedPatch) -> list[str]:
    """What a patch is applied to: a source, or what it bundles, and the grafted wheel that names the patch.

    On an image of others, that image.
    """
    parts = tuple(parts)
    project, name = canonicalize_name(patch.project), patch.name.removesuffix(".patch")
    if any(part.id == BASE for part in parts):
        return [BASE]
    source = f"nested-source-{project}-{patch.source}" if patch.folder else f"source-{project}"
    return [
        part.id
        for part in parts
        if part.id == source or (part.kind == "built" and part.name == project and name in part.comment)
    ]


def _mod(mod: RecordedMod) -> Part:
    network = ", with the network" if mod.network else ""
    return Part(
        id=f"mod-{mod.name}",
        kind="mod",
        name=mod.name,
        version=mod.sha256[:12],
        comment=f"its run.sh changed the image when it was built{network}; sha256 over its files {mod.sha256}",
    )


def _as_installed(part: Part, one: Distribution | None) -> Part:
    """A wheel with the licence that it names itself; of one that was built here also its whole version."""
    if one is None or part.kind not in ("wheel", "built"):
        return part
    version = one.version if part.kind == "built" and one.version.endswith(part.version) else part.version
    return replace(part, licence=one.licence, version=version)
