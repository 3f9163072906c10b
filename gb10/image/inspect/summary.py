"""The portrait of an image: what is known of it, wherever it lies. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from gb10.containers.reference import NAMESPACE
from gb10.image.plan.plan_record import RecordedPlan
from gb10.image.proof.arch_match import Verdict
from gb10.image.recipe.base_image import BaseImage

SCHEMA: Final = "gb10/show/v1"
OVERLAY: Final = f"{NAMESPACE}.overlay"
BESIDE: Final = ("record", "workdir")
"""What lies above the scanned layers: the plan with the scans, and the working directory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """One layer, lowest first: the step that made it, or the beginning of the command; ``size`` in bytes."""

    name: str
    digest: str
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchStory:
    """A patch of an image, with the checkout's record of it, if it is the same patch."""

    source: str
    name: str
    sha256: str
    defect: str = ""
    fix: str = ""
    applies: str = ""
    since: str = ""
    until: str = ""
    upstream: str = ""
    origin: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModStory:
    """A mod of an image, with what the checkout's mod of this content does."""

    name: str
    sha256: str
    what: str = ""
    delete_when: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageSummary:
    """An image. What is not known is empty; ``remarks`` tell why.

    ``size`` is of all layers, unpacked in an engine and compressed in a registry (``packed``).
    """

    reference: str
    place: str
    digest: str
    platform: str
    created: str
    size: int
    packed: bool
    layers: tuple[Layer, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    environment: tuple[str, ...] = ()
    plan: RecordedPlan | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    """Python distributions and their versions."""
    debs: Mapping[str, str] = field(default_factory=dict)
    verdict: Verdict | None = None
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By layer: bytes of files by package."""
    patches: tuple[PatchStory, ...] = ()
    mods: tuple[ModStory, ...] = ()
    manifest: str = ""
    """Its digest, in a registry."""
    base: BaseImage | None = None
    """What it is for who builds on it, where its layers were read for that."""
    remarks: tuple[str, ...] = ()


def layer_names(plan: RecordedPlan, labels: Mapping[str, str], count: int) -> list[str]:
    """The names of an image's layers, lowest first, as its plan has them."""
    if plan.base:
        own = [step.name for kind in ("added", "patched") for step in plan.of_kind(kind)]
        own += [*(["overlay"] if OVERLAY in labels else []), *(step.name for step in plan.of_kind("mod"))]
        whole = [*("base" for _ in plan.base.layers), *own, BESIDE[0]]
        return whole if count == len(whole) else []
    names = ["base", *(step.name for step in plan.of_kind("layer")), *(step.name for step in plan.of_kind("graft"))]
    names += ["settings", *(["overlay"] if OVERLAY in labels else []), *(step.name for step in plan.of_kind("mod"))]
    return [*names, *BESIDE][:count] if count >= len(names) else []


def document(one: ImageSummary) -> dict[str, Any]:
    """The portrait as data, schema gb10/show/v1."""
    plan = one.plan
    return {
        "schema": SCHEMA,
        "reference": one.reference,
        "place": one.place,
        "digest": one.digest,
        "platform": one.platform,
        "created": one.created,
        "size": one.size,
        "packed": one.packed,
        "ours": plan is not None,
        "user": one.user,
        "layers": [{"name": layer.name, "digest": layer.digest, "size": layer.size} for layer in one.layers],
        "packages": dict(sorted(one.packages.items())),
        "debs": dict(sorted(one.debs.items())),
        "patches": [_story(patch) for patch in one.patches],
        **({"without_patches": list(plan.unpatched)} if plan and plan.unpatched else {}),
        "mods": [_story(mod) for mod in one.mods],
        "slim": [rule.model_dump() for rule in plan.slim] if plan else [],
        "gpu_code": {str(fit): count for fit, count in one.verdict.counts.items()} if one.verdict else {},
        "codes": codes_of(one),
        **({"base": {**asdict(one.base), "version": one.base.version}} if one.base else {}),
        "remarks": list(one.remarks),
        **({"engine": plan.engine, "version": plan.version, "arch": plan.arch, "key": plan.key} if plan else {}),
    }


def codes_of(one: ImageSummary) -> dict[str, int]:
    """How many pieces of which code all libraries hold: ``sm_121``, ``compute_80``."""
    total: dict[str, int] = {}
    for judged in one.verdict.judged if one.verdict else ():
        for code, count in judged.binary.codes.items():
            total[code] = total.get(code, 0) + count
    return dict(sorted(total.items(), key=lambda row: (_number(row[0]), row[0])))


def _number(code: str) -> int:
    digits = "".join(filter(str.isdigit, code.partition("_")[2]))
    return int(digits or 0)


def _story(story: PatchStory | ModStory) -> dict[str, str]:
    return {name: getattr(story, name) for name in story.__slots__ if getattr(story, name)}
