"""A file that the user names is read whole, or is one clear error."""

import os
from pathlib import Path

import pytest

from gb10.core.files import Checkout, DoubtedFileError, read_plain_file, read_state_file, write_whole
from gb10.errors import UsageError


def test_a_file_of_the_size_is_read_and_a_larger_one_is_not(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * (1 << 20))
    assert len(read_plain_file(file, 1 << 20)) == 1 << 20
    file.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read_plain_file(file, 1 << 20)


def test_what_is_no_plain_file_is_refused_and_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UsageError, match="is no plain file"):
            read_plain_file(path, 1)
    for path in (tmp_path, tmp_path / "none", tmp_path / ("n" * 300)):
        with pytest.raises(UsageError, match=r"cannot read|is no plain file"):
            read_plain_file(path, 1)


def test_a_state_file_is_read_when_only_its_user_can_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "state", tmp_path / "link"
    file.write_text("abcdef", encoding="utf-8")
    link.symlink_to(file)
    os.mkfifo(tmp_path / "pipe")
    for mode in (0o600, 0o644):
        file.chmod(mode)
        content, status = read_state_file(file, 4)
        assert (content, status.st_size) == (b"abcd", 6)
    for mode in (0o620, 0o602):
        file.chmod(mode)
        with pytest.raises(DoubtedFileError, match="another user may have written it"):
            read_state_file(file, 4)
    file.chmod(0o600)
    with pytest.raises(DoubtedFileError, match="no plain file"):
        read_state_file(tmp_path / "pipe", 4)
    for path in (link, tmp_path / "none"):
        with pytest.raises(OSError, match=path.name):
            read_state_file(path, 4)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    with pytest.raises(DoubtedFileError, match="another user may have written it"):
        read_state_file(file, 4)


@pytest.mark.parametrize(
    ("pin", "moving", "what", "ref"),
    [
        ("v1.2", False, "the tag v1.2", "refs/tags/v1.2"),
        ("main", True, "the branch main", "main"),
        ("a" * 40, False, f"the commit {'a' * 40}", "a" * 40),
        ("a" * 40, True, f"the commit {'a' * 40}", "a" * 40),
        ("a" * 41, False, f"the tag {'a' * 41}", f"refs/tags/{'a' * 41}"),
    ],
)
def test_a_pin_is_a_tag_a_branch_or_a_commit(pin: str, moving: bool, what: str, ref: str) -> None:
    checkout = Checkout("https://git.example/x", pin, moving=moving)
    assert (checkout.what, checkout.ref) == (what, ref)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "f"
    for text in ("old", "new"):
        write_whole(file, text)
        assert file.read_text(encoding="utf-8") == text
    for path, what, said in (
        (tmp_path, "the lock", f"cannot write the lock {tmp_path}"),
        (tmp_path / "none/f", "", f"cannot write {tmp_path}/none/f"),
    ):
        with pytest.raises(UsageError) as caught:
            write_whole(path, "text", what)
        assert said in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
