"""The workflows of .github: pins, rights and secrets; and steps that need no runner, run as a runner runs them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gb10 import __version__
from gb10.cli.app import VERBS
from gb10.serving.selftest.step_table import STEPS
from tests.selftest_reports import DIGEST, good_report, step

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".github/workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}")
HOST = re.compile(r"[\w-]+\.(?:com|org|io|net|dev)\b")
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""What GitHub runs a step with whose shell is bash."""
OPTIONAL = {"SIGNING_KEY"}
"""Secrets that may be absent; there are no others."""


def workflow(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((FOLDER / f"{name}.yml").read_text(encoding="utf-8"))
    return found


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in workflow(path.stem)["jobs"].values():
        yield from job.get("steps", ())


def script(name: str, job: str, title: str) -> str:
    """The script of a step."""
    (found,) = (one["run"] for one in workflow(name)["jobs"][job]["steps"] if one.get("name") == title)
    return str(found)


def run_step(place: tuple[str, str, str], folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A step, run in the checkout with a runner's files in a folder."""
    for name in ("env", "output", "summary"):
        (folder / name).touch()
    given = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GB10_")},
        **{"RUNNER_TEMP": str(folder), "GITHUB_ENV": str(folder / "env"), "GITHUB_OUTPUT": str(folder / "output")},
        **{"GITHUB_STEP_SUMMARY": str(folder / "summary"), **env},
    }
    argv = [*SHELL, "-c", script(*place)]
    return subprocess.run(argv, cwd=ROOT, env=given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_and_no_host_but_the_hosts_own_registry_is_named(path: Path) -> None:
    used = [one["uses"] for one in steps(path) if "uses" in one]
    assert all(PINNED.fullmatch(one) for one in used), used
    assert {*HOST.findall(path.read_text(encoding="utf-8"))} <= {"ghcr.io"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_step_puts_an_expression_into_a_script(path: Path) -> None:
    """An expression in a script is text that becomes code; in the environment it stays a value."""
    assert [one["run"] for one in steps(path) if "${{" in one.get("run", "")] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_rights_are_given_job_by_job_and_no_secret_is_needed(path: Path) -> None:
    found, text = workflow(path.stem), path.read_text(encoding="utf-8")
    assert found["permissions"] == {}
    assert all("permissions" in job for job in found["jobs"].values())
    assert {*re.findall(r"secrets\.(\w+)", text)} <= OPTIONAL
    assert set(re.findall(r"vars\.(\w+)", text)) <= set(re.findall(r"GB10_\w+", documented(text)))


def documented(text: str) -> str:
    """The first lines of a workflow, and of those that it sends its reader to."""
    head = text.partition("\nname:")[0]
    others = [(FOLDER / name).read_text(encoding="utf-8") for name in re.findall(r"\w+\.yml", head)]
    return "".join((head, *(one.partition("\nname:")[0] for one in others)))


WRITES = {
    ("images", "image"): {"packages", "id-token", "attestations"},
    ("tag", "tag"): {"packages"},
    ("release", "images"): {"packages", "id-token", "attestations"},
    ("nightly", "images"): {"packages", "id-token", "attestations"},
    ("release", "tag"): {"packages"},
    ("nightly", "tag"): {"packages"},
    ("release", "index"): {"id-token"},
    ("nightly", "upgrade"): {"contents", "pull-requests"},
}


def test_who_may_write_what() -> None:
    found = {
        (path.stem, name): {right for right, kind in job["permissions"].items() if kind == "write"}
        for path in WORKFLOWS
        for name, job in workflow(path.stem)["jobs"].items()
    }
    assert {place: rights for place, rights in found.items() if rights} == WRITES


def test_a_pull_request_gets_no_secret_and_runs_what_contributors_run() -> None:
    path = FOLDER / "check.yml"
    assert "secrets." not in path.read_text(encoding="utf-8")
    scripts = [one["run"] for one in steps(path) if "run" in one]
    assert "make check" in scripts
    assert any(one.endswith(".ci/run") for one in scripts)
    on_a_spark = [one.stem for one in WORKFLOWS if "self-hosted" in str(workflow(one.stem)["jobs"])]
    assert on_a_spark == ["spark"]
    assert workflow("spark")[True] == {"workflow_call": None}, "only what calls it decides when a Spark works"


@pytest.mark.parametrize("name", ["nightly", "release"])
def test_tags_move_after_the_images_and_the_spark(name: str) -> None:
    jobs = workflow(name)["jobs"]
    assert jobs["tag"]["needs"] == ["images", "spark"]
    for words in ("needs.images.result == 'success'", "needs.spark.result == 'success'", "!cancelled()"):
        assert words in jobs["tag"]["if"]
    assert jobs["spark"]["if"] == "vars.GB10_SPARK == 'true'"
    assert workflow("images")["jobs"]["same"]["needs"] == "image"
    if name == "release":
        assert jobs["index"]["needs"] == ["tag"]
        assert "needs.tag.result == 'success'" in jobs["index"]["if"]


def test_every_verb_in_a_script_is_one() -> None:
    called = {
        verb
        for path in WORKFLOWS
        for one in steps(path)
        for verb in re.findall(r"\./build\.py (\w+)", one.get("run", ""))
    }
    assert {"plan", "image", "publish", "selftest", "lock"} <= called
    assert called - set(VERBS) == set()


SAME = ("images", "same", "One digest from either machine")


@pytest.mark.parametrize(
    ("cross", "native", "code"), [("sha256:1", "sha256:1", 0), ("sha256:1", "sha256:2", 1), ("", "", 1)]
)
def test_images_of_both_machines_are_compared(cross: str, native: str, code: int, tmp_path: Path) -> None:
    for name, digest in (("ubuntu-24.04", cross), ("ubuntu-24.04-arm", native)):
        folder = tmp_path / "results" / f"image-vllm-{name}"
        folder.mkdir(parents=True)
        (folder / "digest").write_text(digest, encoding="utf-8")
    ran = run_step(SAME, tmp_path, ENGINE="vllm")
    assert ran.returncode == code, ran.stderr
    assert ("claim native-build" in ran.stdout) is bool(code)


def test_a_digest_that_is_not_there_is_no_equal_one(tmp_path: Path) -> None:
    assert run_step(SAME, tmp_path, ENGINE="vllm").returncode != 0


GATE = ("spark", "selftest", "Gate")
OF_NODES = {*workflow("spark")["jobs"]["selftest"]["env"]["LEFT_OUT"].split("'")[1].split()}
OF_SERVERS = {one.id for one in STEPS if one.need == "server"}


def only(report: dict[str, Any], without: set[str]) -> None:
    report["steps"] = [one for one in report["steps"] if one["id"] not in without]


def lost_power(report: dict[str, Any]) -> None:
    only(report, OF_NODES)
    step(report, "power")["claims"]["power.clock"]["value"] = 507


@pytest.mark.parametrize(
    ("change", "model", "code"),
    [
        (lambda report: only(report, OF_NODES), "/models/mine", 0),
        (lambda report: only(report, OF_NODES | {"drafts"}), "/models/mine", 13),
        (lambda report: only(report, OF_NODES | OF_SERVERS), "", 0),
        (lambda report: only(report, OF_NODES | OF_SERVERS), "/models/mine", 13),
        (lambda report: only(report, OF_NODES | {"gemm"}), "/models/mine", 13),
        (lost_power, "/models/mine", 9),
        (lambda report: report["image"].update(digest=f"sha256:{'cd' * 32}"), "/models/mine", 9),
    ],
    ids=[
        "all held",
        "no drafts",
        "without a model",
        "no server ran",
        "a step is missing",
        "a claim fell",
        "another image",
    ],
)
def test_the_gate_of_the_spark(change: Callable[[dict[str, Any]], None], model: str, code: int, tmp_path: Path) -> None:
    report = good_report()
    change(report)
    (tmp_path / "selftest-vllm").mkdir()
    (tmp_path / "selftest-vllm/report.json").write_text(json.dumps(report), encoding="utf-8")
    ran = run_step(
        GATE,
        tmp_path,
        ENGINE="vllm",
        MODEL=model,
        LEFT_OUT=" ".join(OF_NODES),
        REFERENCE=f"host.example/gb10/vllm@{DIGEST}",
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "held" in (tmp_path / "summary").read_text(encoding="utf-8")


def test_the_gate_asks_sglang_for_no_drafts(tmp_path: Path) -> None:
    """It counts none, so the step can never be checked: without this line no image of it would get its tag."""
    report = good_report()
    only(report, OF_NODES | {"drafts", "switches"})
    (tmp_path / "selftest-sglang").mkdir()
    (tmp_path / "selftest-sglang/report.json").write_text(json.dumps(report), encoding="utf-8")
    given = {"MODEL": "/models/mine", "LEFT_OUT": " ".join(OF_NODES), "REFERENCE": f"host.example/gb10/sglang@{DIGEST}"}
    ran = run_step(GATE, tmp_path, ENGINE="sglang", **given)
    assert ran.returncode == 0, ran.stdout + ran.stderr


UNIT, WHOLE = "tests/unit/project/test_workflows.py", "tests/integration/test_workflow.py"
UVX, SPARK = "tests/integration/test_uvx.py", "tests/integration/test_spark_pull.py"
IMAGE_JOB = f"{WHOLE}::test_the_image_is_built_proven_pushed_by_key_and_signed"
NEXT_RELEASE = f"{WHOLE}::test_the_next_release_is_proposed_once"
BY_CI = ".ci/run, which is what this repository is tested by"
RAN_BY = {
    ("check", "check", "Check"): BY_CI,
    ("check", "test", "Test"): BY_CI,
    ("nightly", "check", "Check"): BY_CI,
    ("release", "wheel", "Check"): BY_CI,
    ("images", "image", "Settings"): IMAGE_JOB,
    ("images", "image", "Plan"): IMAGE_JOB,
    ("images", "image", "Build and prove"): IMAGE_JOB,
    ("images", "image", "Summary"): IMAGE_JOB,
    ("images", "image", "Push under the tag with the key"): IMAGE_JOB,
    ("tag", "tag", "Move the tag"): IMAGE_JOB,
    ("images", "same", "One digest from either machine"): f"{UNIT}::test_images_of_both_machines_are_compared",
    ("nightly", "upgrade", "The engine's next release"): NEXT_RELEASE,
    ("nightly", "upgrade", "Pull request"): NEXT_RELEASE,
    ("release", "wheel", "The tag is the version"): f"{UNIT}::test_a_release_has_the_version_of_its_tag",
    ("release", "wheel", "Build"): f"{UVX}::test_uvx_runs_it_as_the_checkout_does",
    ("release", "wheel", "Run it as users do"): f"{UVX}::test_the_step_of_a_release_that_runs_it_as_users_do",
    ("release", "index", "Publish"): f"{UVX}::test_uvx_runs_it_as_the_checkout_does",
    ("spark", "selftest", "Pull"): f"{SPARK}::test_an_image_is_pulled_by_its_digest_and_no_token_stays",
    ("spark", "selftest", "Selftest"): f"{SPARK}::test_what_was_pulled_is_tested_and_judged",
    ("spark", "selftest", "Gate"): f"{UNIT}::test_the_gate_of_the_spark",
}
"""The test that runs the script of each step as it stands in the workflow, against counterparts on one machine."""
RAN_NOWHERE = {
    ("check", "check", "Workflows"): "`actionlint`",
    ("images", "image", "Make room"): "`sudo`",
    ("check", "test", "Debian's keys"): "`sudo`",
    ("images", "image", "Debian's keys"): "`sudo`",
    ("nightly", "upgrade", "Debian's keys"): "`sudo`",
}
"""The word by which docs/publish.md says so."""


def test_the_commands_of_every_step_run_in_a_test_or_docs_say_that_they_run_nowhere() -> None:
    found = {
        (path.stem, name, one["name"])
        for path in WORKFLOWS
        for name, job in workflow(path.stem)["jobs"].items()
        for one in job.get("steps", ())
        if "run" in one
    }
    assert sorted(found) == sorted({*RAN_BY, *RAN_NOWHERE})
    assert not RAN_BY.keys() & RAN_NOWHERE.keys()
    for place, test in RAN_BY.items():
        file, _, name = test.partition("::")
        known = (ROOT / file).read_text(encoding="utf-8") if name else ""
        assert f"def {name}(" in known or script(*place) in ("make check", SCRIPT_OF_CI), place
        assert not name or f'"{place[0]}", "{place[1]}"' in known, f"{file} does not run a step of {place[:2]}"
    page = " ".join((ROOT / "docs/publish.md").read_text(encoding="utf-8").split())
    sentence = page.partition("What ran nowhere: ")[2].partition(". ")[0]
    assert [word for word in {*RAN_NOWHERE.values(), "`uses:`"} if word not in sentence] == []


SCRIPT_OF_CI = 'sudo --preserve-env=GB10_DEBIAN_MIRROR env "PATH=$PATH" .ci/run'
VERSION: Mapping[str, int] = {f"v{__version__}": 0, "v0.0.1": 1, __version__: 1}


@pytest.mark.parametrize(("tag", "code"), VERSION.items())
def test_a_release_has_the_version_of_its_tag(tag: str, code: int, tmp_path: Path) -> None:
    ran = run_step(("release", "wheel", "The tag is the version"), tmp_path, GITHUB_REF_NAME=tag)
    assert ran.returncode == code, ran.stderr


def zizmor(folder: Path) -> str:
    """What it finds, medium and worse, and what it cannot read. It is one of our requirements, and needs no network."""
    program = f"{sys.prefix}/bin/zizmor"
    argv = [program, "--offline", "--no-progress", "--quiet", "--format=plain", "--min-severity=medium", str(folder)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    return ran.stderr + (ran.stdout if ran.returncode else "")


EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
NAMES = re.compile(r"(?<![\w.])(\w+)((?:\.[\w-]+)+)")
CONTEXTS = {"env", "github", "inputs", "job", "matrix", "needs", "runner", "secrets", "steps", "strategy", "vars"}


def wrong_names(found: dict[Any, Any]) -> list[str]:
    """Names in the expressions of a workflow that mean nothing there: a runner takes each for an empty text."""
    wrong = []
    called = found[True].get("workflow_call") if isinstance(found[True], dict) else None
    for job in found["jobs"].values():
        needed = [job.get("needs", [])] if isinstance(job.get("needs", []), str) else job.get("needs", [])
        wrong += [f"needs.{one}" for one in needed if one not in found["jobs"]]
        known = {
            "needs": set(needed),
            "matrix": set(job.get("strategy", {}).get("matrix", {})),
            "steps": {step["id"] for step in job.get("steps", ()) if "id" in step},
            "inputs": set((called or {}).get("inputs", {})),
        }
        text = yaml.safe_dump(job, width=10_000)
        conditions = [str(one["if"]) for one in (job, *job.get("steps", ())) if "if" in one]
        for expression in (*EXPRESSION.findall(text), *conditions):
            for context, rest in NAMES.findall(re.sub("'[^']*'", "", expression)):
                name = rest.split(".")[1]
                if context not in CONTEXTS or name not in known.get(context, {name}):
                    wrong.append(context + rest)
    return wrong


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_name_in_an_expression_means_something(path: Path) -> None:
    assert wrong_names(workflow(path.stem)) == []


def test_zizmor_finds_nothing() -> None:
    assert zizmor(FOLDER) == ""


PLANTED = {
    "an action by its tag": ("@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1", "@v7", "unpinned-uses"),
    "text that becomes code": ("run: make check", "run: make ${{ github.head_ref }}", "template-injection"),
    "half an expression": ("needs.spark.result == 'success' ||", "needs.spark.result == ||", "couldn't parse"),
    "no such function": ("!cancelled()", "!canceled()", "couldn't parse"),
    "no such right": ("packages: write", "packages: rite", "failed to validate"),
    "no such job": ("needs: images", "needs: image", "needs.image"),
    "no such result": ("needs.images.result == 'success'", "needs.image.result == 'success'", "needs.image.result"),
    "no such context": ("${{ matrix.runner }}", "${{ matrx.runner }}", "matrx.runner"),
    "no such axis": ("${{ matrix.runner }}", "${{ matrix.runer }}", "matrix.runer"),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_mistake_is_found(kind: str, tmp_path: Path) -> None:
    old, new, words = PLANTED[kind]
    text = (FOLDER / "nightly.yml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / ".github/workflows").mkdir(parents=True)
    planted = tmp_path / ".github/workflows/nightly.yml"
    planted.write_text(text.replace(old, new), encoding="utf-8")
    found = wrong_names(yaml.safe_load(planted.read_text(encoding="utf-8")))
    assert words in zizmor(planted) + "\n".join(found)
