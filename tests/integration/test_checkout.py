"""Sources from git: locked, made anew to the same bytes, refused when the tag moved; by Debian's git."""

import os
import shutil
import socket
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.fetch import stored
from gb10.core.files import Artifact, Checkout
from gb10.core.proc import capture
from gb10.core.store import Store
from gb10.errors import FetchError
from gb10.image.lock.lockfile import load_recipe
from gb10.image.lock.relock import lock_checkouts
from gb10.sources.git import archive
from gb10.sources.git.archive import fetch_checkout, resolve
from tests.integration.debian_git import env as env  # noqa: PLC0414 - fixtures, these three
from tests.integration.debian_git import root as root  # noqa: PLC0414
from tests.integration.debian_git import store as store  # noqa: PLC0414
from tests.integration.git_server import git_host, redirects
from tests.recipes import small_recipe

pytestmark = pytest.mark.integration

URL, NAME = "file:///upstream", "cutlass-4.5.0.tar"
WANTED = Checkout(URL, "v4.5.0", ("include",))
RECIPE = small_recipe(f'sources: {{cutlass: {{git: "{URL}", tag: v4.5.0, paths: [include]}}}}\n')


@pytest.fixture
def commit(root: Path) -> Callable[[str], None]:
    """Write a release into a fresh repository, and tag it: call again to move the tag."""
    shutil.rmtree(root / "upstream", ignore_errors=True)

    def make(text: str) -> None:
        (root / "upstream/include").mkdir(parents=True, exist_ok=True)
        (root / "upstream/include/version.h").write_text(text, encoding="utf-8")
        (root / "upstream/README.md").write_text("left out", encoding="utf-8")
        name = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
        for words in (
            ["init", "--quiet"],
            ["add", "."],
            [*name, "commit", "--quiet", "--message", "release"],
            [*name, "tag", "--force", "--annotate", "--message", "release", "v4.5.0"],
        ):
            capture(
                ["chroot", str(root), "git", "-C", "/upstream", *words],
                env={
                    "PATH": "/usr/sbin:/usr/bin",
                    "HOME": "/",
                    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
                    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
                },
            )

    make("4.5.0\n")
    return make


def locked(store: Store, env: dict[str, str]) -> Artifact:
    return resolve(store, env, NAME, WANTED)


def test_a_tag_becomes_a_tar_of_the_paths_that_are_wanted(
    commit: Callable[[str], None], store: Store, env: dict[str, str]
) -> None:
    found = locked(store, env)
    with tarfile.open(stored(store, found)) as tar:
        files = {member.name: member.size for member in tar if member.isfile()}
    assert files == {"cutlass-4.5.0/include/version.h": 6}
    assert stored(store, found).stat().st_size == found.size
    assert not list((store.root / "tmp").iterdir())


def test_what_was_locked_is_made_anew_to_the_same_bytes(
    commit: Callable[[str], None], store: Store, env: dict[str, str], tmp_path: Path
) -> None:
    found = locked(store, env)
    assert locked(store, env) == found
    stored(store, found).unlink()
    assert found.checkout
    fetch_checkout(store, env, found, found.checkout)
    assert stored(store, found).exists()


def test_neither_a_users_settings_nor_a_hook_that_runs_us_changes_a_byte(
    commit: Callable[[str], None], store: Store, env: dict[str, str], root: Path
) -> None:
    found = locked(store, env)
    (root / "home").mkdir(exist_ok=True)
    (root / "home/.gitconfig").write_text("[core]\n autocrlf = true\n[tar]\n umask = 0077\n", encoding="utf-8")
    assert locked(store, env | {"HOME": "/home", "GIT_DIR": "/upstream/.git"}) == found
    assert not (root / "upstream/.git/shallow").exists()


@pytest.mark.parametrize(
    "theirs",
    [
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.autocrlf", "GIT_CONFIG_VALUE_0": "true"},
        {"GIT_CONFIG_PARAMETERS": "'core.autocrlf'='true'"},
        {"GIT_TEMPLATE_DIR": "/template"},
        {"GIT_ATTR_SOURCE": "HEAD"},
        {"GIT_DEFAULT_HASH": "sha256"},
    ],
    ids=" ".join,
)
def test_nor_do_settings_attributes_or_an_object_format_of_the_environment(
    commit: Callable[[str], None], store: Store, env: dict[str, str], root: Path, theirs: dict[str, str]
) -> None:
    found = locked(store, env)
    (root / "template/info").mkdir(parents=True, exist_ok=True)
    (root / "template/info/attributes").write_text("* text eol=crlf\n", encoding="utf-8")
    assert locked(store, env | theirs) == found


def test_the_lock_has_commit_and_content(
    commit: Callable[[str], None], store: Store, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "small.yaml").write_text(RECIPE, encoding="utf-8")
    entry = lock_checkouts(load_recipe(tmp_path / "small.yaml"), None, store, env)["cutlass"]
    found = locked(store, env)
    assert found.checkout
    assert (entry.version, entry.filename, entry.sha256) == ("4.5.0", NAME, found.sha256)
    assert entry.commit == found.checkout.commit


def test_a_tag_that_moved_is_an_error(commit: Callable[[str], None], store: Store, env: dict[str, str]) -> None:
    found = locked(store, env)
    stored(store, found).unlink()
    commit("4.5.0, otherwise")
    assert found.checkout
    with pytest.raises(FetchError, match=r"the tag v4\.5\.0 is not the commit that was locked") as caught:
        fetch_checkout(store, env, found, found.checkout)
    assert found.checkout.commit in str(caught.value)
    assert not stored(store, found).exists()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (replace(WANTED, pin="v9.9"), "couldn't find remote ref refs/tags/v9.9"),
        (replace(WANTED, url="file:///nowhere"), "does not appear to be a git repository"),
        (replace(WANTED, paths=("sources",)), "pathspec 'sources' did not match any files"),
    ],
)
def test_what_git_does_not_have(
    commit: Callable[[str], None], store: Store, env: dict[str, str], wanted: Checkout, said: str
) -> None:
    with pytest.raises(FetchError, match="cannot take the tag") as caught:
        resolve(store, env, NAME, wanted)
    assert said in str(caught.value)
    assert not list((store.root / "tmp").iterdir())


def test_without_git(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="git is not installed"):
        resolve(store, {"PATH": str(tmp_path)}, NAME, WANTED)


def test_a_repository_is_bounded(commit: Callable[[str], None], store: Store, env: dict[str, str]) -> None:
    commit(os.urandom(1 << 20).hex())  # what cannot be packed
    with pytest.raises(FetchError, match=r"the tag v4\.5\.0 holds more than 1 files"):
        archive.resolve(store, env, NAME, replace(WANTED, paths=()), archive.Limits(files=1))
    with pytest.raises(FetchError, match=r"the tag v4\.5\.0 from git has more than 0 MiB, packed"):
        archive.resolve(store, env, NAME, WANTED, archive.Limits(pack=1 << 18))
    assert not list((store.root / "tmp").iterdir())


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/x.git", "git://127.0.0.1:{port}/x.git"])
def test_a_git_host_that_accepts_and_stalls_is_given_up(
    url: str, store: Store, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PATIENCE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        wanted = Checkout(url=url.format(port=server.getsockname()[1]), pin="v1")
        with pytest.raises(FetchError, match="the host sent nothing for 1 s"):
            archive.resolve(store, env, "a-1.tar", wanted)
    assert not list((store.root / "tmp").iterdir())


LOGIN = "me:kw7%40vq2x"


def test_a_password_in_a_url_is_on_no_command_line(
    commit: Callable[[str], None], store: Store, env: dict[str, str], root: Path
) -> None:
    found = locked(store, env)
    with git_host(root, "me:kw7@vq2x") as host:
        url = f"http://{LOGIN}@{host.address}/upstream/.git"
        assert resolve(store, env, NAME, replace(WANTED, url=url)).sha256 == found.sha256
    assert not [line for line in host.lines if "vq2x" in line]
    assert any("git-remote-http" in line and f"http://{host.address}" in line for line in host.lines)


def test_a_wrong_password_is_in_no_error(
    commit: Callable[[str], None], store: Store, env: dict[str, str], root: Path
) -> None:
    with git_host(root, "me:other") as host, pytest.raises(FetchError, match=r"cannot take the tag v4\.5\.0") as caught:
        resolve(store, env, NAME, replace(WANTED, url=f"http://{LOGIN}@{host.address}/upstream/.git"))
    assert f"http://{host.address}/upstream/.git" in str(caught.value)
    assert "Authentication failed" in str(caught.value)
    assert "vq2x" not in f"{caught.value}{caught.value.__cause__!r}"


def test_a_login_goes_to_no_other_host(
    commit: Callable[[str], None], store: Store, env: dict[str, str], root: Path
) -> None:
    """The host of the URL redirects to another one."""
    with git_host(root, "me:kw7@vq2x") as other, redirects(f"http://{other.address}") as address:
        with pytest.raises(FetchError, match="cannot take the tag"):
            resolve(store, env, NAME, replace(WANTED, url=f"http://{LOGIN}@{address}/upstream/.git"))
        assert other.requests
        assert not any("POST" in request for request in other.requests)
