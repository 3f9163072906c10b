"""The proof: what an image holds, read layer by layer, and judged by every check."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Final, Protocol, TypeVar

from gb10.containers.connection import Engine
from gb10.containers.images import find_image
from gb10.core.files import digest
from gb10.core.store import Store
from gb10.errors import VerifyError
from gb10.image.context import Context
from gb10.image.plan.plan_record import RecordedPlan, as_recorded, recorded_plan
from gb10.image.plan.render import environment, scanned
from gb10.image.plan.steps import READER, SCANNER
from gb10.image.plan.values import Plan
from gb10.image.proof.arch_match import Verdict, judge
from gb10.image.proof.check import Facts, Problem, Subject
from gb10.image.proof.checking import Finding, findings, prove, refuse
from gb10.image.proof.reading import ImageScan, read_linked, read_scan, scan_path
from gb10.image.proof.wheel_files import Manifest, read_manifest
from gb10.image.recipe.allowances import Allowances
from gb10.image.recipe.base_image import BaseImage
from gb10.inside.scan.installed import Distribution
from gb10.inside.scan.linked import Linked
from gb10.inside.scan.scan import Scan


@dataclass(frozen=True, kw_only=True, slots=True)
class Below:
    """What an image of others holds below our layers; without ``read`` of its files only what is installed is known."""

    scan: Scan
    user: str
    environment: tuple[str, ...]
    read: bool


class Placed(Protocol):
    """An entry of a scan that lies at a path."""

    @property
    def path(self) -> str:
        """Relative to the root."""


P = TypeVar("P", bound=Placed)


def merge_layers(root: str, scans: Sequence[Scan]) -> Scan:
    """The scan of these layers, lowest first: a path in a later layer hides the earlier ones, or removes them.

    Sizes are of all layers: what is hidden takes room, too.
    """
    merged = Scan(root=root)
    for scan in scans:
        gone = {*scan.gone}
        merged = Scan(
            root=root,
            binaries=_over(merged.binaries, scan.binaries, gone),
            distributions=_over(merged.distributions, scan.distributions, gone),
            hazards=_over(merged.hazards, scan.hazards, gone),
            contents={path: one for path, one in merged.contents.items() if path not in gone} | scan.contents,
            sizes=dict(Counter(merged.sizes) + Counter(scan.sizes)),
        )
    return merged


def _over(below: Iterable[P], above: Sequence[P], gone: set[str]) -> tuple[P, ...]:
    """All entries, those of the layer above instead of those at the same paths."""
    hidden = gone.union(entry.path for entry in above)
    return tuple(sorted((*(one for one in below if one.path not in hidden), *above), key=lambda one: one.path))


SCAN, SYMBOLS, LINKED = "scan.json", "symbols.json.gz", "linked.json"
IMAGE = "image.json"
SCANS = "/usr/share/gb10/scans"
"""Where an image holds the scans of its layers, as the Dockerfile writes them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """The verified image: the engine's id, the config's digest, and each layer's diffID, lowest first."""

    id: str
    config: str
    layers: tuple[str, ...]


def proof_path(store: Store, plan: Plan) -> Path:
    """The folder with the scans of a plan's image."""
    return store.entry("proofs", plan.step("proof").key)


def read_record(store: Store, plan: Plan) -> Record | None:
    """The image that a plan's proof is of, or None when there is no complete proof."""
    return _record(proof_path(store, plan) / IMAGE)


def proven(store: Store, image_id: str) -> Record | None:
    """The record of an image, of any plan, or None when no proof in the store is of it."""
    records = map(_record, (store.root / "proofs").glob(f"*/{IMAGE}"))
    return next((record for record in records if record and record.id == image_id), None)


def _record(path: Path) -> Record | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Record(id=found["id"], config=found["config"], layers=tuple(found["layers"]))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def write_record_in(folder: Path, record: Record) -> None:
    """Write the record of the image that the scans in ``folder`` are of."""
    (folder / IMAGE).write_text(json.dumps(asdict(record)) + "\n", encoding="utf-8")


def forget_record(store: Store, plan: Plan) -> None:
    """The plan has no verified image until one is built."""
    (proof_path(store, plan) / IMAGE).unlink(missing_ok=True)


def find_verified_image(store: Store, engine: Engine, plan: Plan) -> Record | None:
    """The record of the plan's verified image, if the engine still has that image and the store its wheels."""
    wheels = all(store.entry("wheels", step.key).exists() for step in plan.of_kind("wheel"))
    record = read_record(store, plan) if wheels and _has_scans(store, plan) else None
    image = find_image(engine, plan.tags[-1]) if record else None
    return record if record and image and (image.id, image.diff_ids) == (record.id, record.layers) else None


def _has_scans(store: Store, plan: Plan) -> bool:
    """Whether every scan of a plan's proof can be read: a crash may leave an empty file."""
    try:
        read_layers(proof_path(store, plan), plan)
    except (OSError, UnicodeDecodeError, VerifyError):
        return False
    return True


def prove_wheel(wheel: Path) -> None:
    """Raise VerifyError unless every module of the wheel holds exactly what it declares."""
    prove(Subject(scan=scan_path(wheel), manifests=[read_manifest(wheel)]))


def prove_layers(folder: Path, plan: Plan, subject: Subject, below: Below | None = None) -> Verdict:
    """The verdict over the scans in ``folder``, as the rest of ``subject`` has it; raises VerifyError of the checks.

    On an image of others, ``below`` is what that holds: problems that it has alone do not count.
    """
    found, image = read_layers(folder, plan), subject.image
    if image and image.recorded:
        # a mod may have changed a file after it was put there
        scans = [_read(folder / f"{step.name}.json") for step in plan.of_kind("mod")]
        touched = {path for scan in scans for path in (*scan.gone, *scan.contents)}
        image = replace(image, recorded={path: one for path, one in image.recorded.items() if path not in touched})
    subject = replace(subject, scan=found.scan, linked=found.linked, image=image)
    if below:
        refuse(own_findings(below, subject))
    else:
        prove(subject)
    return judge(found.scan, plan.options.arch)


def own_findings(below: Below, subject: Subject) -> list[Finding]:
    """The problems of an image on one of others that the other one alone does not have."""
    whole = merge_layers(subject.scan.root, [below.scan, subject.scan])
    known = set(map(_check_and_problem, as_received(below, subject)))
    return [one for one in findings(replace(subject, scan=whole)) if _check_and_problem(one) not in known]


def as_received(below: Below, subject: Subject) -> list[Finding]:
    """The problems of an image of others alone, notes among them."""
    facts = subject.image and Facts(
        platform=subject.image.platform, user=below.user, environment=below.environment, cuda=""
    )
    alone = Subject(scan=below.scan, arch=subject.arch, image=facts, allowed=subject.allowed)
    return findings(alone)


def _check_and_problem(one: Finding) -> tuple[str, Problem]:
    check, problem = one
    return check.name, problem


def planned_subject(plan: Plan, manifests: Sequence[Manifest], allowed: Allowances) -> Subject:
    """The subject of a plan's image, whose scans are not read yet."""
    facts = Facts(
        platform=plan.options.platform,
        user=plan.base.user if plan.base else str(plan.recipe.user),
        environment=tuple(
            f"{name}={value}"
            for name, value in {**(plan.base.environment if plan.base else {}), **dict(environment(plan))}.items()
        ),
        cuda=plan.recipe.cuda,
        plan=as_recorded(plan),
    )
    return Subject(scan=Scan(root=""), manifests=manifests, arch=plan.options.arch, image=facts, allowed=allowed)


def read_layers(folder: Path, plan: Plan) -> ImageScan:
    """One scan of the image from its layers' scans, lowest first."""
    scan = merge_layers(plan.tags[0], [_read(folder / f"{name}.json") for name in scanned(plan)])
    return ImageScan(scan=scan, linked=None if plan.base else _read_linked(folder / LINKED))


def require_scanned(image: Sequence[str], scanned: Sequence[str]) -> None:
    """Raise VerifyError unless an image has the very layers that were scanned, given by their diffIDs."""
    if tuple(image) != tuple(scanned):
        raise VerifyError(
            "the image's layers are not those that were scanned",
            where=f"scanned {' '.join(scanned)}\nimage   {' '.join(image)}",
            hint="run the command again",
        )


def require_layers(plan: Plan, diff_ids: Sequence[str]) -> None:
    """Raise VerifyError for an image with fewer layers than were scanned: no scan could be bound to one of them.

    Of an image on an image of others, the lower layers must be those of that image.
    """
    if plan.base:
        below = tuple(layer.diff_id for layer in plan.base.layers)
        require_scanned(diff_ids[: len(below)], below)
        diff_ids = diff_ids[len(below) :]
    names = scanned(plan)
    if len(diff_ids) < len(names):
        raise VerifyError(
            f"the image has {len(diff_ids)} layers, and {len(names)} were scanned",
            where=f"scanned {' '.join(names)}\nimage   {' '.join(diff_ids)}",
            hint="a builder merged layers: build with another (--builder), or without one",
        )


def remember_layers(ctx: Context, plan: Plan, diff_ids: Sequence[str]) -> None:
    """Keep each layer's scan under its diffID, so that any image that shares the layer is verified in seconds.

    The layers beyond the scanned stages are the plan's record and WORKDIR's, which hold no ELF. The scans of several
    mods are right only together: BuildKit may take the first mod's root from another run than the last one's parent.
    """
    folder = proof_path(ctx.store, plan)
    names, mods = scanned(plan), plan.of_kind("mod")
    diff_ids = diff_ids[len(plan.base.layers) if plan.base else 0 :]  # what is not ours was not scanned
    together = {step.name for step in mods} if len(mods) > 1 else set()
    texts = [(folder / f"{name}.json").read_text(encoding="utf-8") for name in names]
    texts += [Scan(root="no binary").to_json()] * (len(diff_ids) - len(names))
    for name, text, diff_id in zip_longest(names, texts, diff_ids):
        if name not in together:
            ctx.store.write_text(layer_scan_path(ctx, diff_id), text)
    if plan.base:
        return
    text = (folder / LINKED).read_text(encoding="utf-8")
    ctx.store.write_text(linked_scan_path(ctx, diff_ids), text)


def known_layers(ctx: Context, reference: str, diff_ids: Sequence[str]) -> ImageScan | None:
    """The scan of an image whose very layers were built and scanned here, by this version of the scanner."""
    try:
        scan = merge_layers(reference, [_read(layer_scan_path(ctx, diff_id)) for diff_id in diff_ids])
        return ImageScan(scan=scan, linked=_read_linked(linked_scan_path(ctx, diff_ids)))
    except (OSError, UnicodeDecodeError, VerifyError):
        return None


def known_image(ctx: Context, reference: str, diff_ids: Sequence[str]) -> ImageScan | None:
    """The scan of an image that was scanned as a whole before, by this version of the scanner."""
    folder = image_scan_path(ctx, diff_ids)
    try:
        return ImageScan(scan=replace(_read(folder / SCAN), root=reference), linked=_read_linked(folder / LINKED))
    except (OSError, UnicodeDecodeError, VerifyError):
        return None


def below_of(ctx: Context, base: BaseImage) -> Below:
    """What is known of an image of others: its scan, if it was scanned here before, else its distributions alone."""
    diff_ids = [layer.diff_id for layer in base.layers]
    found = known_layers(ctx, base.reference, diff_ids) or known_image(ctx, base.reference, diff_ids)
    installed = tuple(
        Distribution(
            path=(one.metadata or f"{one.folder}/{one.name}.dist-info/METADATA").lstrip("/"),
            name=one.name,
            version=one.version,
            cuda=base.cuda if name == "torch" else "",
        )
        for name, one in base.installed.items()
    )
    return Below(
        scan=found.scan if found else Scan(root=base.reference, distributions=installed),
        user=base.user,
        environment=tuple(f"{name}={value}" for name, value in base.environment.items()),
        read=found is not None,
    )


def image_scan_path(ctx: Context, diff_ids: Sequence[str]) -> Path:
    """The folder with the scan of a whole image, present or not."""
    return ctx.store.entry("scans", digest(["image", list(diff_ids), ctx.catalog.toolkit.digests_of(*SCANNER)]))


def layer_scan_path(ctx: Context, diff_id: str) -> Path:
    """Where the scan of a layer by this version of the scanner lies, present or not."""
    return ctx.store.entry("scans", digest([diff_id, ctx.catalog.toolkit.digests_of(*READER)])) / SCAN


def linked_scan_path(ctx: Context, diff_ids: Sequence[str]) -> Path:
    """The same for the libraries and symbols of all layers together."""
    return ctx.store.entry("scans", digest([list(diff_ids), ctx.catalog.toolkit.digests_of(*SCANNER)])) / LINKED


def _read(path: Path) -> Scan:
    return read_scan(path.read_text(encoding="utf-8"), str(path))


def _read_linked(path: Path) -> Linked:
    return read_linked(path.read_text(encoding="utf-8"), str(path))


PLAN: Final = "/usr/share/gb10/plan.json"
ORDER: Final = ("base", "layer", "graft", "settings", "overlay", "cache", "mod")
"""The kinds of scanned stages, lowest first."""


def own_plan(files: Mapping[str, bytes]) -> RecordedPlan | None:
    """The plan that an image holds; None for an image that is not ours. Pure."""
    try:
        return recorded_plan(json.loads(files.get(PLAN, b"")))
    except (ValueError, RecursionError):
        return None


def own_scans(files: Mapping[str, bytes]) -> dict[str, Scan]:
    """The scans that an image holds, by step, lowest first; what is no scan is left out. Pure."""
    scans = {}
    for path, content in files.items():
        try:
            scans[path.removeprefix(f"{SCANS}/").removesuffix(".json")] = read_scan(content.decode(), path)
        except (VerifyError, UnicodeDecodeError):
            continue
    return {name: scans[name] for name in sorted(scans, key=_place)}


def own_scan(reference: str, files: Mapping[str, bytes]) -> Scan:
    """All of them as one. Pure."""
    return merge_layers(reference, list(own_scans(files).values()))


def own_changes(files: Mapping[str, bytes]) -> dict[str, tuple[str, str]]:
    """The files that were changed on purpose: sha256, and the last step that did it. Pure."""
    changed: dict[str, tuple[str, str]] = {}
    for name, scan in own_scans(files).items():
        changed = {path: one for path, one in changed.items() if path not in scan.gone}
        changed |= {path: (sha256, name) for path, sha256 in scan.contents.items()}
    return changed


def _place(name: str) -> tuple[int, int, str]:
    """Where a step's layer lies: by its kind, mods by their number."""
    kind, _, number = name.partition("-")
    mod = int(number) if kind == "mod" and number.isdecimal() and len(number) < 5 else 0
    return ORDER.index(kind) if kind in ORDER else -1, mod, name
