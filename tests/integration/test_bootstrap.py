"""The tool starts itself: real interpreters, real pip, the real index; on good days and on bad ones."""

import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bootstrap.environment import CHECKOUT, environment
from bootstrap.install import make
from gb10.errors import Gb10Error

pytestmark = pytest.mark.integration

PYTHON = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
SMALL_CLI = """\
import sys
import idna


def main(arguments: list[str]) -> int:
    print(idna.__name__, *arguments)
    print(*sys.path, sep="\\n", file=sys.stderr)
    return 3
"""


def copy_checkout(target: Path, *, lock: str) -> Path:
    """What a start needs, elsewhere; with a lock of our choice."""
    for folder in ("bootstrap", "gb10/core"):
        shutil.copytree(CHECKOUT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("build.py", "gb10/__init__.py", "gb10/errors.py"):
        shutil.copy(CHECKOUT / name, target / name)
    (target / "gb10/cli").mkdir()
    (target / "gb10/cli/__init__.py").write_text(SMALL_CLI)
    (target / "requirements.lock").write_text(lock)
    return target


def entry(name: str) -> str:
    """One package of the real lock, hashes and all."""
    lock = (CHECKOUT / "requirements.lock").read_text()
    found = re.search(rf"^{name}==.*\n(?:    --hash.*\n)+", lock, flags=re.MULTILINE)
    assert found
    return found[0]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose tool needs one small package, in a directory with a space."""
    return copy_checkout(tmp_path / "a check out", lock=entry("idna"))


def user(store: Path) -> dict[str, str]:
    """The environment of a user without HOME."""
    plain = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")}
    return plain | {"GB10_CACHE_DIR": str(store)}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """With an empty store."""
    return user(tmp_path / "the store")


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With a store that other tests share."""
    return user(tmp_path_factory.mktemp("a warm store"))


def start(
    script: Path, env: dict[str, str], *arguments: str, cwd: Path = Path("/")
) -> subprocess.CompletedProcess[str]:
    argv = [str(PYTHON), str(script), *arguments]
    return subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False)


def launch(script: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    argv = [str(PYTHON), str(script)]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_environment_is_made_once_and_handed_over_to(checkout: Path, env: dict[str, str]) -> None:
    first, second = (start(checkout / "build.py", env, "plan", "--x=a b") for _ in range(2))
    assert (first.returncode, first.stdout) == (second.returncode, second.stdout) == (3, "idna plan --x=a b\n")
    assert sum(line.startswith("gb10: ") for line in first.stderr.splitlines()) == 1
    assert "gb10: " not in second.stderr


@pytest.mark.slow
def test_it_starts_through_a_symlink_from_anywhere(checkout: Path, warm: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a check out/build.py")
    assert start(Path("link"), warm, cwd=tmp_path).returncode == 3


def test_what_runs_is_what_was_locked(checkout: Path, warm: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path/idna.py").write_text("raise SystemExit('not the locked one')\n")
    done = start(checkout / "build.py", warm | {"PYTHONPATH": str(tmp_path / "path"), "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 3
    assert str(tmp_path / "path") not in done.stderr
    assert not list(checkout.rglob("__pycache__"))


@pytest.fixture
def read_only(checkout: Path, tmp_path: Path) -> Iterator[Path]:
    """The checkout again, mounted read-only: root may write where modes say no."""
    place = tmp_path / "read only"
    place.mkdir()
    subprocess.run(["mount", "--bind", "-o", "ro", checkout, place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_it_starts_from_a_read_only_checkout(read_only: Path, warm: dict[str, str]) -> None:
    assert start(read_only / "build.py", warm).returncode == 3
    assert not list(read_only.rglob("__pycache__"))


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_killed_at_any_moment_the_next_run_is_right(checkout: Path, env: dict[str, str], seconds: float) -> None:
    with launch(checkout / "build.py", env) as run:
        time.sleep(seconds)
        run.send_signal(signal.SIGKILL)
    assert start(checkout / "build.py", env).stdout == "idna\n"


@pytest.mark.slow
def test_two_at_once_make_one_environment(checkout: Path, env: dict[str, str]) -> None:
    with launch(checkout / "build.py", env) as one, launch(checkout / "build.py", env) as other:
        outcomes = [one.communicate(), other.communicate()]
    assert [out for out, _ in outcomes] == ["idna\n"] * 2
    assert sum("creating the environment of" in err for _, err in outcomes) == 1


@pytest.mark.slow
def test_another_lock_is_another_environment(checkout: Path, env: dict[str, str]) -> None:
    start(checkout / "build.py", env)
    (checkout / "requirements.lock").write_text(entry("idna") + entry("mdurl"))
    assert "creating the environment" in start(checkout / "build.py", env).stderr
    assert sum(path.is_symlink() for path in Path(env["GB10_CACHE_DIR"], "environments").iterdir()) == 2


@pytest.mark.slow
def test_a_package_that_is_not_the_locked_one_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    forged = re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", entry("idna"))
    done = start(copy_checkout(tmp_path / "forged", lock=forged) / "build.py", env)
    assert (done.returncode, done.stdout) == (5, "")
    assert "error: a package does not match its locked hash" in done.stderr
    assert "hint: " in done.stderr


def only(index: str) -> dict[str, str]:
    """What makes pip know one index and nothing else, and give up soon."""
    settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "", "PIP_NO_CACHE_DIR": "1"}
    return settings | {"PIP_INDEX_URL": index, "PIP_RETRIES": "1", "NO_PROXY": "*", "no_proxy": "*"}


def test_an_index_that_does_not_answer_is_named(checkout: Path, env: dict[str, str]) -> None:
    done = start(checkout / "build.py", env | only("https://127.0.0.1:9/simple"))
    assert done.returncode == 5
    assert "error: cannot reach the package index" in done.stderr


@pytest.fixture
def impostor(tmp_path: Path) -> Iterator[str]:
    """An index over TLS whose certificate nobody vouches for."""
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "certificate.pem")]
    subprocess.run([*request, "-days", "1", "-subj", "/CN=localhost", *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://localhost:{server.server_port}/simple"
        server.shutdown()


@pytest.mark.slow
def test_an_index_with_an_unknown_certificate_is_named(checkout: Path, env: dict[str, str], impostor: str) -> None:
    done = start(checkout / "build.py", env | only(impostor))
    assert done.returncode == 5
    assert "error: the package index's certificate is not trusted" in done.stderr


def test_a_store_that_cannot_be_written_is_a_usage_error(checkout: Path, env: dict[str, str]) -> None:
    done = start(checkout / "build.py", env | {"GB10_CACHE_DIR": "/dev/null/store"})
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write to the store /dev/null/store")
    assert "hint: set GB10_CACHE_DIR" in done.stderr


@pytest.mark.slow
def test_no_room_is_a_usage_error(checkout: Path, env: dict[str, str], tmp_path: Path) -> None:
    store = tmp_path / "the store"
    store.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", store], check=True)
    try:
        done = start(checkout / "build.py", env)
    finally:
        subprocess.run(["umount", store], check=True)
    assert done.returncode == 2
    assert "set GB10_CACHE_DIR to a directory with free space" in done.stderr


@pytest.mark.slow
def test_the_environment_lies_where_config_toml_says(checkout: Path, env: dict[str, str], tmp_path: Path) -> None:
    del env["GB10_CACHE_DIR"]
    (tmp_path / "gb10").mkdir()
    (tmp_path / "gb10/config.toml").write_text(f'cache-dir = "{tmp_path}/said in the file"\n', encoding="utf-8")
    done = start(checkout / "build.py", env | {"XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": "/dev/null"})
    assert done.stdout == "idna\n"
    assert (tmp_path / "said in the file/environments").is_dir()


def test_interrupted_while_it_starts(checkout: Path, env: dict[str, str]) -> None:
    with launch(checkout / "build.py", env) as run:
        assert run.stderr is not None
        assert "creating the environment" in run.stderr.readline()
        run.send_signal(signal.SIGINT)
        _, said = run.communicate()
    assert (run.returncode, said) == (130, "interrupted; run the same command again to continue\n")


def test_an_environment_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    """As after a full disk: pip fails in the middle."""
    lock = tmp_path / "a.lock"
    lock.write_text("no such requirement !", encoding="ascii")
    with pytest.raises(Gb10Error):
        make(environment(lock, tmp_path / "store"), os.environ)
    assert not list((tmp_path / "store" / "environments").iterdir())
