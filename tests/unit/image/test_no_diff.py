"""What is given instead of a diff is named as that, and which URLs are read."""

from dataclasses import replace
from pathlib import Path

import pytest

from gb10.errors import PatchError, UsageError
from gb10.image.context import open_context
from gb10.image.patches.diff import check_diff
from gb10.image.plan.dag import plan_image
from gb10.image.plan.options import PatchUse
from gb10.image.plan.plan_record import labels
from gb10.image.request.given_diffs import with_origins
from gb10.image.request.planning import Request, make_plan
from gb10.sources.web import check_url, name_of, public
from tests.unit.image.test_mods_plan import inputs, plan

PAGE = b"\n<!-- x -->\n<!DOCTYPE html>\n<html><body>Pull request #1\n--- a/x\n</body></html>"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "pr.diff is empty"),
        (b" \n\n", "pr.diff is empty"),
        (PAGE, "pr.diff is a web page, not a diff"),
        (b'{"message": "Not Found"}\n', "pr.diff is not a diff: no line of it begins with `diff --git` or `---`"),
        (b"\xff\xfe\x00", "pr.diff is not a diff: no line of it begins with `diff --git` or `---`"),
    ],
)
def test_a_file_that_is_no_diff_says_what_it_is(text: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "pr.diff").write_bytes(text)
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path / "s"), "HOME": str(tmp_path)}, verbosity=-1)
    with pytest.raises(PatchError) as caught:
        make_plan(ctx, Request(engine="vllm", arch="12.1f", patches=(f"{tmp_path}/pr.diff",)))
    assert caught.value.message == said
    assert ".diff at the end" in (caught.value.hint or "")


@pytest.mark.parametrize("start", [b"diff --git a/x b/x\n", b"--- a/x\n", b"From 0 Mon\nSubject: <html>\n\n--- a/x\n"])
def test_a_diff_passes(start: bytes) -> None:
    check_diff(start, "pr.diff")


@pytest.mark.parametrize(
    ("url", "diff"),
    [
        ("https://h.invalid/o/r/pull/12", "https://h.invalid/o/r/pull/12.diff"),
        ("https://h.invalid/o/r/pull/12/files", "https://h.invalid/o/r/pull/12.diff"),
        ("https://h.invalid/o/r/pull/12/commits/abc", "https://h.invalid/o/r/pull/12.diff"),
        ("https://h.invalid/o/r/commit/0a1b2c", "https://h.invalid/o/r/commit/0a1b2c.diff"),
        ("https://h.invalid/o/r/-/merge_requests/3#note", "https://h.invalid/o/r/-/merge_requests/3.diff"),
        ("https://h.invalid/o/r/pull/12.diff", None),
        ("https://h.invalid/login", None),
    ],
)
def test_the_page_of_a_pull_request_has_its_diff_beside_it(url: str, diff: str | None) -> None:
    with pytest.raises(PatchError, match="is a web page") as caught:
        check_diff(PAGE, "12", url)
    hint = caught.value.hint or ""
    assert hint == f"give the diff itself: --patch {diff}" if diff else ".diff at the end" in hint


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://h.invalid/1.diff", "only https is read"),
        ("http://127.0.0.1.h.invalid/1.diff", "only https is read"),
        ("file:///etc/passwd", "names no host"),
        ("ftp://h.invalid/1.diff", "only https is read"),
        ("https:///1.diff", "names no host"),
        ("https://h.invalid:x/1.diff", "cannot be read"),
        ("https://[h.invalid/1.diff", "cannot be read"),
        ("https://h.invalid/1 2.diff", "blanks or control"),
        ("https://h.invalid/\n1.diff", "blanks or control"),
        ("https://h.invalid/" + "1" * 3000, "too long"),
    ],
)
def test_urls_that_are_not_read(url: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        check_url(url)
    assert len(caught.value.message) < 300
    assert caught.value.hint


def test_no_secret_of_a_url_is_shown_or_recorded() -> None:
    with pytest.raises(UsageError) as caught:
        check_url("http://me:secret@h.invalid/1.diff")
    assert "secret" not in str(caught.value)
    assert public("https://me:secret@h.invalid/a/1.diff?token=secret#secret") == "https://h.invalid/a/1.diff"


def test_the_file_has_the_urls_name_if_that_is_plain() -> None:
    assert name_of("https://h.invalid/pull/12.diff?x=1", "other") == "12.diff"
    for url in ("https://h.invalid/", "https://h.invalid/%2e%2e", "https://h.invalid/..", "https://h.invalid/a;b"):
        assert name_of(url, "other") == "other"


def test_a_pin_is_a_sha256(tmp_path: Path) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path / "s"), "HOME": str(tmp_path)}, verbosity=-1)
    for fragment in ("sha256=12", "md5=1", f"sha256={'A' * 64}", ""):
        with pytest.raises(UsageError, match="after # comes the sha256"):
            make_plan(ctx, Request(engine="vllm", arch="12.1f", patches=(f"https://h.invalid/1.diff#{fragment}",)))


def test_the_url_is_in_record_and_label_and_in_no_key() -> None:
    use = PatchUse(source="vllm", project="vllm", name="12.diff", sha256="d" * 64, path="/x/12.diff")
    (named,) = with_origins([use], {"/x/12.diff": "https://h.invalid/pull/12.diff"}, {})
    other = PatchUse(source="vllm", project="vllm", name="o.diff", sha256="e" * 64, path="/x/o.diff")
    assert with_origins([other], {"/x/12.diff": "https://h.invalid"}, {}) == (other,)
    plans = [plan_image(*inputs(), replace(plan().options, patches=(one,))) for one in (use, named)]
    assert plans[0].key == plans[1].key
    assert plans[1].document()["patches"][0]["url"] == named.url  # type: ignore[index]
    added = set(labels(plans[1]).items()) - set(labels(plans[0]).items())
    assert added == {("io.github.gb10.patch-url.1", f"{named.url}#sha256={'d' * 64}")}
