"""Small packages made here, unpacked into a root file system."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from gb10.errors import BuildError, FetchError
from gb10.image.build.bases import require_control
from gb10.image.rootfs.configure import User
from gb10.image.rootfs.linker import ENTRY, HEADER, Library, render_cache, version_key
from gb10.image.rootfs.unpack import is_dropped, merged, write_rootfs
from gb10.sources.debian.stanza import parse, render

DRIVES = ("gb10.image.rootfs.database", "gb10.image.rootfs.package")  # through others: see tests/mutations.py

EPOCH = 1_700_000_000
Files = Mapping[str, str]
"""Path to content; a path that ends in ``/`` is a directory, content that starts with ``->`` a link."""

BASE: Mapping[str, Files] = {
    "base-files": {"bin": "->usr/bin", "lib": "->usr/lib", "usr/": "", "usr/bin/": "", "var/": "", "var/run/": ""},
    "base-passwd": {
        "usr/share/base-passwd/passwd.master": "root:*:0:0:root:/root:/bin/bash\n",
        "usr/share/base-passwd/group.master": "root:*:0:\nshadow:*:42:\n",
    },
    "debianutils": {"usr/share/debianutils/shells": "# shells\n/bin/sh\n"},
    "dpkg": {"usr/bin/dpkg": "dpkg"},
}


def tar(files: Files) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as out:
        for path, content in files.items():
            info = tarfile.TarInfo(f"./{path}")
            info.mtime = EPOCH + 5
            info.uname = info.gname = "builder"
            if path.endswith("/"):
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            elif content.startswith("->"):
                info.type, info.linkname = tarfile.SYMTYPE, content[2:]
            info.size = len(content) if info.isreg() else 0
            out.addfile(info, io.BytesIO(content.encode()))
    return buffer.getvalue()


def deb(folder: Path, name: str, files: Files, *, suffix: str = "", **members: str) -> Path:
    control = f"Package: {name}\nVersion: 1\nArchitecture: amd64\nDescription: one\n two\n"
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar": tar({"control": control} | members),
        f"data.tar{suffix}": tar(files),
    }
    path = folder / f"{name}_1_amd64.deb"
    with path.open("wb") as out:
        out.write(b"!<arch>\n")
        for member, content in parts.items():
            out.write(f"{member:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode())
            out.write(content + b"\n" * (len(content) % 2))
    return path


def rootfs(folder: Path, *more: Path, user: User | None = None) -> dict[str, tarfile.TarInfo]:
    debs = [deb(folder, name, files) for name, files in BASE.items()]
    write_rootfs([*more, *debs], folder / "rootfs.tar", epoch=EPOCH, user=user)
    with tarfile.open(folder / "rootfs.tar") as tree:
        return {member.name: member for member in tree}


def text(folder: Path, path: str) -> str:
    with tarfile.open(folder / "rootfs.tar") as tree:
        content = tree.extractfile(path)
        assert content
        return content.read().decode()


def test_files_of_a_merged_usr_are_under_usr_with_bounded_times_and_numbers_only(tmp_path: Path) -> None:
    members = rootfs(tmp_path, deb(tmp_path, "tool", {"bin/tool": "x", "lib/": "", "lib/a/": "", "lib/a/b": "y"}))
    assert {"usr/bin/tool", "usr/lib/a/b"} <= set(members)
    assert not any(name.startswith(("bin/", "lib/")) for name in members)
    assert members["lib"].issym()
    assert {member.uname + member.gname for member in members.values()} == {""}
    assert max(member.mtime for member in members.values()) == EPOCH


def test_parents_stand_before_what_they_hold_and_nothing_stands_twice(tmp_path: Path) -> None:
    rootfs(tmp_path, deb(tmp_path, "deep", {"opt/a/b/c": "x"}))
    with tarfile.open(tmp_path / "rootfs.tar") as tree:
        names = tree.getnames()
    assert len(names) == len(set(names))
    assert all(name.rpartition("/")[0] in ["", *names[:index]] for index, name in enumerate(names))


def test_order_of_packages_changes_no_byte(tmp_path: Path) -> None:
    extra = [deb(tmp_path, name, {f"usr/bin/{name}": name}) for name in ("one", "two")]
    rootfs(tmp_path, *extra)
    first = (tmp_path / "rootfs.tar").read_bytes()
    rootfs(tmp_path, *reversed(extra))
    assert (tmp_path / "rootfs.tar").read_bytes() == first


def test_documents_are_dropped_but_for_licences(tmp_path: Path) -> None:
    doc = {f"usr/share/doc/{name}": "x" for name in ("a/", "a/copyright", "a/changelog.gz", "b/", "b/NEWS.gz")}
    members = rootfs(tmp_path, deb(tmp_path, "documented", doc))
    assert "usr/share/doc/a/copyright" in members
    assert not {"usr/share/doc/a/changelog.gz", "usr/share/doc/b"} & set(members)
    assert "/usr/share/doc/b/NEWS.gz" in text(tmp_path, "var/lib/dpkg/info/documented.list")
    assert "path-exclude=/usr/share/doc/*\n" in text(tmp_path, "etc/dpkg/dpkg.cfg.d/gb10-dropped")


def test_database_says_installed_with_conffiles_scripts_and_triggers(tmp_path: Path) -> None:
    package = deb(
        tmp_path,
        "svc",
        {"etc/svc": "hello"},
        conffiles="/etc/svc\n",
        postinst="#!/bin/sh\n",
        triggers="# none\ninterest-noawait /usr/lib32\ninterest ldconfig\n",
    )
    rootfs(tmp_path, package)
    status = next(one for one in parse(text(tmp_path, "var/lib/dpkg/status")) if one["Package"] == "svc")
    assert status["Status"] == "install ok installed"
    assert status["Conffiles"] == "\n /etc/svc 5d41402abc4b2a76b9719d911017c592"
    assert status["Description"] == "one\n two"
    assert text(tmp_path, "var/lib/dpkg/info/svc.md5sums") == "5d41402abc4b2a76b9719d911017c592  etc/svc\n"
    assert text(tmp_path, "var/lib/dpkg/info/svc.postinst") == "#!/bin/sh\n"
    assert text(tmp_path, "var/lib/dpkg/triggers/File") == "/usr/lib32 svc/noawait\n"
    assert text(tmp_path, "var/lib/dpkg/triggers/ldconfig") == "svc\n"


def test_the_user_owns_a_home_and_has_no_password(tmp_path: Path) -> None:
    members = rootfs(tmp_path, user=User(name="gb10", uid=10001, home="/home/gb10"))
    assert (members["home/gb10"].uid, members["home/gb10"].gid) == (10001, 10001)
    assert "gb10:x:10001:10001::/home/gb10:/bin/bash\n" in text(tmp_path, "etc/passwd")
    assert "gb10:*:19675:0:99999:7:::\n" in text(tmp_path, "etc/shadow")
    assert members["etc/shadow"].mode == 0o640


def test_alternatives_link_what_is_installed(tmp_path: Path) -> None:
    members = rootfs(tmp_path, deb(tmp_path, "mawk", {"usr/bin/mawk": "x"}))
    assert members["usr/bin/awk"].linkname == "/etc/alternatives/awk"
    assert members["etc/alternatives/nawk"].linkname == "/usr/bin/mawk"
    assert "etc/alternatives/cc" not in members
    assert text(tmp_path, "var/lib/dpkg/alternatives/awk").startswith("auto\n/usr/bin/awk\nnawk\n/usr/bin/nawk\n\n")


def test_two_packages_with_one_file_are_an_error(tmp_path: Path) -> None:
    both = [deb(tmp_path, name, {"usr/bin/same": name}) for name in ("one", "two")]
    with pytest.raises(BuildError, match="both hold /usr/bin/same"):
        rootfs(tmp_path, *both)


def test_what_is_no_package_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other_1_amd64.deb"
    other.write_bytes(b"<html>")
    with pytest.raises(FetchError, match="is not a Debian package"):
        rootfs(tmp_path, other)
    with pytest.raises(FetchError, match="compressed as zst"):
        rootfs(tmp_path, deb(tmp_path, "new", {}, suffix=".zst"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("bin/sh", "usr/bin/sh"),
        ("lib", "lib"),
        ("libx/a", "libx/a"),
        ("usr/lib/a", "usr/lib/a"),
        ("lib64/l", "usr/lib64/l"),
    ],
)
def test_merged(path: str, expected: str) -> None:
    assert merged(path) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [("usr/share/doc/a/copyright", False), ("usr/share/man/man1/a.1.gz", True), ("usr/share/doc", False)],
)
def test_is_dropped(path: str, expected: bool) -> None:
    assert is_dropped(path) is expected


def test_stanzas_survive_a_round_trip() -> None:
    written = "Package: a\nConffiles:\n /etc/a 1\n /etc/b 2\nDescription: one\n .\n two\n"
    (fields,) = parse(f"\n# comment\n{written}\n\n")
    assert render(fields) == written


def test_linker_order_and_layout() -> None:
    names = ["libz.so.9", "libz.so.10", "libz.so", "liba.so", "liba2.so"]
    assert sorted(names, key=version_key) == ["liba.so", "liba2.so", "libz.so", "libz.so.9", "libz.so.10"]
    cache = render_cache([Library("libz.so.1", "/lib/libz.so.1", 0x0A03)])
    magic, count, length, *_ = HEADER.unpack_from(cache)
    flags, key, value, *_ = ENTRY.unpack_from(cache, HEADER.size)
    assert (magic[:16], count, length, flags) == (b"glibc-ld.so.cach", 1, len(cache) - HEADER.size - ENTRY.size, 0x0A03)
    assert cache[key:value] == b"libz.so.1\0"
    assert cache[value:] == b"/lib/libz.so.1\0"


@pytest.mark.parametrize("lacking", ["Package", "Version", "Architecture"])
def test_a_package_whose_control_file_lacks_a_field_is_one_error(tmp_path: Path, lacking: str) -> None:
    fields = {"Package": "a", "Version": "1", "Architecture": "amd64"}
    path = deb(tmp_path, "a", {}, control=render({name: fields[name] for name in fields if name != lacking}))
    with pytest.raises(
        FetchError, match=rf"^error: a_1_amd64\.deb is no valid .*: its control file has no {lacking}\n"
    ):
        require_control(path)
    require_control(deb(tmp_path, "a", {}))


@pytest.mark.parametrize("control", ["", " Version: 1\n"])
def test_a_control_file_that_cannot_be_read_is_one_error(tmp_path: Path, control: str) -> None:
    with pytest.raises(FetchError, match="is no valid Debian package: its control file"):
        require_control(deb(tmp_path, "a", {}, control=control))
