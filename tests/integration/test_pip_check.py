"""The check ``requirements`` against `pip check` itself, over hundreds of made-up distributions."""

import platform
import random
import re
import sys
from pathlib import Path

import pytest

from bootstrap.install import PIP
from gb10.core.proc import capture
from gb10.image.proof.check import Facts, Subject
from gb10.image.proof.checks.requirements import CHECK
from gb10.inside.scan.scan import scan_tree

pytestmark = [pytest.mark.integration, pytest.mark.slow]

MINOR = sys.version_info.minor
PLATFORM = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}[platform.machine()]
VERSIONS = ("1.0", "2.0", "2.4.1", "3.0rc1", "2.14.0+cu130", "0.7.2.post1", "2026.1")
SPECIFIERS = ("", ">=2", "<2", "==2.*", "~=2.0", "!=2.4.1", ">1,<3", "==2.14.0", ">=3.0rc1", "===1.0", ">=0.7.2.post1")
MARKERS = (
    "",
    "python_version >= '3.11'",
    "python_version < '3.11'",
    f"platform_machine == '{platform.machine()}'",
    "platform_machine == 'riscv64'",
    "sys_platform == 'linux' and implementation_name == 'cpython'",
    "os_name == 'nt' or platform_system == 'Darwin'",
    "extra == 'all'",
    "python_version >= '3.11' and extra == 'all'",
)
TAGS = (
    "py3-none-any",
    "py2.py3-none-any",
    f"cp3{MINOR}-cp3{MINOR}-manylinux_2_17_{platform.machine()}",
    f"cp39-abi3-manylinux2014_{platform.machine()}",
    f"cp3{MINOR}-none-linux_{platform.machine()}",
    f"cp3{MINOR + 1}-cp3{MINOR + 1}-manylinux_2_17_{platform.machine()}",
    f"cp3{MINOR}-cp3{MINOR}-manylinux_2_17_riscv64",
    "py3-none-manylinux2014_sbsa",
)
LACKING = re.compile(r"^(\S+) \S+ requires ([^,]+), which is not installed\.$")
OTHER = re.compile(r"^(\S+) \S+ has requirement ([^;]+?)(?:;.*)?, but you have (\S+) \S+\.$")
FOREIGN = re.compile(r"^(\S+) \S+ is not supported on this platform$")
RUN = """
import runpy, sys
sys.path[:0] = sys.argv[1:3]
sys.argv = ["pip", "check"]
runpy.run_module("pip", None, "__main__")
"""


def made_up(site: Path, seed: int) -> None:
    """A folder of distributions, of which every third one requires others."""
    chance = random.Random(seed)  # noqa: S311 - the same folder every time
    names = [f"project-{number}" for number in range(40)]
    for name in names[:30]:
        info = site / f"{name.replace('-', '_')}-{(version := chance.choice(VERSIONS))}.dist-info"
        info.mkdir(parents=True)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", "Provides-Extra: all"]
        for _ in range(chance.randrange(4)):
            marker = chance.choice(MARKERS)
            required = f"{chance.choice(names)}{chance.choice(SPECIFIERS)}"
            lines.append(f"Requires-Dist: {required}{f'; {marker}' if marker else ''}")
        (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
        tags = [f"Tag: {chance.choice(TAGS)}" for _ in range(chance.randrange(3))]
        if tags:  # an egg has no such file
            (info / "WHEEL").write_text("\n".join(["Wheel-Version: 1.0", *tags]) + "\n", encoding="utf-8")


def pips(site: Path) -> set[tuple[str, str]]:
    """What pip says: the distribution, and the project that it lacks, or ``platform``."""
    argv = [sys.executable, "-I", "-S", "-c", RUN, str(PIP), str(site)]
    script = '"$@" || true'  # it ends with 1 when it finds something
    found = set()
    for line in capture(["/bin/sh", "-c", script, "sh", *argv]).splitlines():
        if match := LACKING.match(line) or OTHER.match(line):
            found.add((match[1], re.split(r"[^\w-]", match[2])[0]))
        elif match := FOREIGN.match(line):
            found.add((match[1], "platform"))
        else:
            assert line == "No broken requirements found.", line
    return found


def ours(root: Path) -> set[tuple[str, str]]:
    """What the check says of the same folder."""
    problems = CHECK.judge(Subject(scan=scan_tree(root), image=Facts(platform=PLATFORM)))
    found = set()
    for problem in problems:
        name = problem.file.split("/")[-2].partition("-")[0].replace("_", "-")
        foreign = problem.expected.startswith("a wheel for")
        found.add((name, "platform" if foreign else re.split(r"[^\w-]", problem.expected)[0]))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_the_check_says_what_pip_says(tmp_path: Path, seed: int) -> None:
    site = tmp_path / f"usr/local/lib/python3.{MINOR}/dist-packages"
    made_up(site, seed)
    theirs = pips(site)
    assert ours(tmp_path) == theirs
    assert len(theirs) > 5
