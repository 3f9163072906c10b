"""Write tests/unit/data/models/made_up.json: what eugr's launcher and sparkrun make of made-up recipes.

    python3 -m bootstrap scripts/record_peers.py EUGR SPARKRUN

EUGR is a checkout of eugr/spark-vllm-docker of August 2026. SPARKRUN is the Python of an environment that has sparkrun
0.4.2 (3.12 or newer). Neither starts anything.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.made_up_recipes import MadeUp, digest_of, made_up  # noqa: E402 - the checkout goes on the path first

OUT = ROOT / "tests/unit/data/models/made_up.json"
COUNTS = {"1": 1200, "2": 800}
OPTIONS = {
    **{"port": "--port", "host": "--host", "tensor_parallel": "--tp"},
    **{"gpu_memory_utilization": "--gpu-mem", "max_model_len": "--max-model-len"},
}
SCRIPT = re.compile(r"=== Generated Launch Script ===\n(.*)\n=== What would be executed ===\n", re.DOTALL)
CALL = re.compile(r"2\. launch-cluster\.sh is called with:\n   (.*)\n\n3\. ", re.DOTALL)
RANKS = r"""
MASTER_PORT=29501; script="$1"; shift; nodes=("$@"); total=$#
parse_parallelism_from_text "$(cat "$script")"
if [[ "$PARALLELISM_FOUND" == true ]]; then
  required=$(( TP_SIZE * PP_SIZE * DP_SIZE ))
  [[ "$required" -gt "$total" ]] && exit 0
  [[ "$required" -lt "$total" ]] && nodes=("${nodes[@]:0:$required}")
fi
for rank in "${!nodes[@]}"; do
  base64 -w0 "$(make_node_script "$script" "${#nodes[@]}" "$rank" "${nodes[0]}")"; echo
done
"""


def eugr(checkout: Path, case: MadeUp, scratch: Path) -> str:
    """The digest of a case; of one that the launcher refuses, that of nothing."""
    recipe = scratch / "recipe.yaml"
    recipe.write_text(case.text, encoding="utf-8")
    nodes = ["-n", ",".join(case.nodes)] if case.nodes else ["--solo"]
    options = [f"{OPTIONS[key]}={value}" for key, value in case.overrides]
    more = ["--", *case.arguments] if case.arguments else []
    argv = [sys.executable, str(checkout / "run-recipe.py"), str(recipe), "--dry-run", *nodes, *options]
    text = subprocess.run([*argv, *["--ray"] * case.ray, *more], capture_output=True, text=True, check=False).stdout
    script, call = SCRIPT.search(text), CALL.search(text)
    if script is None or call is None:
        return digest_of(None)
    ranks = node_scripts(checkout, script[1], case.nodes, scratch) if len(case.nodes) > 1 else [script[1]]
    return digest_of([script[1], call[1], [script[1]] if case.ray and ranks else ranks])


def node_scripts(checkout: Path, script: str, nodes: tuple[str, ...], scratch: Path) -> list[str]:
    """What the functions of launch-cluster.sh make of a script for each node; none when the nodes are too few."""
    source = (checkout / "launch-cluster.sh").read_text(encoding="utf-8")
    names = ("parse_parallelism_from_text", "make_node_script")
    functions = (re.search(rf"^{name}\(\) \{{\n.*?^\}}$", source, re.DOTALL | re.MULTILINE) for name in names)
    text = "\n".join(found[0] for found in functions if found) + RANKS
    (scratch / "script.sh").write_text(script, encoding="utf-8")
    argv = ["bash", "-c", text, "bash", str(scratch / "script.sh"), *nodes]
    found = subprocess.run(argv, capture_output=True, text=True, check=True, env={**os.environ, "TMPDIR": str(scratch)})
    return [base64.b64decode(line).decode() for line in found.stdout.splitlines()]


def sparkrun(python: str, cases: list[MadeUp], scratch: Path) -> Iterator[str]:
    """The digests of the cases."""
    for number, case in enumerate(cases):
        (scratch / f"r{number}.yaml").write_text(case.text, encoding="utf-8")
    todo = [
        {"file": str(scratch / f"r{number}.yaml"), "nodes": case.nodes, "overrides": case.overrides}
        for number, case in enumerate(cases)
    ]
    (scratch / "cases.json").write_text(json.dumps(todo), encoding="utf-8")
    driver = ROOT / "tests/e2e/inside/sparkrun_dry_run.py"
    argv = [python, str(driver), str(scratch / "cases.json"), str(scratch / "found.json")]
    subprocess.run(argv, check=True, env={**os.environ, "HOME": str(scratch), "NO_COLOR": "1"})
    for found in json.loads((scratch / "found.json").read_text(encoding="utf-8")):
        yield digest_of(found and [found["runtime"], found["serve"], found["ranks"]])


def main() -> None:
    """Record both."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        first = [eugr(Path(sys.argv[1]), made_up("1", number), scratch) for number in range(COUNTS["1"])]
        second = list(sparkrun(sys.argv[2], [made_up("2", number) for number in range(COUNTS["2"])], scratch))
    found = {"eugr": "".join(first), "sparkrun": "".join(second)}
    OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
