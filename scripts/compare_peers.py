"""Compare what eugr's launcher and sparkrun make of real recipes with what gb10 renders; print each difference.

    python3 -m bootstrap scripts/compare_peers.py EUGR SPARKRUN FOLDER

EUGR and SPARKRUN are as in record_peers.py. FOLDER holds recipes (*.yaml), in folders or not: for example those of a
registry, or of every commit of one. Version 1 is compared with eugr's launcher, in twelve ways to run it, and every
recipe with sparkrun, in ten. A difference is no rule of ours when the peer stops for another reason, as sparkrun does
for an image that it cannot build offline: these are counted apart.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gb10.models.load.loading import load_model_recipe  # noqa: E402 - the checkout goes on the path first
from scripts.record_peers import eugr, sparkrun  # noqa: E402
from tests.made_up_recipes import MadeUp, digest_of  # noqa: E402
from tests.unit.models.test_made_up_recipes import as_eugr, as_sparkrun, rendered  # noqa: E402

REFUSED: Final = digest_of(None)
NODES: Final = {count: tuple(f"10.0.0.{number}" for number in range(1, count + 1)) for count in (1, 2, 4, 8)}
Ways = Mapping[str, Mapping[str, object]]
FIRST: Final[Ways] = {
    "alone": {},
    "one": {"nodes": NODES[1]},
    "two": {"nodes": NODES[2]},
    "four": {"nodes": NODES[4]},
    "eight": {"nodes": NODES[8]},
    "alone, port and memory": {"overrides": (("port", "9000"), ("gpu_memory_utilization", "0.70"))},
    "two, two ranks": {"nodes": NODES[2], "overrides": (("tensor_parallel", "2"), ("max_model_len", "4096"))},
    "alone, arguments": {"arguments": ("--x", "a b'c", '--y={"a": 1}')},
    "two, Ray": {"nodes": NODES[2], "ray": True},
    "alone, host": {"overrides": (("host", "::1"), ("tensor_parallel", "2"))},
    "four, a backend": {"nodes": NODES[4], "arguments": ("--distributed-executor-backend", "ray", "--seed", "3")},
    "four, Ray and arguments": {"nodes": NODES[4], "ray": True, "arguments": ("--seed", "3")},
}
SECOND: Final[Ways] = {
    **{name: {"nodes": NODES[count]} for name, count in (("one", 1), ("two", 2), ("four", 4), ("eight", 8))},
    "one, port and memory": {"nodes": NODES[1], "overrides": (("port", "9000"), ("gpu_memory_utilization", "0.70"))},
    "two, two ranks": {"nodes": NODES[2], "overrides": (("tensor_parallel", "2"), ("max_model_len", "4096"))},
    "one, one rank": {"nodes": NODES[1], "overrides": (("tensor_parallel", "1"), ("served_model_name", "x"))},
    "four, Ray": {
        "nodes": NODES[4],
        "overrides": (("tensor_parallel", "4"), ("distributed_executor_backend", "ray")),
    },
    "four replicas": {"nodes": NODES[4], "overrides": (("tensor_parallel", "1"), ("data_parallel", "4"))},
    "two by two": {"nodes": NODES[4], "overrides": (("tensor_parallel", "2"), ("data_parallel", "2"))},
}


def cases(paths: list[Path], ways: Ways) -> Iterator[tuple[str, MadeUp]]:
    """Each recipe in each way, with a name for it."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for name, way in ways.items():
            case = MadeUp(text=text, **{"nodes": (), "overrides": (), **way})  # type: ignore[arg-type]
            yield f"{path}: {name}", case


def compare(peer: str, found: dict[str, str], ours: dict[str, str]) -> bool:
    """Print the differences of one peer; whether there is one in what both render."""
    different = [name for name in found if found[name] != ours[name]]
    stopped = [name for name in different if REFUSED in (found[name], ours[name])]
    for name in different:
        print(f"{peer}: {name}{' (one of both refuses)' if name in stopped else ''}")
    refused = sum(one == REFUSED for one in found.values())
    counts = f"{len(found)} cases, {refused} refused by it, {len(different)} differ, {len(stopped)} by a refusal alone"
    print(f"{peer}: {counts}")
    return len(different) > len(stopped)


def main() -> int:
    """Compare both; 1 when something is rendered otherwise."""
    paths = sorted(Path(sys.argv[3]).rglob("*.yaml"))
    first = [path for path in paths if load_model_recipe(path.read_text(encoding="utf-8"), "x").format == "v1"]
    one, two = dict(cases(first, FIRST)), dict(cases(paths, SECOND))
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        found = {name: eugr(Path(sys.argv[1]), case, scratch) for name, case in one.items()}
        other = dict(zip(two, sparkrun(sys.argv[2], list(two.values()), scratch), strict=True))
    differs = compare("eugr", found, {name: as_eugr(rendered(case, "eugr")) for name, case in one.items()})
    differs |= compare("sparkrun", other, {name: as_sparkrun(rendered(case, "sparkrun")) for name, case in two.items()})
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
