"""The check ``rights``: modes that give rights or let everybody write."""

from pathlib import Path

import pytest

from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.proof.check import Subject
from gb10.image.proof.checks.rights import CHECK
from gb10.inside.scan.hazards import Hazard, of_mode
from gb10.inside.scan.scan import Scan, scan_tree
from tests.unit.made_up_images import found, image

FILE, FOLDER, LINK = 0o100000, 0o040000, 0o120000


@pytest.mark.parametrize(
    ("mode", "kinds"),
    [
        (FILE | 0o755, []),
        (FILE | 0o4755, ["setuid"]),
        (FILE | 0o2755, ["setgid"]),
        (FILE | 0o2644, []),  # without the right to run it, the bit means mandatory locking
        (FILE | 0o666, ["writable"]),
        (FOLDER | 0o777, ["writable"]),
        (FOLDER | 0o1777, []),
        (FOLDER | 0o2775, []),
        (LINK | 0o777, []),
    ],
)
def test_a_mode(mode: int, kinds: list[str]) -> None:
    assert [one.kind for one in of_mode("x", mode)] == kinds


def test_debians_own_programs_are_allowed_and_others_are_not() -> None:
    hazards = tuple(Hazard(path=path, kind="setuid") for path in ("usr/bin/su", "opt/tool"))
    subject = image(scan=Scan(root="i", hazards=hazards))
    allowed = Catalog(ROOT).allowances
    judged = CHECK.judge(Subject(scan=subject.scan, image=subject.image, allowed=allowed))
    assert found(judged) == [("tool", "setuid")]


def test_a_tree(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "tool").write_text("", encoding="ascii")
    (tmp_path / "tool").chmod(0o4755)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("tool")
    assert scan_tree(tmp_path).hazards == (
        Hazard(path="open", kind="writable"),
        Hazard(path="tool", kind="setuid"),
    )
