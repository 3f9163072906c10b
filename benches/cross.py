"""Cross against native: CPU seconds of the same kernel modules for linux/arm64 and for the building machine's platform.

    python3 -m bootstrap benches/cross.py [--runs 3]

Every compile is real (--rebuild-flashinfer) and the two alternate: on a shared machine only the ratio says something.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.core.proc import capture
from gb10.image.plan.catalog import ROOT

PLATFORMS = ("linux/arm64", "linux/amd64")


def main() -> None:
    """Alternate the two, print the CPU seconds of each run and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    seconds: dict[str, list[float]] = {platform: [] for platform in PLATFORMS}
    with tempfile.TemporaryDirectory() as folder:
        recipe = small_recipe(Path(folder))
        for _ in range(runs):
            for platform, found in seconds.items():
                found.append(compile_once(recipe, platform))
    medians = {platform: statistics.median(found) for platform, found in seconds.items()}
    ratio = medians["linux/arm64"] / medians["linux/amd64"]
    print(json.dumps({"cpu_s": seconds, "median_s": medians, "cross_over_native": round(ratio, 3)}, indent=1))


def small_recipe(folder: Path) -> Path:
    """The vLLM recipe with the kernel set of this bench, no other wheel, none that is patched; and its lock."""
    text = (ROOT / "recipes/images/vllm.yaml").read_text(encoding="utf-8")
    alone = re.sub(r"(?m)^(patches:|  gb10-kernels:$(\n    .*)+).*\n", "", text)
    (folder / "cross.yaml").write_text(alone.replace("kernels: core", "kernels: cross"), encoding="utf-8")
    (folder / "cross.lock.json").write_bytes((ROOT / "recipes/images/vllm.lock.json").read_bytes())
    return folder / "cross.yaml"


def compile_once(recipe: Path, platform: str) -> float:
    """CPU seconds of one real compile, as the compile stage measured them."""
    argv = [
        sys.executable,
        str(ROOT / "build.py"),
        "wheels",
        "--engine",
        str(recipe),
        "--arch",
        "12.1f",
        "--platform",
        platform,
        "--rebuild-flashinfer",
        "--json",
        "--quiet",
    ]
    document: dict[str, Any] = json.loads(capture(argv, env=os.environ))
    measured = Path(document["wheels"][0]["path"]).with_name("measured.json")
    modules: dict[str, dict[str, float]] = json.loads(measured.read_text(encoding="utf-8"))
    return round(sum(module["cpu_s"] for module in modules.values()), 1)


if __name__ == "__main__":
    main()
