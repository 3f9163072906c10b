"""A diff given by hand, file by file: whose each is, where its source keeps it, and what nothing reads."""

from pathlib import Path

import pytest

from gb10.errors import PatchError, UsageError
from gb10.image.patches.diff import parse_diff
from gb10.image.patches.owners import _plain, below, divide, sections
from gb10.image.patches.releases import load_releases
from gb10.image.plan.catalog import ROOT

RELEASES = load_releases(ROOT / "patches")
BUILDER = "include/cutlass/gemm/collective/builders/sm120_blockscaled_mma_builder.inl"
KERNELS = "flashinfer/jit/gemm/cutlass/generate_kernels.py"
MLA = "vllm/v1/attention/backends/mla/triton_mla.py"
SITE = "usr/local/lib/python3.12/dist-packages"
HUNK = "@@ -1 +1 @@\n-a\n+b\n"


def diff(*paths: str) -> bytes:
    return "".join(f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{HUNK}" for path in paths).encode()


def owners(text: bytes, named: str | None = None) -> dict[str, list[str]]:
    """The paths by source; each part must be a diff that says the same."""
    found = divide(text, "pr.diff", RELEASES, named).parts
    for part in found:
        assert parse_diff(part.text, "part") == part.diffs
    return {part.source: [one.path for one in part.diffs] for part in found}


@pytest.mark.parametrize(
    ("path", "source", "own"),
    [
        (MLA, "vllm", MLA),
        (f"{SITE}/{MLA}", "vllm", MLA),
        (f"opt/venv/lib/python3.13/site-packages/{MLA}", "vllm", MLA),
        (f"workspace/vllm/{MLA}", "vllm", MLA),
        ("python/sglang/srt/a.py", "sglang", "python/sglang/srt/a.py"),
        ("sgl-workspace/sglang/python/sglang/srt/a.py", "sglang", "sglang/srt/a.py"),
        (f"{SITE}/sglang/srt/a.py", "sglang", "sglang/srt/a.py"),
        (KERNELS, "flashinfer", KERNELS),
        (f"{SITE}/{KERNELS}", "flashinfer", KERNELS),
        (f"{SITE}/flashinfer/data/csrc/a.cu", "flashinfer", "csrc/a.cu"),
        ("include/flashinfer/a.cuh", "flashinfer", "include/flashinfer/a.cuh"),
        (BUILDER, "cutlass", BUILDER),
        (f"3rdparty/cutlass/{BUILDER}", "cutlass", BUILDER),
        (f"{SITE}/flashinfer/data/cutlass/{BUILDER}", "cutlass", BUILDER),
        (f".deps/cutlass-src/{BUILDER}", "cutlass", BUILDER),
        ("include/cute/a.hpp", "cutlass", "include/cute/a.hpp"),
        (f"{SITE}/nvidia_cutlass_dsl/a.py", "cutlass-dsl", "nvidia_cutlass_dsl/a.py"),
    ],
)
def test_a_path_shows_whose_file_it_is(path: str, source: str, own: str) -> None:
    assert owners(diff(path)) == {source: [own]}
    assert owners(diff(path), source) == {source: [own]}


@pytest.mark.parametrize(
    "names",
    [
        (f"a/{SITE}/{MLA}", f"b/{SITE}/{MLA}"),
        (f"/{SITE}/{MLA}", f"/{SITE}/{MLA}"),
        (f"/{SITE}/{MLA}.orig\t2026-11-01 10:00:00", f"/{SITE}/{MLA}\t2026-11-02 10:00:00"),
        (f"/tmp/before/{MLA}", f"/{SITE}/{MLA}"),  # noqa: S108 - a name in a diff
        (f"{SITE}/{MLA}", f"{SITE}/{MLA}"),
        (MLA, MLA),
        (f"a/{MLA}.bak", f"b/{MLA}"),
    ],
)
def test_names_as_tools_write_them(names: tuple[str, str]) -> None:
    text = f"--- {names[0]}\n+++ {names[1]}\n{HUNK}".encode()
    assert owners(text) == {"vllm": [MLA]}


def test_no_prefix_in_the_line_of_git_too() -> None:
    assert owners(f"diff --git {MLA} {MLA}\nindex 1..2 100644\n--- {MLA}\n+++ {MLA}\n{HUNK}".encode()) == {
        "vllm": [MLA]
    }


def test_new_and_deleted_files_below_installed_packages() -> None:
    added = f"--- /dev/null\n+++ b/{SITE}/vllm/new.py\n@@ -0,0 +1 @@\n+x = 1\n"
    gone = f"--- /{SITE}/vllm/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n"
    (part,) = divide((added + gone).encode(), "pr.diff", RELEASES).parts
    assert [(one.path, one.kind) for one in part.diffs] == [("vllm/new.py", "add"), ("vllm/old.py", "delete")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("o/vllm/a.py\t1970-01-01 00:00:00.000000000 +0000", "n/vllm/a.py\t2026-11-02 10:00:00.1 +0000"),
        ("o/vllm/a.py\t1969-12-31 16:00:00 -0800", "n/vllm/a.py\t2026-11-02 10:00:00 -0800"),
        ("vllm/a.py\t(nonexistent)", "vllm/a.py\t(working copy)"),
        ("vllm/a.py\t(revision 0)", "vllm/a.py\t(working copy)"),
    ],
)
def test_a_file_that_is_not_there_by_its_date_or_revision(old: str, new: str) -> None:
    made = f"--- {old}\n+++ {new}\n@@ -0,0 +1,2 @@\n+x = 1\n+y = 1\n".encode()
    gone = f"--- {new}\n+++ {old}\n@@ -1 +0,0 @@\n-x = 1\n".encode()
    filled = made.replace(old.encode(), new.encode())  # an empty file that is there
    found = [divide(text, "pr.diff", RELEASES).parts[0].diffs[0] for text in (made, gone, filled)]
    assert [(one.path, one.kind) for one in found] == [("vllm/a.py", kind) for kind in ("add", "delete", "change")]


def test_a_context_diff_is_named() -> None:
    text = b"*** a/vllm/a.py\n--- b/vllm/a.py\n***************\n*** 1,2 ****\n! x\n--- 1,2 ----\n! y\n"
    with pytest.raises(PatchError, match="is a context diff"):
        divide(text, "pr.diff", RELEASES)


@pytest.mark.parametrize("start", ["", "3rdparty/cutlass/", f"{SITE}/flashinfer/data/cutlass/"])
@pytest.mark.parametrize("named", [None, "cutlass", "flashinfer"])
def test_one_diff_over_the_builder_and_the_list_of_kernels(start: str, named: str | None) -> None:
    assert owners(diff(start + BUILDER, KERNELS), named) == {"cutlass": [BUILDER], "flashinfer": [KERNELS]}


def test_files_that_show_nothing_belong_to_the_source_of_the_others() -> None:
    assert owners(diff(MLA, "csrc/a.cu", "CMakeLists.txt", "tests/a.py"))["vllm"] == [
        MLA, "csrc/a.cu", "CMakeLists.txt", "tests/a.py",
    ]  # fmt: skip
    assert owners(diff(BUILDER, KERNELS, "csrc/a.cu"))["flashinfer"] == [KERNELS, "csrc/a.cu"]
    assert owners(diff("csrc/a.cu"), "flashinfer") == {"flashinfer": ["csrc/a.cu"]}


def test_what_nothing_reads_is_left_out_and_named() -> None:
    found = divide(diff(MLA, "setup.py", "requirements/cuda.txt", "docker/Dockerfile", ".github/a.yml"), "p", RELEASES)
    assert [one.path for one in found.parts[0].diffs] == [MLA, ".github/a.yml"]
    assert found.unread == ("setup.py", "requirements/cuda.txt", "docker/Dockerfile")
    cutlass = divide(diff(BUILDER, "test/unit/a.cu", "CHANGELOG.md", "tools/library/a.cpp"), "p", RELEASES)
    assert [one.path for one in cutlass.parts[0].diffs] == [BUILDER]
    with pytest.raises(UsageError, match="changes nothing that an image of gb10 has"):
        divide(diff("setup.py", "requirements/cuda.txt"), "pr.diff", RELEASES, "vllm")


def test_the_build_of_a_package_reads_all_of_its_files() -> None:
    releases = RELEASES.with_own({"mamba-ssm": "mamba-ssm"})
    found = divide(diff("setup.py", "csrc/a.cu", "tools/make.py"), "p", releases, "mamba-ssm")
    assert [one.path for one in found.parts[0].diffs] == ["setup.py", "csrc/a.cu", "tools/make.py"]
    assert found.unread == ()


@pytest.mark.parametrize("path", ["v1/attention/backends/mla/triton_mla.py", "vlm/a.py", "src/engine/a.py"])
def test_a_python_file_at_no_path_of_the_source_is_not_called_compiled(path: str) -> None:
    with pytest.raises(UsageError, match=f"{path}, which is no path of vllm") as caught:
        divide(diff(path), "pr.diff", RELEASES, "vllm")
    assert "vllm/…" in (caught.value.where or "")


def test_hints_name_every_source() -> None:
    with pytest.raises(PatchError, match="changes no package that we know") as caught:
        divide(diff("a/b.py"), "pr.diff", RELEASES)
    assert "(SOURCE: cutlass, cutlass-dsl, flashinfer, sglang, vllm)" in (caught.value.hint or "")


def test_a_name_that_the_paths_contradict_is_refused() -> None:
    with pytest.raises(UsageError, match=r"it changes vllm, not cutlass") as caught:
        divide(diff(MLA), "pr.diff", RELEASES, "cutlass")
    assert caught.value.hint == "leave the name out: --patch pr.diff"
    with pytest.raises(UsageError, match="it changes cutlass, not vllm"):
        divide(diff(BUILDER), "pr.diff", RELEASES, "vllm")


def test_two_names_of_one_file_are_refused() -> None:
    with pytest.raises(PatchError, match=f"two files of the diff are {BUILDER} of cutlass"):
        divide(diff(BUILDER, f"3rdparty/cutlass/{BUILDER}"), "pr.diff", RELEASES)


def test_hunks_stay_byte_for_byte() -> None:
    """A line without its end, a mail around it, a form feed, bytes that are no text, an empty file."""
    hunks = b"@@ -1,2 +1,2 @@ def f\x0c(\n-a\xff\n+b\xfe\n c\r\n\\ No newline at end of file\n"
    text = (
        b"From: me\n\nSubject: [PATCH] x\n---\n vllm/a.py | 2 +-\n\ndiff --git a/vllm/a.py b/vllm/a.py\n"
        b"index 1..2 100644\n--- a/vllm/a.py\n+++ b/vllm/a.py\n" + hunks + b"diff --git a/vllm/e.py b/vllm/e.py\n"
        b"new file mode 100644\nindex 0000000..e69de29\n-- \n2.43.0\n"
    )
    found = sections(text, "pr.diff")
    assert found["vllm/a.py"].hunks == hunks
    moved = found["vllm/a.py"].at("x/a.py") + found["vllm/e.py"].at("x/e.py")
    before, after = parse_diff(text, "pr.diff"), parse_diff(moved, "moved")
    assert [(one.kind, one.hunks) for one in before] == [(one.kind, one.hunks) for one in after]
    assert [one.path for one in after] == ["x/a.py", "x/e.py"]


def test_the_project_that_bundles_a_source_gets_the_same_change_in_its_folder(tmp_path: Path) -> None:
    (part,) = divide(diff(BUILDER), "pr.diff", RELEASES).parts
    around = below(part, "3rdparty/cutlass", "flashinfer")
    assert [one.path for one in around.diffs] == [f"3rdparty/cutlass/{BUILDER}"]
    assert parse_diff(around.text, "part") == around.diffs


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("vllm/a.py", "vllm/a.py", "vllm/a.py"),  # git diff --no-prefix
        ("/dev/null", "vllm/a.py", "vllm/a.py"),
        ("vllm/a.py", "/dev/null", "vllm/a.py"),
        ("vllm/vllm/a.py", "vllm/vllm/a.py", None),  # may be a prefix
        ("vllm", "vllm", None),
        ("other/a.py", "other/a.py", None),
        ("a/vllm/a.py", "b/vllm/a.py", None),
        ("a/vllm/a.py.orig", "b/vllm/a.py", "vllm/a.py"),
        ("a/vllm/a.py~", "b/vllm/a.py", "vllm/a.py"),
        ("a/vllm/a.py.orig", "b/vllm/b.py", None),
        ("/dev/null", "/dev/null", None),
        (f"/{SITE}/vllm/a.py", f"/{SITE}/vllm/a.py", "vllm/a.py"),
        (f"{SITE}/vllm/a.py.bak", "x/vllm/a.py", "vllm/a.py"),
        ("/dev/null", f"b/{SITE}/vllm/a.py", "vllm/a.py"),
        ("vllm.orig/a.py", "vllm/a.py", "vllm/a.py"),
        ("vllm/a.py", "vllm-new/a.py", "vllm/a.py"),
        ("vllm/a.py.orig", "vllm/a.py", "vllm/a.py"),
        ("vllm-0.33.0/vllm/v1/a.py", "w/mine/vllm/v1/a.py", "vllm/v1/a.py"),
        ("../new/vllm/a.py", "vllm/a.py", "vllm/a.py"),
        ("old/a.py", "new/here/a.py", None),
    ],
)
def test_the_one_path_that_a_pair_of_names_means(old: str, new: str, path: str | None) -> None:
    assert _plain(old, new, {"vllm", "flashinfer"}) == path


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (diff(MLA), True),
        (diff(MLA, "vllm/b.py"), True),
        (diff(MLA, KERNELS), False),
        (diff(f"{SITE}/{MLA}"), False),
        (diff(MLA, "tests/test_a.py"), True),
        (diff(MLA, "docker/Dockerfile"), False),
        (f"--- a/{MLA}.bak\n+++ b/{MLA}\n{HUNK}".encode(), False),
    ],
)
def test_a_diff_is_whole_when_its_one_part_is_what_was_given(text: bytes, whole: bool) -> None:
    assert divide(text, "pr.diff", RELEASES).whole is whole
