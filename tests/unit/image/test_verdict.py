"""Verdicts, claims and the report, on scans of real files and on hand-written holdings."""

import json
import zipfile
from pathlib import Path

import pytest
from rich.console import Console

from gb10.cli.values import fits
from gb10.errors import UsageError, VerifyError
from gb10.image.proof.arch_match import judge, judge_binary
from gb10.image.proof.check import Subject
from gb10.image.proof.checking import findings, prove
from gb10.image.proof.reading import read_scan, scan_path
from gb10.image.proof.report import document, read_verdict, render_rows, render_summary, render_table
from gb10.image.proof.scans import merge_layers
from gb10.image.proof.wheel_files import Manifest
from gb10.image.recipe.arch import Arch
from gb10.inside.scan.binary import Binary, Unit
from gb10.inside.scan.code_fit import Fit, code_fit
from gb10.inside.scan.scan import Scan

MADE = Path(__file__).parents[1] / "data" / "scan"
GB10 = Arch("12.1", "f")


def binary(path: str, *units: tuple[int, dict[str, int]], error: str = "") -> Binary:
    """A library with so many units of such holdings."""
    holdings = tuple(Unit(codes=codes, count=count) for count, codes in units)
    return Binary(path=path, kind="damaged" if error else "elf", size=1, units=holdings, error=error)


def scan_of(*binaries: Binary) -> Scan:
    """A scan of those."""
    return Scan(root="image", binaries=binaries)


@pytest.mark.parametrize(
    ("code", "on_121", "on_120"),
    [
        ("sm_121", Fit.NATIVE, Fit.NOTHING),
        ("sm_121a", Fit.NATIVE, Fit.NOTHING),
        ("sm_121f", Fit.NATIVE, Fit.NOTHING),
        ("sm_120", Fit.COMPATIBLE, Fit.NATIVE),
        ("sm_120a", Fit.NOTHING, Fit.NATIVE),
        ("sm_120f", Fit.FAMILY, Fit.NATIVE),
        ("sm_110f", Fit.NOTHING, Fit.NOTHING),
        ("sm_100", Fit.NOTHING, Fit.NOTHING),
        ("sm_90a", Fit.NOTHING, Fit.NOTHING),
        ("compute_80", Fit.PTX, Fit.PTX),
        ("compute_120f", Fit.PTX, Fit.PTX),
        ("compute_120a", Fit.NOTHING, Fit.PTX),
        ("compute_121a", Fit.PTX, Fit.NOTHING),
        ("compute_121", Fit.PTX, Fit.NOTHING),
        ("compute_90a", Fit.NOTHING, Fit.NOTHING),
        ("compute_100f", Fit.NOTHING, Fit.NOTHING),
        ("lto_121", Fit.NOTHING, Fit.NOTHING),
        ("kind64_121", Fit.NOTHING, Fit.NOTHING),
    ],
)
def test_what_a_gpu_loads(code: str, on_121: Fit, on_120: Fit) -> None:
    assert (code_fit(code, "12.1"), code_fit(code, "12.0")) == (on_121, on_120)


def test_units_are_judged_one_by_one() -> None:
    loaded = (50, {"sm_90": 1, "sm_120": 1}), (35, {"sm_120f": 1})
    judged = judge_binary(binary("_C.so", *loaded, (6, {"compute_80": 1}), (20, {"sm_90a": 1})), "12.1")
    assert judged.fit is Fit.FAMILY
    assert list(judged.units.values()) == [0, 35, 50, 6, 20]


def test_counts_name_every_fit() -> None:
    verdict = judge(scan_of(binary("a"), binary("b", error="cut"), binary("c", (1, {"sm_121": 1}))), GB10)
    assert {fit: count for fit, count in verdict.counts.items() if count} == {
        Fit.NATIVE: 1,
        Fit.NONE: 1,
        Fit.DAMAGED: 1,
    }
    assert len(verdict.counts) == len(Fit)


def test_a_later_layer_hides_an_earlier_one() -> None:
    low, high = binary("k.so", (1, {"sm_80": 1})), binary("k.so", (1, {"sm_121f": 1}))
    assert merge_layers("image", [scan_of(low, binary("a.so")), scan_of(high)]).binaries == (binary("a.so"), high)


def test_wheels_in_a_directory_are_looked_into(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "k.whl", "w") as archive:
        archive.write(MADE / "libk.so", "k/libk.so")
    assert [found.path for found in scan_path(tmp_path).binaries] == ["k.whl/k/libk.so"]


def test_a_damaged_wheel_is_an_error(tmp_path: Path) -> None:
    wheel = tmp_path / "k.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        archive.write(MADE / "libk.so", "libk.so")
    content = bytearray(wheel.read_bytes())
    content[2000] ^= 1
    wheel.write_bytes(content)
    with pytest.raises(VerifyError, match="is damaged"):
        scan_path(wheel)


@pytest.mark.parametrize("name", ["absent.so", "text.py"])
def test_what_cannot_be_verified_is_a_usage_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "text.py").write_text("print()")
    with pytest.raises(UsageError):
        scan_path(tmp_path / name)


@pytest.mark.parametrize("text", ["", "{", '{"schema": "other"}'])
def test_a_scan_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(VerifyError):
        read_scan(text, "layer 3")


def test_the_report() -> None:
    verdict = judge(scan_path(MADE), GB10)
    console = Console(width=140, no_color=True)
    with console.capture() as captured:
        console.print(render_table(verdict))
    assert all(words in captured.get() for words in ("libk.so", "sm_121f x2", "native", "cannot be launched"))
    declared = Manifest(file="manifest.json", arch="sm_121a", modules={"libk.so": ["sm_121a"]})
    report = document(verdict, findings(Subject(scan=scan_path(MADE), manifests=[declared])))
    assert (report["schema"], report["arch"], report["counts"]["damaged"]) == ("gb10/verify/v1", "12.1f", 0)
    [library] = [item for item in json.loads(json.dumps(report))["binaries"] if item["path"] == "libk.so"]
    assert (library["fit"], library["codes"], library["units"]["native"]) == ("native", {"sm_121f": 2}, 2)
    assert report["problems"] == [
        {"check": "declared", "file": "libk.so", "expected": "sm_121a", "found": "sm_121f x2"}
    ]


def test_the_summary_names_what_cannot_be_launched() -> None:
    foreign = [binary(f"lib/k{number}.so", (1, {"sm_90a": 1})) for number in range(14)]
    text = str(render_summary(judge(scan_of(*foreign, binary("cut.so", error="cut")), GB10)))
    assert "k0.so, k1.so" in text
    assert text.splitlines()[0].endswith("and 2 more")
    assert text.splitlines()[1].endswith("unreadable: cut.so")


def test_no_name_of_a_file_reaches_the_terminal_as_it_is() -> None:
    odd = binary("\x1b]0;evil\x07\x9b2J\n\udc80.so", error="\x1b[2J")
    console = Console(width=200, force_terminal=True, no_color=True)
    with console.capture() as captured:
        console.print(render_table(judge(Scan(root="\x1b[1m", binaries=(odd,)), GB10)))
    shown = captured.get()
    assert "\\x1b]0;evil\\x07\\x9b2J\\n\\udc80.so" in shown
    assert not any(control in shown for control in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\udc80"))
    with pytest.raises(VerifyError) as caught:
        prove(Subject(scan=Scan(root="r", binaries=(odd,))))
    assert all(one.isprintable() for line in str(caught.value).splitlines() for one in line)


def test_piped_rows_are_whole_paths_and_may_be_filtered() -> None:
    verdict = judge(scan_of(binary("a/b/libk.so", (2, {"sm_121f": 1})), binary("old.so", (1, {"sm_90a": 1}))), GB10)
    assert render_rows(verdict) == ["native      a/b/libk.so  sm_121f x2", "nothing     old.so  sm_90a x1"]
    assert render_rows(verdict, {Fit.NOTHING}) == ["nothing     old.so  sm_90a x1"]
    assert [entry["path"] for entry in document(verdict, (), {Fit.NOTHING})["binaries"]] == ["old.so"]


def test_the_shell_completes_every_fit() -> None:
    assert fits() == [str(fit) for fit in Fit]


def test_a_verdict_is_read_back_from_its_document() -> None:
    found = judge(scan_of(binary("a.so", (2, {"sm_121": 3}), (1, {"sm_80": 1})), binary("b.so")), GB10)
    made = json.loads(json.dumps(document(found)))
    again = read_verdict(made)
    assert again is not None
    assert (again.arch, again.root, again.counts) == (found.arch, found.root, found.counts)
    assert [one.units for one in again.judged] == [one.units for one in found.judged]
    assert [one.binary.codes for one in again.judged] == [one.binary.codes for one in found.judged]
    assert [len(one.binary.units) for one in again.judged] == [1, 0]
    left = {**made["binaries"][0], "units": {}}
    short = read_verdict({**made, "binaries": [left]})
    assert short is not None
    assert set(short.judged[0].units.values()) == {0}


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "gb10/other/v1"},
        {"binaries": None},
        {"arch": "x"},
        {"binaries": [{"codes": {"sm_121": 0}}]},
        {"binaries": [{"codes": {"sm_121": 1 << 40}}]},
        {"binaries": [{"codes": {"sm_x": 1}}]},
        {"binaries": [{"codes": {}, "path": "a", "kind": "elf", "size": 1, "units": {}, "fit": "odd"}]},
    ],
)
def test_another_document_is_no_verdict(change: dict[str, object]) -> None:
    made = document(judge(scan_of(binary("a.so", (1, {"sm_121": 1}))), GB10))
    assert read_verdict(json.loads(json.dumps(made))) is not None
    assert read_verdict({**json.loads(json.dumps(made)), **change}) is None
    assert read_verdict([made]) is None


@pytest.mark.parametrize("count", [1, (1 << 40) - 1])
def test_counts_of_a_document_are_bounded(count: int) -> None:
    made = json.loads(json.dumps(document(judge(scan_of(binary("a.so", (1, {"sm_121": 1}))), GB10))))
    made["binaries"][0]["codes"] = {"sm_121": count}
    assert read_verdict(made) is not None
