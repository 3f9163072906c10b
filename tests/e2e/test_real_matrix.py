"""36 rows of a real engine, unattended: llama.cpp refuses some settings by its own rule, and the tool is killed."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from gb10.cli import main
from gb10.image.plan.catalog import ROOT
from gb10.serving.benchmark.launch_journal import JOURNAL
from tests.e2e.matrices import measured, rows_of
from tests.hang import until
from tests.integration.byte_tokenizer import write_byte_tokenizer
from tests.integration.pinned import pinned

pytestmark = pytest.mark.e2e
HERE = Path(__file__).parent
AXES = f"""\
launch: {sys.executable} {HERE}/inside/real_server.py SITE {{port}} 2 {{attention}} {{cache}} {{batch}} {{draft}}
axes:
  attention:
    flash: {{attention: flash_attn_type=1}}
    plain: {{attention: flash_attn_type=0}}
  cache:
    f16: {{cache: cache_type_v=1}}
    q8: {{cache: cache_type_v=8}}
    q4: {{cache: cache_type_v=2}}
  batch:
    large: {{batch: n_ubatch=512}}
    small: {{batch: n_ubatch=64}}
  draft:
    none: {{draft: speculative.types=0}}
    simple: {{draft: speculative.types=6}}
    cache: {{draft: speculative.types=10}}
"""
"""Fields of llama.cpp's parameters. It has quantised values in its cache with flash attention only."""
LOAD = ("-c", "2", "--pp", "64", "--tg", "16", "--runs", "1", "--warm-up", "0", "--canary-tokens", "24")
KILLED_AFTER = 7


def test_36_rows_with_a_kill_between(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    site = pinned("real-server", HERE / "real-server.txt")
    axes, folder = tmp_path / "axes.yaml", tmp_path / "out"
    axes.write_text(AXES.replace("SITE", str(site)), encoding="utf-8")
    tokenizer = write_byte_tokenizer(tmp_path / "tokenizer.json")
    matrix = ["bench", "matrix", str(axes), "--out", str(folder), *LOAD, "--tokenizer", str(tokenizer)]
    with subprocess.Popen([sys.executable, str(ROOT / "build.py"), *matrix]) as tool:
        until(lambda: measured(folder) == KILLED_AFTER or tool.poll() is not None, "row 7", seconds=900)
        tool.kill()
    kept = (folder / JOURNAL).read_bytes()
    assert main(matrix) == 0
    assert (folder / JOURNAL).read_bytes().startswith(kept)
    rows = rows_of(folder)
    print(Counter(row["result"] for row in rows.values()))
    refused = {name for name in rows if "attention=plain" in name and "cache=f16" not in name}
    assert (len(rows), len(refused)) == (36, 12)
    assert {name for name, row in rows.items() if row["result"] == "FAIL"} == refused
    assert all("quantized V cache requires flash_attn" in rows[name]["cause"] for name in refused)
    assert all(row["levels"][0]["tok_s"] > 0 for row in rows.values() if row["result"] == "STABLE")
    assert f"{36 - len(refused)} STABLE, 12 FAIL" in capfd.readouterr().out
