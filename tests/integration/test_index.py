"""The real index, against pip and uv: the same settings, the same files, and clear words when it cannot be had."""

import dataclasses
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from bootstrap.environment import CHECKOUT
from bootstrap.install import PIP
from gb10.core.fields import ARCHITECTURES, Architecture
from gb10.core.files import Artifact
from gb10.core.machine import MACHINES
from gb10.core.proc import capture
from gb10.core.store import Store, file_sha256
from gb10.errors import FetchError, Gb10Error, UsageError
from gb10.image.lock.lockfile import load_lock
from gb10.image.lock.relock import main_index
from gb10.image.lock.resolver import Platform, best_wheel, platform_of
from gb10.image.recipe.locked import LockedWheel
from gb10.sources.index.client import Index, fetch_all, open_index_session, size_of
from gb10.sources.index.pip_settings import pip_options, read_settings

pytestmark = pytest.mark.integration

LOCK = Path(__file__).resolve().parents[2] / "recipes" / "images" / "vllm.lock.json"
PINNED = re.compile(r"^(\S+==.*?) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)
UBUNTU = 39
"""glibc 2.39, DGX OS's."""
PIP_ARGV = (sys.executable, "-I", str(PIP / "pip"))


@pytest.fixture(scope="module")
def small() -> tuple[LockedWheel, ...]:
    """Three locked wheels of a few kilobytes, two of them for aarch64."""
    wheels = load_lock(LOCK).wheels.tools["arm64"]
    return tuple(wheel for wheel in wheels if wheel.name in {"charset-normalizer", "idna", "markupsafe"})


def by_content(*wheels: LockedWheel) -> list[Artifact]:
    return [Artifact(wheel.filename, wheel.sha256, wheel.size) for wheel in wheels]


def test_pip_reads_the_same_settings() -> None:
    listed = capture([*PIP_ARGV, "config", "list"], env=os.environ)
    ours = pip_options(os.environ, Path(sys.prefix))
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        name = key.removeprefix(":env:.").removeprefix("global.").removeprefix("install.")
        if ("PIP_" + name.upper().replace("-", "_") not in os.environ) or key.startswith(":env:"):
            assert ours[name] == value.strip("'").encode().decode("unicode_escape")


def test_pip_downloads_the_same_files(tmp_path: Path, small: tuple[LockedWheel, ...]) -> None:
    platform = platform_of("trixie", "3.13", "arm64")
    tags = dict.fromkeys(tag.platform for tag in platform.tags() if tag.platform != "any")
    argv = [*PIP_ARGV, "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(tmp_path / "pip")]
    options = ["--python-version", "3.13", *(f"--platform={tag}" for tag in tags)]
    capture([*argv, *options, *(f"{wheel.name}=={wheel.version}" for wheel in small)], env=os.environ)
    files = fetch_all(by_content(*small), Store(tmp_path / "store"), os.environ)
    theirs = {path.name: path.read_bytes() for path in (tmp_path / "pip").iterdir()}
    assert {path.name: path.read_bytes() for path in files.values()} == theirs


def test_bytes_are_told_and_nothing_is_fetched_twice(tmp_path: Path, small: tuple[LockedWheel, ...]) -> None:
    store, told = Store(tmp_path), list[int]()
    fetch_all(by_content(*small), store, os.environ, told.append)
    assert sum(told) == sum(wheel.size for wheel in small)
    assert fetch_all(
        by_content(*small), store, {"PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_CONFIG_FILE": "/dev/null"}, told.append
    )
    assert sum(told) == sum(wheel.size for wheel in small)


def test_size_is_that_of_the_file(tmp_path: Path, small: tuple[LockedWheel, ...]) -> None:
    settings = read_settings(os.environ)
    assert settings.url
    index = Index(open_index_session(os.environ), settings.url)
    links = {link.sha256: link for link in index.links(small[0].name)}
    assert size_of(index.session, links[small[0].sha256]) == small[0].size


def test_a_wheel_of_this_machine_never_stands_in(tmp_path: Path, small: tuple[LockedWheel, ...]) -> None:
    wheel = small[0]
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / wheel.filename).write_bytes(b"built here")
    env = {**os.environ, "PIP_FIND_LINKS": str(tmp_path / "links")}
    (path,) = fetch_all(by_content(wheel), Store(tmp_path / "store"), env).values()
    assert file_sha256(path) == wheel.sha256


def test_unknown_project_is_no_error() -> None:
    settings = read_settings(os.environ)
    assert settings.url
    assert Index(open_index_session(os.environ), settings.url).links("gb10-surely-nobody-has-this-name") == ()


def _failure(tmp_path: Path, wheel: LockedWheel, env: Mapping[str, str]) -> Gb10Error:
    with pytest.raises((FetchError, UsageError)) as caught:
        fetch_all(by_content(wheel), Store(tmp_path / "store"), env)
    assert not list((tmp_path / "store").rglob("*.whl"))
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "texts"),
    [
        (("PIP_INDEX_URL", "http://127.0.0.1:9/simple"), ("cannot be reached", "hint: check the network")),
        (("SSL_CERT_FILE", "{tmp}/other-ca.pem"), ("certificate is not trusted", "hint: set SSL_CERT_FILE")),
        (("SSL_CERT_FILE", "{tmp}/absent.pem"), ("SSL_CERT_FILE", "CA bundle that does not exist")),
        (("HTTPS_PROXY", "http://127.0.0.1:9"), ("the proxy does not answer", "hint: check HTTPS_PROXY")),
    ],
    ids=["refused", "wrong-ca", "no-ca", "proxy"],
)
def test_one_clear_text_for_each_bad_day(
    tmp_path: Path,
    small: tuple[LockedWheel, ...],
    monkeypatch: pytest.MonkeyPatch,
    setting: tuple[str, str],
    texts: tuple[str, str],
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NO_PROXY", "no_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "other-ca.pem").write_text(_one_certificate(), encoding="utf-8")
    monkeypatch.setenv(setting[0], setting[1].format(tmp=tmp_path))
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", (tmp_path / "none").as_uri())
    error = _failure(tmp_path, small[0], os.environ)
    assert all(text in str(error) for text in texts)


def _one_certificate() -> str:
    """A CA that signed no index: this machine's first."""
    bundle = Path("/etc/ssl/certs/ca-certificates.crt").read_text(encoding="utf-8")
    end = "-----END CERTIFICATE-----\n"
    return bundle.partition(end)[0] + end


def test_a_locked_file_that_the_index_has_not(tmp_path: Path, small: tuple[LockedWheel, ...]) -> None:
    gone = dataclasses.replace(Artifact(small[0].filename, small[0].sha256, small[0].size), sha256="0" * 64)
    with pytest.raises(FetchError, match="is on none of the package indexes"):
        fetch_all([gone], Store(tmp_path), os.environ)


@pytest.fixture(scope="module")
def ours() -> dict[Requirement, frozenset[str]]:
    """What the tool and its tests need, and of each the wheels of the index whose hashes are locked."""
    index, text = main_index(os.environ), (CHECKOUT / "requirements-dev.lock").read_text(encoding="utf-8")
    found = {Requirement(line): set(re.findall("[0-9a-f]{64}", hashes)) for line, hashes in PINNED.findall(text)}
    assert len(found) == len(re.findall("^[a-z]", text, re.MULTILINE))
    return {
        wanted: frozenset(
            link.filename
            for link in index.links(wanted.name)
            if link.sha256 in hashes and link.filename.endswith(".whl")
        )
        for wanted, hashes in found.items()
    }


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_tool_has_a_locked_wheel_for_each_python(
    ours: Mapping[Requirement, frozenset[str]], python: str, architecture: Architecture
) -> None:
    platform = Platform(python=python, architecture=architecture, glibc=UBUNTU)
    here = {"python_version": python, "python_full_version": f"{python}.0", "platform_machine": MACHINES[architecture]}
    wanted = [one for one in ours if one.marker is None or one.marker.evaluate({**here, "sys_platform": "linux"})]
    assert [str(one) for one in wanted if best_wheel(ours[one], platform) is None] == []
    assert len(wanted) > 40


def test_both_locks_of_the_tool_agree() -> None:
    mine, developers = (
        dict(PINNED.findall((CHECKOUT / name).read_text(encoding="utf-8")))
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert mine.items() <= developers.items()
