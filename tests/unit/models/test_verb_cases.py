"""Verbs other than doctor on public inputs: ``recipe import``, ``recipe lint``, ``moe check``, ``verify``."""

import re
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import yaml

from gb10.cli import main

CASES: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[2] / "cases/verbs.yaml").read_text(encoding="utf-8")
)
MACHINES = {"x86-64": 62, "aarch64": 183}


def library(machine: str) -> bytes:
    """The header of a shared library in ELF for a machine, without sections."""
    return b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, MACHINES[machine], 1, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0
    )


def _row(case: dict[str, Any]) -> Any:  # noqa: ANN401 - pytest has no name for its type
    """A case; `moe check` fetches a release of the engine that it asks."""
    marks = [pytest.mark.integration] if case["verb"] == "moe check" else []
    return pytest.param(case, id=f"{case['id']} {case['verb']}", marks=marks)


@pytest.mark.parametrize("case", [*map(_row, CASES)])
def test_a_public_input_gets_its_answer(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in case["files"].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(library(text.removeprefix("elf ")) if text.startswith("elf ") else text.encode())
    for wheel in tuple(tmp_path.glob("*.whl")):
        packed = shutil.make_archive(f"{wheel}.new", "zip", wheel)
        shutil.rmtree(wheel)
        Path(packed).rename(wheel)
    monkeypatch.chdir(tmp_path)
    code = main([*case["verb"].split(), *case["arguments"]])
    shown = "\n".join(capsys.readouterr())
    assert code == case["code"], shown
    assert [wanted for wanted in case["has"] if not re.search(wanted, shown)] == [], shown
    assert [one for one in case["hasnt"] if re.search(one, shown)] == [], shown
