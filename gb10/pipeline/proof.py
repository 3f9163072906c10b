"""The proof: what every ELF of an image holds, read back layer by layer, and held against what was declared."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gb10.arch import parse_arch
from gb10.errors import VerifyError
from gb10.inside.scan import Scan
from gb10.pipeline.workshop import Workshop
from gb10.plan import Plan
from gb10.render import scanned
from gb10.verify.declared import check_declared, refuse
from gb10.verify.read import read_scan, scan_path
from gb10.verify.verdict import Fit, Verdict, judge, merge_layers

MANIFEST = "manifest.json"
SCAN = "scan.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """Which image a proof speaks of: the engine's id, and the digest of the image's config."""

    id: str
    config: str


def proof_path(shop: Workshop, plan: Plan) -> Path:
    """Where the scans of a plan's image lie."""
    return shop.store.entry("proofs", plan.step("proof").key)


def read_record(shop: Workshop, plan: Plan) -> Record | None:
    """The image that a plan's proof speaks of, or None when there is no whole proof."""
    path = proof_path(shop, plan) / "image.json"
    return Record(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def write_record(shop: Workshop, plan: Plan, record: Record) -> None:
    """Bind a proof to the image that was exported from the same stages."""
    path = proof_path(shop, plan) / "image.json"
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(asdict(record)) + "\n", encoding="utf-8")
    aside.replace(path)


def declared(manifest: Mapping[str, Any]) -> dict[str, list[str]]:
    """File name -> the cubins it must hold, from a manifest of the compile stage."""
    return {f"{name}.so": [parse_arch(cubin).sm for cubin in module["cubins"]]
            for name, module in manifest["modules"].items()}  # fmt: skip


def read_manifest(entry: Path) -> dict[str, list[str]]:
    """The declared cubins of a wheel's store entry."""
    return declared(json.loads((entry / MANIFEST).read_text(encoding="utf-8")))


def prove_wheel(wheel: Path) -> None:
    """Raise VerifyError unless every module beside the manifest holds exactly what it declares."""
    refuse(check_declared(read_manifest(wheel.parent), [scan_path(wheel)]))


def prove_layers(folder: Path, plan: Plan, manifests: Iterable[Mapping[str, list[str]]]) -> Verdict:
    """The verdict over the scans in ``folder``; raises VerifyError when a module or an ELF is not what it should be."""
    verdict = judge(read_layers(folder, plan), plan.options.arch)
    damaged = [judged.binary for judged in verdict.judged if judged.fit is Fit.DAMAGED]
    if damaged:
        raise VerifyError(f"{len(damaged)} files of the image are damaged",
                          where="\n".join(f"{binary.path}: {binary.error}" for binary in damaged),
                          hint="./build.py image again; if it stays, the upstream wheel itself is damaged")  # fmt: skip
    merged = {name: cubins for manifest in manifests for name, cubins in manifest.items()}
    refuse(check_declared(merged, [read_layers(folder, plan)]))
    return verdict


def read_layers(folder: Path, plan: Plan) -> Scan:
    """One scan of the image from its layers' scans, lowest first."""
    return merge_layers(plan.tags[0], [_read(folder / f"{name}.json") for name in scanned(plan)])


def remember_layers(shop: Workshop, plan: Plan, diff_ids: Sequence[str]) -> None:
    """Keep each layer's scan under its diffID, so that any image that shares the layer is verified in seconds.

    The one layer beyond the scanned stages is WORKDIR's, which holds no file.
    """
    names = scanned(plan)
    texts = [(proof_path(shop, plan) / f"{name}.json").read_text(encoding="utf-8") for name in names]
    texts += [Scan(root="workdir", binaries=()).to_json()] * (len(diff_ids) - len(names))
    for text, diff_id in zip(texts, diff_ids, strict=True):
        shop.store.ensure("scans", _hex(diff_id), partial(_write_scan, text))


def _write_scan(text: str, work: Path) -> None:
    (work / SCAN).write_text(text, encoding="utf-8")


def known_layers(shop: Workshop, reference: str, diff_ids: Sequence[str]) -> Scan | None:
    """The scan of an image all of whose layers were scanned before."""
    paths = [shop.store.entry("scans", _hex(diff_id)) / SCAN for diff_id in diff_ids]
    return merge_layers(reference, [_read(path) for path in paths]) if all(path.exists() for path in paths) else None


def _read(path: Path) -> Scan:
    return read_scan(path.read_text(encoding="utf-8"), str(path))


def _hex(diff_id: str) -> str:
    return diff_id.removeprefix("sha256:")
