"""Diffs on an image of others: where each file lies there, and what is refused."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from gb10.core.store import file_sha256
from gb10.errors import PatchError, UsageError
from gb10.image.context import open_context
from gb10.image.patches.on_base import OnBase, apply_on, place_diff
from gb10.image.patches.releases import load_releases
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.options import PatchUse
from gb10.image.request.from_image import given_diffs, on_base
from tests.unit.made_up_base import SITE, base

RELEASES = load_releases(ROOT / "patches")
CHECKOUT = "/sgl-workspace/sglang/python"
VLLM = on_base(base())
SGLANG = OnBase(
    reference="lmsysorg/sglang@sha256:1",
    engine="sglang",
    version="0.5.10",
    folders={"sglang": CHECKOUT, "transformers": SITE},
    site_packages=(SITE,),
    editable=frozenset({"sglang"}),
)
OLD = b"one\ntwo\nthree\n"


def diff(path: str, old: str = "two", new: str = "2") -> bytes:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,3 @@\n one\n-{old}\n+{new}\n three\n".encode()


def applied(on: OnBase, there: dict[str, bytes], *texts: bytes) -> dict[str, bytes]:
    asked: list[str] = []

    def read(paths: Sequence[str]) -> dict[str, bytes]:
        asked.extend(paths)
        return {path: there[path] for path in paths if path in there}

    return apply_on([place_diff(text, "fix.diff", on, RELEASES) for text in texts], on, read)


@pytest.mark.parametrize(
    ("on", "path", "lies"),
    [
        (VLLM, "vllm/a.py", f"{SITE}/vllm/a.py"),
        (VLLM, f"{SITE[1:]}/vllm/a.py", f"{SITE}/vllm/a.py"),
        (VLLM, "usr/lib/python3.10/site-packages/vllm/a.py", f"{SITE}/vllm/a.py"),
        (VLLM, f"{SITE[1:]}/unheard/of.py", f"{SITE}/unheard/of.py"),
        (VLLM, "flashinfer/a.py", f"{SITE}/flashinfer/a.py"),
        (VLLM, "src/transformers/a.py", f"{SITE}/transformers/a.py"),
        (VLLM, "somebodys/checkout/vllm/a.py", f"{SITE}/vllm/a.py"),
        (SGLANG, "python/sglang/srt/a.py", f"{CHECKOUT}/sglang/srt/a.py"),
        (SGLANG, "sgl-workspace/sglang/python/sglang/srt/a.py", f"{CHECKOUT}/sglang/srt/a.py"),
        (SGLANG, "transformers/a.py", f"{SITE}/transformers/a.py"),
        (SGLANG, "sgl-kernel/python/sgl_kernel/a.py", f"{SITE}/sgl_kernel/a.py"),
        (VLLM, "deep_gemm/include/a.cuh", f"{SITE}/deep_gemm/include/a.cuh"),
        (VLLM, f"{SITE[1:]}/csrc/a.cu", f"{SITE}/csrc/a.cu"),
    ],
)
def test_a_file_is_found_by_each_of_its_names(on: OnBase, path: str, lies: str) -> None:
    assert applied(on, {lies: OLD}, diff(path)) == {lies: b"one\n2\nthree\n"}


def test_a_package_of_another_folder_of_the_path_is_found() -> None:
    lies = "/usr/lib/python3/dist-packages/yaml/a.py"
    assert list(applied(VLLM, {lies: OLD}, diff("yaml/a.py"))) == [lies]


def test_a_diff_that_changed_after_it_was_planned_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.diff"
    path.write_bytes(diff("vllm/a.py"))
    use = PatchUse(source="", project="vllm", name=path.name, sha256=file_sha256(path), path=str(path))
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path / "store"), "HOME": str(tmp_path)}, verbosity=-1)
    (one,) = given_diffs(ctx, base(), (use,))
    assert [file.diff.path for file in one.files] == ["vllm/a.py"]
    path.write_bytes(diff("vllm/b.py"))
    with pytest.raises(UsageError, match=r"mine\.diff changed while it was used"):
        given_diffs(ctx, base(), (use,))


def test_diffs_follow_each_other() -> None:
    lies = f"{SITE}/vllm/a.py"
    assert applied(VLLM, {lies: OLD}, diff("vllm/a.py"), diff("vllm/a.py", "2", "II")) == {lies: b"one\nII\nthree\n"}


def test_a_new_file_lies_beside_its_package() -> None:
    text = diff("vllm/a.py") + b"--- /dev/null\n+++ b/vllm/b.py\n@@ -0,0 +1 @@\n+new\n"
    assert applied(VLLM, {f"{SITE}/vllm/a.py": OLD}, text)[f"{SITE}/vllm/b.py"] == b"new\n"


def test_a_place_that_only_the_message_of_a_diff_names_is_none() -> None:
    for text in (
        b"of site-packages/csrc/a.cu\n" + diff("csrc/a.cu"),
        diff(f"{SITE[1:]}/csrc/a.cuh") + diff("csrc/a.cu"),
    ):
        with pytest.raises(PatchError, match=r"fix\.diff changes csrc/a\.cu"):
            place_diff(text, "fix.diff", VLLM, RELEASES)


def new_file(path: str) -> bytes:
    return f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+new\n".encode()


@pytest.mark.parametrize(
    "path",
    ["csrc/a.cu", "csrc/moe/a.cuh", "a.cu", "cmake/a.cmake", "src/mine/a.cu", "sgl-kernel/csrc/a.cu", "my-app/a.py"],
)
def test_what_only_a_repository_has_is_no_new_file_of_an_image(path: str) -> None:
    """Beside files of installed packages, too; it was written into site-packages as a package `csrc`."""
    for text in (new_file(path), diff("vllm/a.py") + new_file(path)):
        with pytest.raises(PatchError, match=f"^error: fix.diff changes {path}, which is ") as raised:
            place_diff(text, "fix.diff", VLLM, RELEASES)
        assert "its whole path in the image" in (raised.value.hint or "")


def test_what_nothing_installed_reads_is_left_out_by_name() -> None:
    names = ("setup.py", "requirements/cuda.txt", "pyproject.toml", "tests/a.cu")
    one = place_diff(diff("vllm/a.py") + b"".join(map(new_file, names)), "fix.diff", VLLM, RELEASES)
    assert ([file.diff.path for file in one.files], one.unread) == (["vllm/a.py"], names)


def test_new_code_of_an_installed_package_is_told_and_missing_code_says_that_it_is_compiled() -> None:
    one = place_diff(new_file("transformers/a.cuh") + new_file("transformers/a.py"), "fix.diff", SGLANG, RELEASES)
    assert one.uncompiled == ("transformers/a.cuh",)
    with pytest.raises(PatchError) as raised:
        applied(SGLANG, {}, diff("transformers/a.cu"))
    assert "where it is compiled" in (raised.value.hint or "")


def test_tests_of_a_pull_request_are_left_out() -> None:
    one = place_diff(diff("vllm/a.py") + diff("tests/test_a.py"), "pr.diff", VLLM, RELEASES)
    assert ([file.diff.path for file in one.files], one.unread) == (["vllm/a.py"], ("tests/test_a.py",))


@pytest.mark.parametrize(
    ("there", "text", "message"),
    [
        ({f"{SITE}/vllm/a.py": b"one\n3\nthree\n"}, diff("vllm/a.py"), "fix.diff does not apply to registry.example"),
        ({}, diff("vllm/a.py"), "fix.diff changes vllm/a.py, which registry.example/"),
        ({}, diff("csrc/a.cu"), "fix.diff changes csrc/a.cu, which is compiled"),
        ({}, diff("tests/test_a.py"), "fix.diff changes nothing that registry.example"),
        (
            {f"{SITE}/vllm/a.py": b"one\n"},
            b"diff --git a/vllm/a.py b/vllm/a.py\ndeleted file mode 100644\n"
            b"--- a/vllm/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n",
            f"fix.diff deletes {SITE}/vllm/a.py",
        ),
        ({}, b"no diff", "fix.diff changes nothing"),
        ({}, diff("../../etc/passwd"), "fix.diff"),
    ],
    ids=["other text", "no such file", "compiled", "tests alone", "deleted", "no diff", "out of the tree"],
)
def test_what_does_not_fit_is_refused(there: dict[str, bytes], text: bytes, message: str) -> None:
    named = place_named if b"csrc" in text else applied
    with pytest.raises(PatchError) as raised:
        named(VLLM, there, text)
    assert raised.value.message.startswith(message)


def place_named(on: OnBase, there: dict[str, bytes], text: bytes) -> None:
    place_diff(text, "fix.diff", on, RELEASES, "vllm")


def test_an_image_without_python_has_no_place() -> None:
    with pytest.raises(PatchError, match="has no place in"):
        applied(on_base(base(engine="", installed={}, site_packages=())), {}, diff("vllm/a.py"))
