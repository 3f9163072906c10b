"""SBOMs and statements of the real plans, by others' validators; the list of nested projects against the archives."""

import json
import os
import sys
from pathlib import Path

import pytest

from gb10.core.files import Artifact
from gb10.core.proc import CommandFailedError, capture
from gb10.image.context import Context, open_context
from gb10.image.inspect.attestations import patch_stories, whys
from gb10.image.lock.lockfile import load_lock, lock_path
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.plan_record import as_recorded, record
from gb10.image.plan.values import Plan
from gb10.image.request.planning import Request, make_plan
from gb10.image.sbom.parts import bill_of, read_nested
from gb10.image.sbom.statements import PROVENANCE, VERIFICATION, as_bytes, provenance, spdx, statement, verification
from gb10.sources.index.client import fetch_all
from scripts.nested_sources import entry
from tests.integration.pinned import pinned

pytestmark = [pytest.mark.integration, pytest.mark.slow]

DIGEST = "sha256:" + "12" * 32
SPDX = """
import sys
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
document = parse_file(sys.argv[1])
for message in validate_full_spdx_document(document, "SPDX-2.3"):
    print(message.validation_message, message.context.spdx_id)
print(len(document.packages), "packages")
"""
STATEMENT = """
import json, sys
from google.protobuf.json_format import Parse, ParseDict
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
text = open(sys.argv[1]).read()
Statement.copy_from_pb(Parse(text, statement_pb2.Statement())).validate()
predicate = json.loads(text)["predicate"]
if "buildDefinition" in predicate:
    found = ParseDict(predicate, provenance_pb2.Provenance())
    print(len(found.build_definition.resolved_dependencies), "dependencies")
"""


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


@pytest.fixture(scope="session")
def validators() -> Path:
    """SPDX's and in-toto's own libraries."""
    return pinned("sbom-tools", Path(__file__).with_name("sbom-tools.txt"))


def validated(validators: Path, script: str, document: bytes, folder: Path) -> str:
    """What another's library prints of a document."""
    path = folder / "document.spdx.json"
    path.write_bytes(document)
    return capture([sys.executable, "-c", script, str(path)], env={**os.environ, "PYTHONPATH": str(validators)})


@pytest.fixture(params=["vllm", "sglang"])
def plan(ctx: Context, request: pytest.FixtureRequest) -> Plan:
    return make_plan(ctx, Request(engine=request.param, arch="12.1f"))


def test_spdxs_own_library_finds_nothing_wrong(ctx: Context, plan: Plan, validators: Path, tmp_path: Path) -> None:
    recorded = as_recorded(plan)
    defects = whys(patch_stories(ctx.catalog, recorded))
    bill = bill_of(recorded, read_nested(ctx.catalog.nested), whys=defects)
    made = as_bytes(spdx(bill, digest=DIGEST, created=recorded.created, tool="gb10-1.0"))
    assert validated(validators, SPDX, made, tmp_path) == f"{len(bill.parts)} packages\n"
    wheels = {wheel.filename for wheel in plan.lock.wheels.image["arm64"]}
    assert wheels <= {part.filename for part in bill.parts}
    assert {deb.filename for deb in plan.lock.debs.image["arm64"]} <= {part.filename for part in bill.parts}
    assert {patch.sha256 for patch in recorded.patches} == {part.sha256 for part in bill.of_kind("patch")}
    assert all(part.comment for part in bill.of_kind("patch"))


def test_in_totos_own_library_takes_the_statements(plan: Plan, validators: Path, tmp_path: Path) -> None:
    recorded = as_recorded(plan)
    document = json.loads(json.dumps(record(plan)))
    predicate = provenance(recorded, document, config=DIGEST, tool="gb10-1.0")
    made = as_bytes(statement("registry.example/gb10/test", DIGEST, PROVENANCE, predicate))
    files = {file.sha256 for step in recorded.steps for file in step.files}
    files |= {deb.sha256 for debs in plan.lock.debs.build.values() for deb in debs}
    files |= {wheel["sha256"] for wheels in document["inputs"]["lock"]["wheels"]["tools"].values() for wheel in wheels}
    assert validated(validators, STATEMENT, made, tmp_path) == f"{len(files)} dependencies\n"
    verdict = verification({"schema": "gb10/verify/v1"}, ["claim"])
    stated = as_bytes(statement("registry.example/gb10/test", DIGEST, VERIFICATION, verdict))
    assert validated(validators, STATEMENT, stated, tmp_path) == ""
    broken = made.replace(b'"resolvedDependencies"', b'"resolvedDependency"')
    with pytest.raises(CommandFailedError) as caught:
        validated(validators, STATEMENT, broken, tmp_path)
    assert "no field named" in caught.value.tail


@pytest.mark.parametrize(("engine", "project"), [("vllm", "vllm"), ("vllm", "flashinfer-python")])
def test_the_list_of_nested_projects_is_what_the_archives_hold(ctx: Context, engine: str, project: str) -> None:
    source = load_lock(lock_path(ROOT / f"recipes/images/{engine}.yaml")).sdists[project]
    artifact = Artifact(source.filename, source.sha256, source.size)
    archive = fetch_all([artifact], ctx.store, ctx.env)[source.sha256]
    assert entry(archive) in ctx.catalog.nested
