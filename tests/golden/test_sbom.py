"""The bill of a made-up image with one of everything, as SPDX and as a statement of where it comes from."""

import json
from dataclasses import replace

from gb10.image.sbom.parts import Bill, bill_of, github_purl
from gb10.image.sbom.statements import as_bytes, identities_of, provenance, spdx, verification
from tests.golden.conftest import Golden
from tests.unit.image.test_bill import INSTALLED, NESTED, planned
from tests.unit.made_up_images import KEY


def sbom(bill: Bill) -> bytes:
    return as_bytes(spdx(bill, digest=f"sha256:{KEY}", created="2026-11-22", tool="gb10-1.0"))


def test_the_documents_of_an_image(golden: Golden) -> None:
    plan = planned()
    bill = bill_of(plan, NESTED, overlay="name=own", installed=INSTALLED, whys={"7" * 64: "the defect"})
    golden("render/sbom.json", sbom(bill).decode())
    made = provenance(plan, {"engine": "vllm"}, config=f"sha256:{KEY}", tool="gb10-1.0")
    golden("render/provenance.json", as_bytes(made).decode())
    assert len(json.loads(sbom(replace(bill, parts=bill.parts[:1], relations=())))["packages"]) == 1
    assert verification({"a": 1}, ("x",)) == {"checks": ["x"], "verdict": {"a": 1}}


def test_only_github_has_a_purl_of_its_own() -> None:
    assert github_purl("https://github.com/A/b.git", "v1+2") == "pkg:github/a/b@v1%2B2"
    assert github_purl("https://gitlab.example/A/b.git", "v1") == ""


def test_no_two_parts_have_one_identity() -> None:
    parts = [replace(bill_of(planned(), NESTED).parts[0], id=one) for one in ("a b", "a_b", "a/b", "a.b")]
    found = identities_of(parts)
    assert list(found.values()) == ["SPDXRef-a-b", "SPDXRef-a-b-2", "SPDXRef-a-b-3", "SPDXRef-a.b"]
