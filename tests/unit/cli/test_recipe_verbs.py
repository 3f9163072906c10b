"""``recipe lint`` and ``recipe render`` as a user calls them: levels, documents, exit codes, scripts for two nodes."""

import json
import subprocess
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.cli.models.recipe_lint import MOST
from gb10.cli.models.recipe_render import requested
from gb10.errors import UsageError

GOOD = """model: org/m
container: vllm/vllm-openai:v0.33.0
command: vllm serve org/m --gpu-memory-utilization 0.8 --port 8000
"""
BAD = GOOD.replace("--port", "--no-such-option 1 --port")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    found = tmp_path / "recipes"
    (found / "deep").mkdir(parents=True)
    (found / "good.yaml").write_text(GOOD, encoding="utf-8")
    (found / "deep/bad.yml").write_text(BAD, encoding="utf-8")
    (found / "notes.txt").write_text("no recipe", encoding="utf-8")
    (found / "link.yaml").symlink_to("good.yaml")
    return found


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["recipe", *words])
    return code, *capsys.readouterr()


def test_a_folder_is_linted_with_those_below_it_and_without_links(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "lint", str(folder), "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (2, "gb10/recipe-lint/v1")
    found = {Path(row["file"]).name: {one["level"] for one in row["issues"]} for row in document["recipes"]}
    assert set(found) == {"bad.yml", "good.yaml"}
    assert "error" in found["bad.yml"]
    assert "error" not in found["good.yaml"]


def test_lines_go_to_stdout_and_the_count_to_stderr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "lint", str(folder), "--level", "error")
    assert code == 2
    assert "--no-such-option" in out
    assert "warning" not in out
    assert "2 recipes: 1 error, " in err
    code, out, err = run(capsys, "lint", str(folder / "good.yaml"), "--level", "error")
    assert code == 13
    assert out.startswith(f"{folder}/good.yaml: not checked: memory: the sizes of org/m are not known here")
    assert "1 recipe: 0 errors, " in err
    assert ", 1 part not checked" in err
    assert "1 part was not checked, and nothing wrong was found in the rest" in err
    assert "not checked: memory" not in err


def test_a_part_that_was_not_checked_is_data_and_may_be_allowed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "lint", str(folder / "good.yaml"), "--json")
    (row,) = json.loads(out)["unchecked"]
    assert (code, row["what"], row["where"]) == (13, "memory", str(folder / "good.yaml"))
    assert run(capsys, "lint", str(folder / "good.yaml"), "--allow-unchecked")[0] == 0
    assert run(capsys, "lint", str(folder), "--allow-unchecked")[0] == 2


def test_a_level_that_is_not_shown_counts_all_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(run(capsys, "lint", str(folder), "--json")[1])["recipes"]
    errors = json.loads(run(capsys, "lint", str(folder), "--json", "--level", "error")[1])["recipes"]
    assert {one["level"] for row in errors for one in row["issues"]} == {"error"}
    assert sum(len(row["issues"]) for row in whole) > sum(len(row["issues"]) for row in errors)
    _, out, err = run(capsys, "lint", str(folder), "--level", "all")
    assert (out, "unknown level 'all'" in err) == ("", True)


def test_the_rules_are_listed_and_nothing_is_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "lint", "--rules", "--json")
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "gb10/lint-rules/v1")
    assert len(document["rules"]) > 10
    code, out, _ = run(capsys, "lint", "--rules", str(folder / "nowhere.yaml"))
    assert code == 0
    assert all(rule["code"] in out for rule in document["rules"])


def test_nothing_to_lint_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "lint")[0] == 2
    (folder / "empty").mkdir()
    code, _, err = run(capsys, "lint", str(folder / "empty"))
    assert code == 3
    assert "holds no recipe (.yaml, .yml)" in err
    assert MOST >= 1000


def test_an_image_names_its_release(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inspected = tmp_path / "image.json"
    inspected.write_text('[{"Config": {"Labels": null}}]', encoding="utf-8")
    assert run(capsys, "lint", str(folder / "good.yaml"), "--image", str(inspected), "--allow-unchecked")[0] == 0
    for wrong in ("[]", "{}", "[" * 100_000, "no json", '[{"Config": {"Labels": [1]}}]'):
        inspected.write_text(wrong, encoding="utf-8")
        code, _, err = run(capsys, "lint", str(folder / "good.yaml"), "--image", str(inspected))
        assert code == 2
        assert "is not what docker image inspect prints" in err


def test_nodes_and_launchers_of_a_command_line() -> None:
    assert requested().nodes == ()
    assert requested(nodes=" a, b,,").nodes == ("a", "b")
    assert (requested().peer, requested().lenient) == (None, False)
    assert (requested(peer="eugr").peer, requested(peer="eugr").lenient) == ("eugr", False)
    assert (requested(lenient="sparkrun").peer, requested(lenient="sparkrun").lenient) == ("sparkrun", True)
    assert requested(peer="eugr", lenient="eugr").lenient
    with pytest.raises(UsageError, match="name two launchers"):
        requested(peer="eugr", lenient="sparkrun")
    with pytest.raises(UsageError, match="unknown launcher 'docker'") as caught:
        requested(peer="docker")
    assert "eugr" in (caught.value.hint or "")


def test_a_script_of_one_node_runs_as_it_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "render", str(folder / "good.yaml"))
    assert code == 0
    assert out.startswith("#!/bin/bash\n")
    assert out.endswith("\n")
    assert not out.endswith("\n\n")
    assert "vllm serve org/m" in out


def test_a_script_of_two_nodes_asks_for_the_number(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The real shell takes it: without a number, and with one of no node, it stops before it starts anything."""
    two = folder / "two.yaml"
    two.write_text(GOOD.replace("--port", "-tp 2 --port"), encoding="utf-8")
    code, out, err = run(capsys, "render", str(two), "--nodes", "one,two", "--set", "tensor_parallel=2")
    assert code == 0, err
    assert "# Each node runs it with its number: 0 on one, 1 on two." in out.splitlines()[1]
    for words, status, said in ((["7"], 2, "there is no node 7"), ([], 1, "the number of this node")):
        done = subprocess.run(["bash", "-s", "--", *words], input=out, capture_output=True, text=True, check=False)
        assert (done.returncode, said in done.stderr) == (status, True)


def test_a_launcher_hands_its_script_to_all_nodes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "render", str(folder / "good.yaml"), "--peer", "sparkrun", "--nodes", "one,two")
    assert code == 0, err
    assert "case" not in out
    alone = run(capsys, "render", str(folder / "good.yaml"), "--peer", "sparkrun", "--nodes", "one")[2]
    assert "sparkrun's launcher hands this to" not in alone


def test_a_mistake_is_in_the_document_and_in_the_exit_code(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = folder / "wrong.yaml"
    wrong.write_text(GOOD.replace("--port 8000", "--port {nowhere}"), encoding="utf-8")
    code, out, _ = run(capsys, "render", str(wrong), "--json")
    assert code == 2
    assert any(one["level"] == "error" for one in json.loads(out)["issues"])
    code, out, err = run(capsys, "render", str(wrong))
    assert (code, out) == (2, "")
    assert "nowhere" in err
