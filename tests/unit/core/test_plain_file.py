"""A file that the user names is read whole, or is one clear error."""

import os
from pathlib import Path

import pytest

from gb10.core.files import read_plain_file
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
