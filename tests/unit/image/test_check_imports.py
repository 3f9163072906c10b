"""The check ``imports``, and which Python of an image imports."""

import pytest

from gb10.image.build.inspect import interpreter, last_line
from gb10.image.proof.checks.imports import CHECK
from tests.unit.made_up_images import found, image


def test_what_went_wrong_is_told_and_what_went_well_is_not() -> None:
    imported = (("torch", ""), ("vllm", "import vllm ended with 1: ImportError: no _C"))
    assert found(CHECK.judge(image(imported=imported))) == [("vllm", "import vllm ended with 1: ImportError: no _C")]


@pytest.mark.parametrize(
    ("site", "python"),
    [
        ("usr/local/lib/python3.13/dist-packages", "/usr/bin/python3.13"),
        ("usr/local/lib/python3.12/site-packages", "/usr/local/bin/python3.12"),
        ("opt/venv/lib/python3.12/site-packages", "/opt/venv/bin/python3"),
        ("elsewhere", "/usr/bin/python3"),
    ],
)
def test_the_python_that_finds_the_packages(site: str, python: str) -> None:
    assert interpreter(site, {"usr/bin/python3.13", "usr/local/bin/python3.12"}) == python


def test_the_error_of_a_traceback() -> None:
    assert last_line("Traceback:\n  File x\nImportError: no\n\n") == "ImportError: no"
    assert last_line("") == "it printed nothing"
