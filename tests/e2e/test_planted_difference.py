"""A server that makes 5 % more steps a second is found with five launches; its tokens a second are luck."""

import json
import sys
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.image.plan.catalog import ROOT
from tests.integration.byte_tokenizer import write_byte_tokenizer

pytestmark = pytest.mark.e2e
SERVER = f"{sys.executable} {ROOT}/tests/integration/openai_server.py --only luck --spread 0.01 --port {{port}}"
LOAD = ("--pp", "60", "--tg", "90", "-c", "2", "--runs", "2", "--canary-tokens", "48", "--launches", "5")


def test_steps_are_found_and_tokens_are_not_resolved(tmp_path: Path) -> None:
    tokenizer, folder = write_byte_tokenizer(tmp_path / "tokenizer.json"), tmp_path / "out"
    command = f"{SERVER} --rate {{rate}} --starts {tmp_path}/starts"
    asked = ["bench", "compare", "rate=60", "rate=63", "--launch", command]
    assert main([*asked, "--tokenizer", str(tokenizer), "--out", str(folder), *LOAD]) == 0
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    rows = {row["figure"]: row for row in found["rows"]}
    print((folder / "table.md").read_text(encoding="utf-8"))
    assert rows["steps_s"]["outcome"] == "faster"
    assert rows["steps_s"]["low"] < 0.05 < rows["steps_s"]["high"]
    assert rows["tok_s"]["outcome"] == "not resolved"
    assert rows["tok_s"]["needed"] > 5
