"""Claims, pages, tests and steps are bound: each id that a page cites exists, and what is not proven cites one."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from gb10.cli.app import VERBS
from gb10.serving.claims.claim_files import load_claims, load_reports
from gb10.serving.claims.claim_schema import Claim
from gb10.serving.selftest.step_table import STEPS
from tests.unit.project.test_docs import FENCE, KINDS, ROOT, name_of, text_of

PAGES = sorted(page for kind in KINDS for page in ROOT.glob(kind) if page.name not in ("claims.md", "reference.md"))
CITED = re.compile(r"\[`([^`]+)`\]\(([^)#]*)claims\.md#([\w-]+)\)")
UNPROVEN = re.compile(
    r"\b(?:nothing|never|not|no|nobody|neither|none)\b[^.|]*\b(?:ran|run|tried|proven|shown|seen|measured|timed|profiled|built)\b"
    r"|\bunproven\b|\bunmeasured\b|\bassumed\b",
    re.IGNORECASE,
)
MACHINE = re.compile(r"\bGB10s?\b|\bSparks?\b|\b12\.[1x]\b|\bGPUs?\b|\bthe device\b")
SECTION = re.compile(r"^#+ what is (?:proven|shown)\b.*$", re.IGNORECASE | re.MULTILINE)

NO_CLAIMS = {
    "docs/decisions/0013-engine-targets.md": ("not tried",),
    "docs/decisions/0022-publish-and-pull.md": ("must never point to an image",),
    "docs/decisions/0032-gpu-code-of-other-chips.md": ("may not run on another GPU",),
    "docs/defects.md": ("They can never run", "where nobody measured it"),
    "docs/deploy.md": ("whose name is assumed",),
    "docs/moe.md": ("nothing is timed twice",),
    "docs/profile.md": ("without one the checks still run",),
    "docs/verify.md": ("Nothing is built for that",),
    "patches/vllm/README.md": ("No > such device can run",),
}
"""Paragraphs that speak of a GPU and of what is not, and are no claim of ours: page, then words of each."""


@cache
def claims() -> dict[str, tuple[str, Claim]]:
    """Each claim by its id, with the heading that docs/claims.md has it under."""
    found = load_claims()
    return {claim.id: (subject.title.lower().replace(" ", "-"), claim) for subject in found for claim in subject.claims}


def cited(page: Path, text: str) -> Iterator[tuple[str, str]]:
    """Each (id, what is wrong with its citation; empty if nothing)."""
    for identity, folder, part in CITED.findall(text):
        target = (page.parent / folder / "claims.md").resolve()
        known = claims().get(identity)
        if known is None:
            yield identity, "no such claim"
        elif target != ROOT / "docs/claims.md" or part != known[0]:
            yield identity, f"its place is docs/claims.md#{known[0]}"
        else:
            yield identity, ""


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs, items of lists and rows of tables, without blocks of code."""
    for block in FENCE.sub("", text).split("\n\n"):
        for part in re.split(r"\n(?=[|*-] |\|)", block):
            yield " ".join(part.split())


def without_id(name: str, text: str, allowed: dict[str, tuple[str, ...]]) -> list[str]:
    """What says that something was not shown on a machine, and neither cites a claim nor is allowed."""
    found = [one for one in paragraphs(text) if UNPROVEN.search(one) and MACHINE.search(one) and not CITED.search(one)]
    found += [head for head in SECTION.findall(text) if not CITED.search(text.partition(head)[2].partition("\n## ")[0])]
    return [one for one in found if not any(words in one for words in allowed.get(name, ()))]


def lost_tests(claim: Claim) -> list[str]:
    """The tests of a claim that do not exist, or that CI does not run."""
    return [test for test in claim.tests if not runs_in_ci(*test.split("::"))]


@cache
def functions(path: Path) -> dict[str, str]:
    """The tests of a file with their decorators and the file's marks."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marks = "".join(
        ast.unparse(node)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    )
    return {
        node.name: marks + "".join(ast.unparse(one) for one in node.decorator_list)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }


IN_CI = ("tests/unit/", "tests/golden/", "tests/fuzz/", "tests/integration/")
"""What `.ci/run` runs, but for tests that are marked long."""


def runs_in_ci(file: str, test: str) -> bool:
    path = ROOT / file
    return file.startswith(IN_CI) and path.is_file() and "mark.long" not in functions(path).get(test, "mark.long")


def test_every_page_cites_claims_that_exist_by_their_place() -> None:
    wrong = {
        f"{name_of(page)}: {identity}": why for page in PAGES for identity, why in cited(page, text_of(page)) if why
    }
    assert wrong == {}


def test_a_claim_and_the_pages_that_cite_it_name_each_other() -> None:
    citing = {(identity, name_of(page)) for page in PAGES for identity, _ in cited(page, text_of(page))}
    named = {(identity, page) for identity, (_, claim) in claims().items() for page in claim.pages}
    assert {"cited, not in the claim's pages": sorted(citing - named), "named, not citing": sorted(named - citing)} == {
        "cited, not in the claim's pages": [],
        "named, not citing": [],
    }


def test_what_is_not_proven_cites_a_claim() -> None:
    wrong = {name_of(page): without_id(name_of(page), text_of(page), NO_CLAIMS) for page in PAGES}
    assert {page: found for page, found in wrong.items() if found} == {}


def test_no_exception_is_idle() -> None:
    idle = [
        f"{page}: {words}"
        for page, all_words in NO_CLAIMS.items()
        for words in all_words
        if not any(words in one for one in without_id(page, text_of(ROOT / page), {}))
    ]
    assert idle == []


def test_every_test_that_a_claim_names_exists_and_runs_in_ci() -> None:
    assert {identity: lost for identity, (_, claim) in claims().items() if (lost := lost_tests(claim))} == {}


def test_every_verb_that_a_claim_names_is_one() -> None:
    assert {identity: claim.verbs for identity, (_, claim) in claims().items() if set(claim.verbs) - set(VERBS)} == {}


def test_every_published_figure_is_in_the_file_that_keeps_it() -> None:
    lost = []
    for identity, (_, claim) in claims().items():
        for one in claim.published:
            text = (ROOT / one.kept).read_text(encoding="utf-8")
            if not re.search(rf"(?<![\d.]){re.escape(f'{one.value:g}')}(?:\.0)?(?![\d]|\.\d)", text):
                lost.append(f"{identity}: {one.value} is not in {one.kept}")
    assert lost == []


def test_every_report_is_about_claims_that_exist() -> None:
    named = set(chain.from_iterable(report.results for report in load_reports()))
    assert named - set(claims()) == set()


def test_readme_says_whether_a_gb10_reported() -> None:
    """The sentence of README goes with the first report of a GB10."""
    said = "of gb10 has a report of a GB10 yet" in " ".join(text_of(ROOT / "README.md").split())
    assert said != any("GB10" in report.machine for report in load_reports())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Nothing ran on a GB10.", 1),
        ("Its speed on a Spark is **not yet measured**.", 1),
        ("## What is proven\n\nThe tests ran.\n", 1),
        ("## What is proven\n\nOn a GB10: [`run-serves`](claims.md#serving).\n", 0),
        ("On a GB10: [`run-serves`](claims.md#serving). Nothing else was measured on a Spark.", 0),
        ("Nothing was measured.", 0),
        ("K3s was not run on a Spark by us.", 0),
    ],
)
def test_a_page_that_cites_no_claim_is_found(text: str, found: int) -> None:
    assert len(without_id("docs/x.md", text, {"docs/x.md": ("K3s was not run",)})) == found


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("[`run-servs`](claims.md#serving)", "no such claim"),
        ("[`run-serves`](claims.md#machine)", "its place is docs/claims.md#serving"),
        ("[`run-serves`](../claims.md#serving)", "its place is docs/claims.md#serving"),
        ("[`run-serves`](claims.md#serving)", ""),
    ],
)
def test_a_wrong_citation_is_found(link: str, why: str) -> None:
    assert [*cited(ROOT / "docs/x.md", link)] == [(link[2:].partition("`")[0], why)]


@pytest.mark.parametrize(
    "test",
    [
        "tests/unit/project/test_claims.py::test_that_nobody_wrote",
        "tests/unit/project/test_gone.py::test_x",
        "tests/integration/test_extension.py::test_nvidias_own_tool_counts_the_same_instructions",  # long
        "tests/e2e/test_image.py::test_x",
    ],
)
def test_a_test_that_does_not_exist_or_does_not_run_is_found(test: str) -> None:
    claim = claims()["run-serves"][1].model_copy(update={"tests": (test,)})
    assert lost_tests(claim) == [test]


PLAIN = {
    *("against.of", "batches.most", "long-decode.tokens", "power.bf16", "prefix.cold-ttft", "prefix.warm-ttft"),
    *("server.start-compiles", "disk.mapped-read", "greedy.of", "drafts.same", "drafts.of", "switches.same"),
    *("switches.of", "bandwidth.of-gpus"),
}
"""Figures of selftest that are of use beside a claim, and are none."""
FIGURE = re.compile(r'"([a-z][a-z0-9-]*\.[a-z][a-z0-9.-]*)"(?=[:,\])])')
MADE = re.compile(r"gemm\.[a-z0-9-]+|speed\.(?:decode|prefill)-\d")
"""Ids that are put together from a kernel and a shape, or from a number of streams."""


def figures() -> set[str]:
    """The ids of figures that the steps of selftest name."""
    files = (ROOT / "gb10/serving/selftest").glob("*_steps.py")
    named = set(chain.from_iterable(FIGURE.findall(path.read_text(encoding="utf-8")) for path in files))
    return {one for one in named if not one.endswith((".py", ".txt", ".json", ".log"))} - {"memory.total"}


def test_every_step_that_a_claim_names_is_one_of_selftest() -> None:
    named = {claim.step for subject in load_claims() for claim in subject.claims if claim.step}
    assert named - {step.id for step in STEPS} == set()


def test_claims_and_the_figures_of_selftest_name_each_other() -> None:
    asked = {identity for identity, (_, claim) in claims().items() if claim.step and not MADE.fullmatch(identity)}
    assert {"no step has it": sorted(asked - figures()), "no claim has it": sorted(figures() - asked - PLAIN)} == {
        "no step has it": [],
        "no claim has it": [],
    }
    assert figures() >= PLAIN


def test_the_gemms_that_claims_name_are_kernels_and_shapes_of_the_benchmark() -> None:
    kernels = re.findall(r"  X\((\w+),", (ROOT / "benches/gemm/gemm.h").read_text(encoding="utf-8"))
    shapes = re.findall(r'^    \{"([^"]+)"', (ROOT / "benches/gemm/shapes.h").read_text(encoding="utf-8"), re.MULTILINE)
    made = {
        f"gemm.{re.sub(r'[^a-z0-9]+', '-', f'{kernel}-{shape}'.lower())}"[:80].rstrip("-")
        for kernel in kernels
        for shape in shapes
    }
    named = {identity for identity in claims() if identity.startswith("gemm.")}
    assert named
    assert named - made == set()
