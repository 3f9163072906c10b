"""The checks: each module of checks/ offers one that says what it does, and has a test of its own."""

import importlib
import pkgutil
from pathlib import Path

import pytest

from gb10.errors import VerifyError
from gb10.image.proof import checks
from gb10.image.proof.check import Subject
from gb10.image.proof.checking import all_checks, prove
from gb10.image.proof.wheel_files import Manifest
from gb10.inside.scan.binary import Binary
from gb10.inside.scan.scan import Scan

HERE = Path(__file__).parent


def test_every_module_is_a_check_with_its_own_name_and_test() -> None:
    files = {path.stem for path in Path(checks.__path__[0]).glob("*.py")} - {"__init__"}
    assert {check.name for check in all_checks()} == files
    assert {path.stem.removeprefix("test_check_") for path in HERE.glob("test_check_*.py")} == files


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(checks.__path__)])
def test_a_check_says_what_it_reads_and_when_it_fails(name: str) -> None:
    check = importlib.import_module(f"gb10.image.proof.checks.{name}").CHECK
    assert all(len(text.split()) > 3 and text[-1] != "." for text in (check.reads, check.fails, check.hint))
    assert check.judge(Subject(scan=Scan(root="empty", binaries=()))) == []


def test_the_error_names_file_expected_found_and_each_hint_once() -> None:
    library = Binary(path="lib/k.so", kind="damaged", size=1, error="cut")
    manifest = Manifest(file="manifest.json", arch="sm_121f", modules={"a.so": ["sm_121f"], "b.so": ["sm_120f"]})
    with pytest.raises(VerifyError) as caught:
        prove(Subject(scan=Scan(root="image", binaries=(library,)), manifests=[manifest]))
    assert str(caught.value) == (
        "error: verify found 3 problems\n"
        "  lib/k.so\n    expected a whole file\n    found    damaged: cut\n"
        "  a.so\n    expected sm_121f\n    found    no such file\n"
        "  b.so\n    expected sm_120f\n    found    no such file\n"
        "hint: download or build the file again; if it stays damaged, the file's author must mend it\n"
        "hint: build it again: ./build.py wheels --rebuild NAME; if the declaration is wrong, correct that"
    )
    prove(Subject(scan=Scan(root="image", binaries=())))
