"""The command line's own words: help, wrong verbs, wrong arches, stale locks; with their exit codes."""

import json
from pathlib import Path

import pytest

from gb10.catalog import ROOT
from gb10.cli import main
from tests.golden.conftest import Golden


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def said(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str) -> str:
    code = main(arguments)
    out, err = capsys.readouterr()
    text = f"$ build.py {' '.join(arguments)}\n{out}{err}exit {code}\n"
    return text.replace(str(tmp_path), "<tmp>").replace(str(ROOT), "<checkout>")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("help", ["--help"]),
        ("image-help", ["image", "--help"]),
        ("wheels-help", ["wheels", "--help"]),
        ("plan-help", ["plan", "--help"]),
        ("wrong-verb", ["imgae"]),
        ("wrong-option", ["plan", "--arhc", "12.1f"]),
        ("wrong-arch", ["plan", "--arch", "sm_121a"]),
        ("wrong-platform", ["plan", "--platform", "linux/arm64/v8"]),
        ("wrong-engine", ["plan", "--engine", "vlm"]),
        ("no-overlay", ["plan", "--overlay", "nowhere"]),
        ("json-error", ["plan", "--arch", "gb10", "--json"]),
        ("lock-check", ["lock", "--check"]),
    ],
)
def test_said(
    golden: Golden, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, arguments: list[str]
) -> None:
    golden(f"cli/{name}.txt", said(capsys, tmp_path, *arguments))


def test_a_stale_lock_names_the_way_out(golden: Golden, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recipe = tmp_path / "vllm.yaml"
    text = (ROOT / "recipes/images/vllm.yaml").read_text(encoding="utf-8")
    recipe.write_text(text.replace("- vllm==0.33.0", "- vllm==0.34.0"), encoding="utf-8")
    (tmp_path / "vllm.lock.json").write_bytes((ROOT / "recipes/images/vllm.lock.json").read_bytes())
    text = said(capsys, tmp_path, "plan", "--engine", str(recipe))
    assert text.endswith("exit 4\n")
    kept = [line for line in text.splitlines() if "locked from" not in line and "recipe is" not in line]
    golden("cli/stale-lock.txt", "\n".join(kept) + "\n")


def test_an_unknown_setting_names_the_file_and_the_closest(
    golden: Golden, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config/gb10").mkdir(parents=True)
    (tmp_path / "config/gb10/config.toml").write_text('debian-miror = "x"\n', encoding="utf-8")
    golden("cli/wrong-setting.txt", said(capsys, tmp_path, "config", "show"))


def test_a_plan_as_json_is_one_document_with_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "gb10/plan/v1"
    assert set(document["hit"]) == {step["name"] for step in document["steps"]}
    assert main(["image", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document
