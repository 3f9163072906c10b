"""Which mirror is taken from which configuration."""

import re
from pathlib import Path

import pytest

from gb10.errors import FetchError, UsageError
from gb10.sources.debian.mirror import archive_keyring, mirror_url
from gb10.sources.debian.resolve import locked_deb

DEBIAN = """\
# a comment
Types: deb deb-src
URIs: http://mirror.example/debian/
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
SECURITY = DEBIAN.replace("/debian/", "/debian-security").replace("trixie trixie-updates", "trixie-security")
DISABLED = f"Enabled: no\n{DEBIAN.partition(chr(10))[2]}"
THIRD_PARTY = """\
Types: deb
URIs: https://vendor.example/linux/debian
Suites: trixie
Components: main
Signed-By: /etc/apt/keyrings/vendor.asc
"""


def apt(tmp_path: Path, **files: str) -> Path:
    (tmp_path / "sources.list.d").mkdir()
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (tmp_path / "sources.list.d" / f"{stem}.{suffix}").write_text(text)
    return tmp_path


def test_the_setting_wins(tmp_path: Path) -> None:
    env = {"GB10_DEBIAN_MIRROR": "http://snapshot.example/debian/20260101/"}
    assert mirror_url(env, apt(tmp_path, debian_sources=DEBIAN)) == "http://snapshot.example/debian/20260101"


@pytest.mark.parametrize(
    "line",
    [
        "deb http://mirror.example/debian trixie main contrib",
        "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian x main",
        "# deb http://old.example/debian trixie main\ndeb http://mirror.example/debian/ trixie main # ours",
    ],
)
def test_one_line_sources(tmp_path: Path, line: str) -> None:
    assert mirror_url({}, apt(tmp_path, debian_list=f"deb-src http://x.example/debian s main\n{line}\n")) == (
        "http://mirror.example/debian"
    )


def test_deb822_sources_after_security_disabled_and_third_parties(tmp_path: Path) -> None:
    text = "\n".join((SECURITY, DISABLED.replace("mirror", "disabled"), THIRD_PARTY, DEBIAN))
    assert mirror_url({}, apt(tmp_path, all_sources=text)) == "http://mirror.example/debian"


@pytest.mark.parametrize(
    "text",
    [
        SECURITY,
        DISABLED,
        THIRD_PARTY,
        DEBIAN.replace("http://", "cdrom://"),
        THIRD_PARTY.replace("linux/debian", "ubuntu").replace("vendor.asc", "ubuntu-archive-keyring.gpg"),
    ],
)
def test_what_is_not_debians_own_archive_is_no_mirror(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="no Debian mirror") as error:
        mirror_url({}, apt(tmp_path, other_sources=text))
    assert "GB10_DEBIAN_MIRROR" in str(error.value)
    assert "debian-mirror" in str(error.value)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("hostile_sources", " http://mirror.example/debian\nTypes: deb\n", "a continuation line follows no field"),
        ("hostile_sources", f"{DEBIAN}\n# a comment\n\tmain\n", "a continuation line follows no field"),
        ("hostile_list", "deb [arch=amd64 http://mirror.example/debian trixie main\n", r"no \] closes the options"),
        ("hostile_list", "deb 'http://mirror.example/debian trixie main\n", "No closing quotation"),
    ],
)
def test_a_damaged_list_of_sources_is_one_error(tmp_path: Path, name: str, text: str, why: str) -> None:
    with pytest.raises(UsageError, match=r"hostile\.\w+ is no list of package sources") as caught:
        mirror_url({}, apt(tmp_path, **{name: text}))
    assert re.search(why, caught.value.where or "")


def test_keyring(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="archive keys"):
        archive_keyring(tmp_path)
    (tmp_path / "debian-archive-keyring.gpg").touch()
    assert archive_keyring(tmp_path).suffix == ".gpg"
    (tmp_path / "debian-archive-keyring.pgp").touch()
    assert archive_keyring(tmp_path).suffix == ".pgp"


@pytest.mark.parametrize("absent", ["Package", "Version", "Architecture", "Filename", "SHA256", "Size"])
def test_a_package_list_that_lacks_a_field_is_one_error(absent: str) -> None:
    fields = {
        "Package": "a",
        "Version": "1",
        "Architecture": "all",
        "Filename": "p/a.deb",
        "SHA256": "0" * 64,
        "Size": "7",
    }
    assert locked_deb(fields).size == 7
    del fields[absent]
    with pytest.raises(FetchError, match=rf"package list has no {absent} for a"):
        locked_deb(fields)
