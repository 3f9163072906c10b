"""The bill of an image, its SBOM and statements. tests/integration/test_bill.py lets others validate them."""

import json
from typing import Any

import pytest

from gb10.image.lock.lockfile import load_lock, load_recipe, lock_path
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import Options
from gb10.image.plan.plan_record import RecordedFile, RecordedPlan, as_recorded
from gb10.image.recipe.arch import parse_arch
from gb10.image.sbom.parts import Bill, NestedProjects, bill_of, deb_part, quoted, read_nested, source_part, wheel_part
from gb10.image.sbom.statements import as_bytes, dependencies, licence_of, provenance, spdx, statement
from tests.recipes import SHIPPED
from tests.unit.made_up_images import KEY, distribution, plan_of

ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)
NESTED = read_nested(
    "releases:\n  vllm==0.33.0:\n    flash-attn: {git: https://github.com/vllm-project/flash-attention, version: abc}\n"
    "  flashinfer-python==0.7.2:\n    cutlass: {git: https://github.com/NVIDIA/cutlass, version: 4.5.0}\n"
)


def file(name: str, sha256: str = ONE, **fields: object) -> dict[str, object]:
    """A locked file of a step."""
    return {"filename": name, "sha256": sha256, "size": 7, **fields}


def planned() -> RecordedPlan:
    """The plan of an image with one of everything."""
    git = {"git": "https://github.com/IST-DASLab/qutlass.git", "commit": "e" * 40}
    steps = [
        {"name": "base-build", "kind": "rootfs", "key": KEY, "files": [file("gcc_14_amd64.deb", THREE)]},
        {"name": "base-image", "kind": "rootfs", "key": KEY, "files": [file("libc6_1%3a2.41+b1_arm64.deb", TWO)]},
        {"name": "layer-vllm", "kind": "layer", "key": KEY, "files": [file("vllm-0.33.0-cp38-abi3-linux_aarch64.whl")]},
        {
            "name": "flashinfer-jit-cache",
            "kind": "wheel",
            "key": KEY,
            "files": [file("flashinfer_python-0.7.2.tar.gz", "4" * 64), file("ninja-1-py3-none-any.whl", "5" * 64)],
        },
        {"name": "layer-flashinfer-jit-cache", "kind": "layer", "key": KEY},
        {"name": "vllm", "kind": "wheel", "key": KEY, "files": [file("qutlass-0+g0.tar", "6" * 64, checkout=git)]},
        {
            "name": "graft-vllm",
            "kind": "graft",
            "key": KEY,
            "needs": ["layer-vllm", "vllm"],
            "about": "0001-fix",
            "files": [file("vllm-0.33.0-cp38-abi3-linux_aarch64.whl")],
        },
    ]
    patches = [
        {"source": "vllm", "project": "vllm", "name": "0001-fix.patch", "sha256": "7" * 64},
        {
            "source": "cutlass",
            "project": "flashinfer-python",
            "name": "0001-f8",
            "sha256": "8" * 64,
            "folder": "3rdparty",
        },
        {"source": "flashinfer", "project": "flashinfer-python", "name": "0002-x.patch", "sha256": "9" * 64},
    ]
    mods = [{"name": "fixed-memory", "sha256": "a" * 64, "network": True}]
    return plan_of(steps=steps, patches=patches, mods=mods, suite="trixie", created="2026-11-22")


INSTALLED = (
    distribution("vllm", f"0.33.0+gb10.{KEY[:8]}", licence="Apache-2.0"),
    distribution("flashinfer-jit-cache", f"0.7.2+gb10.{KEY[:8]}"),
)


@pytest.fixture
def bill() -> Bill:
    whys = {"7" * 64: "a defect"}
    return bill_of(planned(), NESTED, overlay="d" * 64, installed=INSTALLED, whys=whys)


def test_everything_that_is_in_an_image_is_a_part_and_build_tools_are_not(bill: Bill) -> None:
    assert [(part.kind, part.name, part.version) for part in bill.parts] == [
        ("image", "gb10/test", "1"),
        ("deb", "libc6", "1:2.41+b1"),
        ("wheel", "vllm", "0.33.0"),
        ("nested", "flash-attn", "abc"),
        ("built", "flashinfer-jit-cache", "0.7.2+gb10.01234567"),
        ("source", "flashinfer-python", "0.7.2"),
        ("nested", "cutlass", "4.5.0"),
        ("built", "vllm", "0.33.0+gb10.01234567"),
        ("source", "qutlass", "e" * 40),
        ("built", "vllm", "0.33.0+gb10.01234567"),
        ("patch", "vllm/0001-fix.patch", "7" * 12),
        ("patch", "cutlass/0001-f8", "8" * 12),
        ("patch", "flashinfer/0002-x.patch", "9" * 12),
        ("mod", "fixed-memory", "a" * 12),
        ("overlay", "overlay", ""),
    ]


def test_how_the_parts_belong_together(bill: Bill) -> None:
    related = {(one, verb, two) for one, verb, two in bill.relations if one != "image"}
    assert related == {
        ("wheel-vllm", "GENERATED_FROM", "nested-wheel-vllm-flash-attn"),
        ("built-flashinfer-jit-cache", "GENERATED_FROM", "source-flashinfer-python"),
        ("source-flashinfer-python", "CONTAINS", "nested-source-flashinfer-python-cutlass"),
        ("built-vllm", "GENERATED_FROM", "source-qutlass"),
        ("graft-vllm", "GENERATED_FROM", "wheel-vllm"),
        ("graft-vllm", "GENERATED_FROM", "built-vllm"),
        ("patch-vllm-0001-fix.patch-777777777777", "PATCH_APPLIED", "graft-vllm"),
        ("patch-cutlass-0001-f8-888888888888", "PATCH_APPLIED", "nested-source-flashinfer-python-cutlass"),
        ("patch-flashinfer-0002-x.patch-999999999999", "PATCH_APPLIED", "source-flashinfer-python"),
    }
    contained = {two for one, verb, two in bill.relations if (one, verb) == ("image", "CONTAINS")}
    assert contained == {
        "deb-libc6",
        "wheel-vllm",
        "built-flashinfer-jit-cache",
        "graft-vllm",
        "mod-fixed-memory",
        "overlay",
    }


def document(bill: Bill) -> dict[str, Any]:
    """The SBOM."""
    return spdx(bill, digest="sha256:" + KEY, created="2026-11-22", tool="gb10-1.0")


def test_the_sbom_is_the_same_each_time_and_another_for_another_image(bill: Bill) -> None:
    assert as_bytes(document(bill)) == as_bytes(document(bill))
    other = spdx(bill, digest="sha256:" + ONE, created="2026-11-22", tool="gb10-1.0")
    assert other["documentNamespace"] != document(bill)["documentNamespace"]
    assert document(bill)["creationInfo"]["created"] == "2026-11-22T00:00:00Z"


def test_packages_have_purls_hashes_and_licences(bill: Bill) -> None:
    packages = {one["SPDXID"]: one for one in document(bill)["packages"]}
    libc = packages["SPDXRef-deb-libc6"]
    purl = "pkg:deb/debian/libc6@1%3A2.41%2Bb1?arch=arm64&distro=trixie"
    assert libc["externalRefs"][0]["referenceLocator"] == purl
    assert libc["checksums"] == [{"algorithm": "SHA256", "checksumValue": TWO}]
    assert packages["SPDXRef-graft-vllm"]["licenseDeclared"] == "Apache-2.0"
    qutlass = packages["SPDXRef-source-qutlass"]
    assert qutlass["downloadLocation"] == f"git+https://github.com/IST-DASLab/qutlass.git@{'e' * 40}"
    assert packages["SPDXRef-patch-vllm-0001-fix.patch-777777777777"]["comment"] == "a defect"


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        ("Apache-2.0", "Apache-2.0"),
        ("apache-2.0 OR mit", "Apache-2.0 OR MIT"),
        ("Apache License, Version 2.0", "NOASSERTION"),
        ("LicenseRef-NVIDIA-Proprietary", "NOASSERTION"),
        ("", "NOASSERTION"),
    ],
)
def test_only_licences_that_spdx_knows_are_declared(text: str, licence: str) -> None:
    assert licence_of(text) == licence


def test_names_of_files_that_are_none_stay_what_they_are() -> None:
    odd = RecordedFile(filename="no wheel.whl", sha256=ONE, size=1)
    assert (wheel_part(odd, "l").name, source_part(odd).name) == ("no wheel.whl", "no wheel.whl")
    assert deb_part(odd, "", "l").name == "no wheel.whl"
    assert quoted("1.0+cu130~rc1:é") == "1.0%2Bcu130~rc1%3A%E9"


def test_provenance_names_every_file_that_was_read_once() -> None:
    plan = planned()
    found = dependencies(plan)
    assert len(found) == len({str(one["digest"]) for one in found}) == 6
    assert {
        "name": "gcc_14_amd64.deb",
        "digest": {"sha256": THREE},
        "uri": "pkg:deb/debian/gcc@14?arch=amd64&distro=trixie",
    } in found
    made = provenance(plan, {"schema": "gb10/plan/v1"}, config="sha256:" + KEY, tool="gb10-1.0")
    stated = statement("registry.example/gb10/vllm", "sha256:" + TWO, "https://slsa.dev/provenance/v1", made)
    assert stated["subject"] == [{"name": "registry.example/gb10/vllm", "digest": {"sha256": TWO}}]
    assert made["buildDefinition"]["externalParameters"]["mods"] == [{"name": "fixed-memory", "sha256": "a" * 64}]
    assert json.loads(as_bytes(stated)) == stated


def test_provenance_names_the_build_tools_of_a_real_plan() -> None:
    """Its record has no steps of the building machine: their files are in its lock, for both kinds of machines."""
    path = SHIPPED.recipe("vllm")
    lock, options = load_lock(lock_path(path)), Options(arch=parse_arch("12.1f"), platform="linux/arm64", build="amd64")
    planned = plan_image(load_recipe(path), lock, SHIPPED.toolkit, options)
    names = {str(one["name"]) for one in dependencies(as_recorded(planned))}
    assert names >= {deb.filename for debs in lock.debs.build.values() for deb in debs}
    assert any(name.startswith("ninja-") for name in names)


def test_what_is_inside_of_the_locked_releases_is_listed() -> None:
    """A new lock of an engine or of FlashInfer needs a new entry: scripts/nested_sources.py prints it."""
    known = NestedProjects.model_validate(read_nested(Catalog(ROOT).nested).model_dump())
    for engine in Catalog(ROOT).engines():
        lock = load_lock(lock_path(ROOT / f"recipes/images/{engine}.yaml"))
        for name, source in lock.sdists.items():
            if name in ("vllm", "flashinfer-python"):
                assert known.of(name, source.version), f"{name}=={source.version}"
        for wheel in lock.wheels.image["arm64"]:
            if wheel.name in ("vllm", "flashinfer-python"):
                assert known.of(wheel.name, wheel.version), f"{wheel.name}=={wheel.version}"
