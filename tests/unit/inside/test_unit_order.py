"""The order in which ninja starts the units of several modules."""

import json
import os
import sys
from pathlib import Path

import pytest

from gb10.inside.compile import unit_order
from gb10.inside.compile.unit_order import Part

HEAD = """ninja_required_version = 1.3
flags = -O1 $
    -O2

rule compile
  command = cp $in $out

"""
POOL = {"jobs": 2, "slots": 4, "mib": 256}
LINK = "\nbuild /b/{0}/{0}.so: link /b/{0}/a.o /b/{0}/b.o\ndefault /b/{0}/{0}.so\n"


def module(folder: Path, name: str) -> Path:
    path = folder / f"{name}.ninja"
    units = f"build /b/{name}/a.o: compile a\nbuild /b/{name}/b.o: compile b\n  flags = -O3 $\n    -g\n"
    path.write_text(HEAD + units + LINK.format(name))
    return path


def costs(**seconds: float) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, cpu_s in seconds.items():
        family, _, made = name.partition("_")
        found.setdefault(family, {})[f"{made}.o"] = {"cpu_s": cpu_s, "peak_mib": 100}
    return found


def test_a_unit_of_known_time_has_the_head_and_its_own_lines(tmp_path: Path) -> None:
    unit, rest = unit_order.split(module(tmp_path, "m"), costs(m_b=7), 64)
    assert unit == Part(HEAD + "build /b/m/b.o: compile b\n  flags = -O3 $\n    -g\n", 7, 2)
    assert rest == Part(HEAD + "build /b/m/a.o: compile a\n" + LINK.format("m"))


def test_the_longest_come_first_and_what_is_left_last(tmp_path: Path) -> None:
    top = tmp_path / "top.ninja"
    modules = [module(tmp_path, name) for name in ("m", "n")]
    top.write_text("".join(["ninja_required_version = 1.3\n", *(f"subninja {path}\n" for path in modules)]))
    ordered = unit_order.in_order(top, costs(m_a=3, n_a=5, n_b=4), POOL)
    first, *included = ordered.read_text().splitlines()
    assert first == "ninja_required_version = 1.3"
    texts = [Path(line.removeprefix("subninja ")).read_text() for line in included]
    assert ["".join(line for line in text.splitlines() if line.startswith("build")) for text in texts] == [
        "build /b/n/a.o: compile a",
        "build /b/n/b.o: compile b",
        "build /b/m/a.o: compile a",
        "build /b/m/b.o: compile bbuild /b/m/m.so: link /b/m/a.o /b/m/b.o",
        "build /b/n/n.so: link /b/n/a.o /b/n/b.o",
    ]


@pytest.mark.parametrize("text", ["", HEAD, HEAD + "build a.o: compile a\n"])
def test_a_file_without_modules_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "build.ninja").write_text(text)
    assert unit_order.in_order(tmp_path / "build.ninja", costs(m_a=3), POOL) == tmp_path / "build.ninja"


def test_without_costs_the_file_stays(tmp_path: Path) -> None:
    """Compilers that no launcher holds back do not wait for memory: the plan would not be theirs."""
    top = tmp_path / "top.ninja"
    top.write_text(f"subninja {module(tmp_path, 'm')}\n")
    assert unit_order.in_order(top, {}, POOL) == top


def test_a_relative_file_stays() -> None:
    assert unit_order.in_order(Path("build.ninja"), costs(m_a=3), POOL) == Path("build.ninja")


def test_units_without_a_measured_time_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    top = tmp_path / "top.ninja"
    top.write_text(f"subninja {module(tmp_path, 'm')}\n")
    unit_order.in_order(top, costs(m_a=3, m_b=4), POOL)
    assert capfd.readouterr().out == ""
    unit_order.in_order(top, costs(m_a=3), POOL)
    assert capfd.readouterr().out == "units without a measured time in units.toml: 1; they start last\n"


def names(jobs: int, slots: int, *units: tuple[str, float, int]) -> str:
    return " ".join(part.text for part in unit_order.schedule((Part(*unit) for unit in units), jobs, slots))


def test_a_free_job_takes_the_longest_whose_memory_is_free() -> None:
    units = ("l1", 9, 8), ("l2", 8, 8), ("l3", 7, 8), ("s1", 6, 1), ("s2", 5, 1)
    assert names(2, 100, *units) == "l1 l2 l3 s1 s2"
    assert names(2, 10, *units) == "l1 s1 s2 l2 l3"
    assert names(1, 10, *units) == "l1 l2 l3 s1 s2"


def test_a_unit_above_all_memory_starts_alone() -> None:
    assert names(4, 5, ("large", 9, 8), ("small", 5, 1)) == "large small"
    assert names(4, 5, ("large", 5, 8), ("small", 9, 1)) == "small large"


def test_a_unit_that_just_fits_starts_and_one_too_large_waits_until_it_is_alone() -> None:
    assert names(2, 10, ("a", 9, 6), ("b", 8, 4), ("c", 7, 1)) == "a b c"
    assert names(2, 10, ("a", 9, 6), ("b", 8, 5), ("c", 7, 4)) == "a c b"
    assert names(2, 10, ("a", 9, 11), ("b", 8, 1)) == "a b"
    assert names(3, 10, ("a", 9, 1), ("b", 8, 11), ("c", 1, 1)) == "a c b"


def test_ninja_reads_the_ordered_file_and_whatever_names_no_file_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "peaks.json").write_text(json.dumps({"units": costs(m_a=3)}), encoding="utf-8")
    (tmp_path / "pool.json").write_text(json.dumps(POOL), encoding="utf-8")
    top = tmp_path / "top.ninja"
    top.write_text(f"subninja {module(tmp_path, 'm')}\n", encoding="utf-8")
    started = list[list[str]]()
    monkeypatch.setattr(os, "execv", lambda _, argv: started.append(argv))
    for argv in (["-v"], ["-v", "-f"], ["-j", "2", "-f", str(top), "-v"]):
        monkeypatch.setattr(sys, "argv", ["unit_order.py", str(tmp_path), "/usr/bin/ninja", *argv])
        unit_order.main()
    assert started[:2] == [["/usr/bin/ninja", "-v"], ["/usr/bin/ninja", "-v", "-f"]]
    *before, ordered, after = started[2]
    assert (before, after) == (["/usr/bin/ninja", "-j", "2", "-f"], "-v")
    assert ordered != str(top)
    assert "subninja" in Path(ordered).read_text(encoding="utf-8")
