"""``doctor`` of what is no log: a row and exit 13, never "nothing found"."""

import json
from pathlib import Path

import pytest

from gb10.cli import main

DIFF = """--- a/usr/lib/python3.12/dist-packages/vllm/x.py
+++ b/usr/lib/python3.12/dist-packages/vllm/x.py
@@ -1 +1 @@
-num_kv_splits = 4
+num_kv_splits = 16
"""
SPOKEN = (
    "(APIServer pid=1) INFO 11-24 08:01:12 [api_server.py:9] ready\n",
    "INFO 11-24 08:01:12 [loggers.py:259] Engine 000: Avg prompt throughput: 1.0 tokens/s\n",
    "[2026-08-26 10:00:01 TP0] Decode batch. #running-req: 1\n",
    'INFO:     127.0.0.1:5000 - "GET /health HTTP/1.1" 200 OK\n',
    "node-a:410:512 [0] NCCL INFO Connected all rings\n",
    "[   12.345678] nvidia: module loaded\n",
)


def asked(tmp_path: Path, text: str, *words: str) -> int:
    log = tmp_path / "x.log"
    log.write_text(text, encoding="utf-8")
    return main(["doctor", "--log", str(log), *words])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no line of an engine or a kernel: it is empty"),
        (DIFF, "no line of an engine or a kernel"),
        ("a: 1\nb: 2\n", "no line of an engine or a kernel"),
    ],
)
def test_what_is_no_log_is_a_row_once_and_exit_13(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    assert asked(tmp_path, text) == 13
    out, err = capsys.readouterr()
    assert f"x.log: not checked: log: {reason}\n" in out
    assert "nothing found" not in out
    assert "no line of an engine" not in err
    assert asked(tmp_path, text, "--allow-unchecked") == 0
    capsys.readouterr()
    assert asked(tmp_path, text, "--json") == 13
    assert json.loads(capsys.readouterr().out)["unchecked"] == [{"what": "log", "reason": reason, "where": "x.log"}]


@pytest.mark.parametrize("text", SPOKEN)
def test_a_log_in_which_nothing_is_wrong_was_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert asked(tmp_path, text) == 0
    assert "nothing found; read: x.log" in capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_what_is_quoted_has_no_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    token = "hf_" + "aBcD1234" * 4
    text = f"(APIServer pid=1) INFO 11-24 08:01:12 [api_utils.py:9] non-default args: {{'max_model_len': '{token}'}}\n"
    text += f"(APIServer pid=1) ERROR 11-24 08:01:13 [core.py:9] RuntimeError: max_model_len of {token} must be less\n"
    assert asked(tmp_path, text, *words) == 12
    shown = capsys.readouterr().out
    assert token not in shown
    assert "***" in shown


def test_an_engine_without_an_index_of_statements_is_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "[08/12/2026-10:00:00] [TRT-LLM] [E] RuntimeError: some thing that nobody knows went wrong\n"
    assert asked(tmp_path, text, "--json") == 12
    rows = json.loads(capsys.readouterr().out)["unchecked"]
    assert [(one["what"], one["where"]) for one in rows] == [("the engine's own statements", "x.log")]
    assert "TensorRT-LLM" in rows[0]["reason"]
