"""The check ``root``: a note, never an error."""

import pytest

from gb10.image.proof.checking import findings, refuse
from gb10.image.proof.checks.root import CHECK
from tests.unit.made_up_images import image


@pytest.mark.parametrize(
    ("user", "noted"), [("", 1), ("0", 1), ("root", 1), ("0:0", 1), ("10001", 0), ("gb10:gb10", 0)]
)
def test_a_user(user: str, noted: int) -> None:
    subject = image(user=user)
    assert len(CHECK.judge(subject)) == noted
    assert [check.severity for check, _ in findings(subject)] == ["note"] * noted
    refuse(findings(subject))
