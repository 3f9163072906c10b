"""Where a submodule lies, as its parent says, and which of that is taken."""

import pytest

from gb10.core.files import Checkout
from gb10.errors import FetchError
from gb10.sources.git.archive import LINK, Entry, Tree, submodule_url


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
    assert submodule_url(base, said) == found


def url_of(parent: str, said: str) -> str:
    """Where the one submodule of a project lies."""
    entries = {"lib": Entry(mode=LINK, object="1a" * 20), ".gitmodules": Entry(mode="100644", object="2b" * 20)}
    modules = f"submodule.lib.path\nlib\0submodule.lib.url\n{said}\0"
    return Tree(Checkout(parent, "v1.0"), entries, lambda _: modules).url("lib")


@pytest.mark.parametrize(
    ("parent", "said", "found"),
    [
        ("https://h.invalid/a", "../b", "https://h.invalid/b"),
        ("https://h.invalid/a", "ssh://git@o.invalid/b", "ssh://git@o.invalid/b"),
        ("file:///hub/a", "../b", "file:///hub/b"),
        ("file:///hub/a", "file:///other/b", "file:///other/b"),
        ("file:///hub/a", "https://h.invalid/b", "https://h.invalid/b"),
    ],
)
def test_what_a_parent_may_name_is_taken(parent: str, said: str, found: str) -> None:
    assert url_of(parent, said) == found


@pytest.mark.parametrize("parent", ["https://u:p@h.invalid/a", "ssh://h.invalid/a"])
@pytest.mark.parametrize("said", ["file:///home/user/secret", "FILE:///home/user/secret"])
def test_a_parent_from_elsewhere_names_no_place_on_this_machine(parent: str, said: str) -> None:
    with pytest.raises(FetchError) as caught:
        url_of(parent, said)
    assert str(caught.value).splitlines() == [
        f"error: the submodule lib names a place on this machine: {said}",
        f"  in .gitmodules of {parent.replace('u:p@', '')}",
        "hint: only a file:// parent may: leave lib out of submodules in the recipe, or name a clone of the parent "
        "there, by its file:// URL",
    ]


def test_nor_does_a_submodule_that_a_parent_on_this_machine_takes_from_elsewhere() -> None:
    entries = {
        "lib": Entry(mode=LINK, object="1a" * 20),
        ".gitmodules": Entry(mode="100644", object="top"),
        "lib/.gitmodules": Entry(mode="100644", object="lib"),
        "lib/deep": Entry(mode=LINK, object="3c" * 20),
    }
    said = {
        "top": "submodule.l.path\nlib\0submodule.l.url\nhttps://h.invalid/lib\0",
        "lib": "submodule.d.path\ndeep\0submodule.d.url\nfile:///home/user/secret\0",
    }
    tree = Tree(Checkout("file:///hub/a", "v1.0", submodules=("lib", "lib/deep")), entries, said.__getitem__)
    with pytest.raises(FetchError, match="the submodule lib/deep names a place on this machine"):
        tree.url("lib/deep")
    with pytest.raises(FetchError, match=r"lab is no submodule at the tag v1\.0\n.*\n  submodules: lib, lib/deep\n"):
        tree.commit("lab")
    assert tree.commit("lib") == "1a" * 20


@pytest.mark.parametrize("parent", ["https://h.invalid/a", "file:///hub/a"])
def test_other_schemes_are_refused_with_those_that_are_read(parent: str) -> None:
    known = "https://, ssh://" + (", file://" if parent.startswith("file:") else "")
    with pytest.raises(
        FetchError, match=f"has no URL that gb10 reads: ext::sh -c true\n  {parent}\n.* one of {known}$"
    ):
        url_of(parent, "ext::sh -c true")


@pytest.mark.parametrize(
    "url", ["https://[", "https://h.invalid/\x1b[31m", "./" * 200_000, "https://h.invalid/" + "a" * 3000]
)
def test_a_hostile_url_is_refused(url: str) -> None:
    with pytest.raises(FetchError, match="no URL that gb10 reads"):
        url_of("https://h.invalid/a", url)
