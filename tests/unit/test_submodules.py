"""Where a submodule lies, as its parent says."""

import pytest

from gb10.submodules import joined


@pytest.mark.parametrize(
    ("base", "said", "found"),
    [
        ("https://h.invalid/org/a.git", "../b.git", "https://h.invalid/org/b.git"),
        ("https://u:p@h.invalid/org/a.git/", "../../o2/b", "https://u:p@h.invalid/o2/b"),
        ("ssh://git@h.invalid/a", "./b", "ssh://git@h.invalid/a/b"),
        ("file:///hub/a", "https://h.invalid/b", "https://h.invalid/b"),
        ("file:///hub/a", "", ""),
    ],
)
def test_a_relative_url_goes_from_the_parents_own(base: str, said: str, found: str) -> None:
    assert joined(base, said) == found
