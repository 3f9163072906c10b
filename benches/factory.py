"""What the wheel factory compiles again, and what it does not: one table, from one run.

    python3 -m bootstrap benches/factory.py [--kills 10]

One small module of FlashInfer (the kernel set `smoke`) stands for all: cold, as they are, with a patch, with a header
changed that no unit reads, for another arch and back, on a second machine (a store that has nothing, and a wheel cache
on a Hub of this machine), and after being killed at random moments. Prints JSON; exits 1 when a killed compile left
another wheel than an uninterrupted one, the second machine has another than the first, or a header that no unit reads
was compiled for.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gb10.core.proc import capture
from gb10.core.store import open_store
from gb10.image.plan.catalog import ROOT
from tests.integration.hub_server import TOKEN, Repository, fake_hub, make_signer
from tests.integration.nodes import ssh_keygen

REPO = "me/wheels"
RECIPE = ROOT / "recipes/images/vllm.yaml"
READ, UNREAD = "include/flashinfer/activation.cuh", "include/flashinfer/norm.cuh"


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One call of ``wheels``: seconds, units that a compiler ran for (a module of the set has one each), the wheel."""

    seconds: float
    units: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """One kill, in seconds after the start; the units that were left to compile; whether the wheel is another one."""

    killed_after: float
    too_late: bool
    units_left: int
    wrong: bool


def main() -> None:
    """Run the sequence, print one document."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    kills = parser.parse_args().kills
    with tempfile.TemporaryDirectory() as folder:
        recipe = small_recipe(Path(folder))
        table = {
            "cold": wheels(recipe, "--rebuild-flashinfer"),
            "no-op": wheels(recipe),
            "a header that the units read": wheels(recipe, "--patch", changed_header(Path(folder), READ)),
            "a header that none reads": wheels(recipe, "--patch", changed_header(Path(folder), UNREAD)),
            "12.1a": wheels(recipe, "--arch", "12.1a"),
            "back to 12.1f": wheels(recipe),
            "12.1a again": wheels(recipe, "--arch", "12.1a"),
        }
        table["a second machine with the wheel cache"] = second_machine(recipe, Path(folder))
        longest = table["a header that the units read"].seconds
        ends = [killed(recipe, changed_header(Path(folder), READ), longest) for _ in range(kills)]
    wrong = sum(end.wrong for end in ends)
    wrong += table["a second machine with the wheel cache"].sha256 != table["back to 12.1f"].sha256
    wrong += table["a header that none reads"].units  # they are in the reviewed cache
    document = {name: asdict(result) for name, result in table.items()}
    print(json.dumps({"table": document, "kills": list(map(asdict, ends)), "wrong": wrong}, indent=1))
    sys.exit(bool(wrong))


def small_recipe(folder: Path) -> str:
    """The recipe of vLLM's image, with FlashInfer's kernels alone, a small one."""
    text = RECIPE.read_text(encoding="utf-8").replace("kernels: core", "kernels: smoke")
    text = re.sub(r"(?ms)^  gb10-kernels:.*?(?=^ {0,2}\S)", "", text)
    (folder / "small.yaml").write_text(re.sub(r"(?m)^patches: .*$", "patches: []", text), encoding="utf-8")
    (folder / "small.lock.json").write_bytes(RECIPE.with_suffix(".lock.json").read_bytes())
    return str(folder / "small.yaml")


def changed_header(folder: Path, path: str) -> str:
    """A diff that adds a comment to a header of FlashInfer, another one each time."""
    first = f"// {random.random()}"  # noqa: S311 - not a secret
    file = folder / f"{Path(path).stem}.patch"
    file.write_text(f"--- a/{path}\n+++ b/{path}\n@@ -1,1 +1,2 @@\n+{first}\n /*\n", encoding="utf-8")
    return f"flashinfer={file}"


def command(recipe: str, *arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "build.py"), "wheels", "--engine", recipe, "--json", "--quiet", *arguments]


def wheels(recipe: str, *arguments: str) -> Result:
    """One call, and what its compile stage measured."""
    return timed(command(recipe, *arguments), os.environ)


def timed(argv: list[str], env: Mapping[str, str]) -> Result:
    begin = time.monotonic()
    found = json.loads(capture(argv, env=env))["wheels"]
    wheel = next(one for one in found if one["name"] == "flashinfer-jit-cache")
    seconds = round(time.monotonic() - begin, 1)
    return Result(seconds=seconds, units=0 if wheel["hit"] else compiled(Path(wheel["path"])), sha256=wheel["sha256"])


def compiled(wheel: Path) -> int:
    """The units that a compiler ran for; what the compile cache has takes less than a second."""
    measured = json.loads((wheel.parent / "measured.json").read_text(encoding="utf-8"))
    return sum(module["cpu_s"] > 1 for module in measured.values())


def second_machine(recipe: str, folder: Path) -> Result:
    """``wheels`` on a store that has nothing but what the first one pushed to a Hub and signed."""
    with fake_hub() as hub:
        hub.repositories[REPO] = Repository()
        env = {
            **os.environ,
            "PATH": ssh_keygen(open_store(os.environ), folder / "ssh"),
            "HF_ENDPOINT": hub.url,
            "HF_TOKEN": TOKEN,
            "HF_HUB_DISABLE_XET": "1",
            "GB10_WHEEL_CACHE": REPO,
        }
        env |= make_signer(folder, "me", env)
        gb10 = [sys.executable, "-m", "gb10"]  # not build.py: a new store would have to get this Python's environment
        capture([*gb10, "cache", "push", "--engine", recipe, "--json", "--quiet"], env=env)
        argv = [*gb10, "wheels", "--engine", recipe, "--json", "--quiet"]
        return timed(argv, {**env, "GB10_CACHE_DIR": str(folder / "second")})


def killed(recipe: str, patch: str, longest: float) -> End:
    """A compile of a new key killed at a random moment, then finished, then held against one that was left alone."""
    moment = round(random.uniform(0, longest), 1)  # noqa: S311
    running = subprocess.Popen(
        command(recipe, "--patch", patch), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(moment)
    late = running.poll() is not None
    with suppress(ProcessLookupError):  # it had ended
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    after = wheels(recipe, "--patch", patch)
    alone = wheels(recipe, "--patch", patch, "--rebuild-flashinfer")
    return End(killed_after=moment, too_late=late, units_left=after.units, wrong=after.sha256 != alone.sha256)


if __name__ == "__main__":
    main()
