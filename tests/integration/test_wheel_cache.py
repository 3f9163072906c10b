"""Wheels by key through a Hub: its real client against a server of ours, signatures by the real ssh-keygen."""

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import huggingface_hub.constants
import pytest

from gb10.core.proc import CommandFailedError, capture
from gb10.core.store import file_sha256, open_store, seal
from gb10.errors import EmptySelectionError, FetchError, Gb10Error, PublishError, UsageError, VerifyError
from gb10.image.context import Context, open_context
from gb10.image.plan.catalog import ROOT
from gb10.image.plan.values import Plan
from gb10.image.publish.sharing import Exchange, compiled_wheels, pull, push, require_wheel_repository, take_missing
from gb10.image.request.planning import Request, make_plan
from tests.integration.hub_server import TOKEN, FakeHub, Repository, fake_hub, make_signer
from tests.integration.nodes import ssh_keygen

# The Hub's client hands files to its HTTP client in a way that is on its way out; that is between the two.
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")]

REPO = "me/wheels"
LIBRARY = ROOT / "tests/unit/data/scan/libk.so"  # nvcc's own output, for 12.1f
BLOCK = 10 << 20
"""Bytes that the Hub's client writes at once: what breaks off is resumed at a multiple of it."""
MINE = "a" * 64


@pytest.fixture(autouse=True)
def _client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The Hub's client without Xet, which our server does not speak, and without what this user has for the Hub."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with ssh-keygen, the keys of two people, and a file of allowed signers for each."""
    folder, ctx = tmp_path_factory.mktemp("keys"), open_context(os.environ, verbosity=0)
    env = {**os.environ, "PATH": ssh_keygen(ctx.store, tmp_path_factory.mktemp("ssh"))}
    settings, _ = (make_signer(folder, name, env) for name in ("me", "other"))
    return {**env, **settings, "KEYS": str(folder), "HF_TOKEN": TOKEN, "GB10_WHEEL_CACHE": REPO}


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with fake_hub() as found:
        found.repositories[REPO] = Repository()
        yield found


def machine(keys: Mapping[str, str], hub: FakeHub, store: Path) -> Context:
    """A user's machine: a store of its own, and the settings of the cache."""
    env = {**keys, "HF_ENDPOINT": hub.url, "GB10_CACHE_DIR": str(store), "NO_COLOR": "1"}
    return replace(open_context(env, verbosity=0), store=open_store(env))


@pytest.fixture
def first(keys: dict[str, str], hub: FakeHub, tmp_path: Path, plan: Plan) -> Context:
    """A machine that compiled every wheel of the plan."""
    ctx = machine(keys, hub, tmp_path / "first")
    for step in plan.of_kind("wheel"):
        write_wheel(ctx, step.key, step.name)
    return ctx


@pytest.fixture
def second(keys: dict[str, str], hub: FakeHub, tmp_path: Path) -> Context:
    """A machine that has nothing yet."""
    return machine(keys, hub, tmp_path / "second")


@pytest.fixture(scope="module")
def plan() -> Plan:
    """The real recipe's."""
    return make_plan(open_context(os.environ, verbosity=0), Request(engine="vllm", arch="12.1f"))


def write_wheel(ctx: Context, key: str, name: str, cubin: str = "12.1f", size: int = 1000) -> Path:
    """A wheel in the store as a compile leaves it: a real library, and one file of ``size`` random bytes."""
    folder = ctx.store.entry("wheels", key)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = folder / f"{name.replace('-', '_')}-1.0+gb10.{key[:8]}-py3-none-any.whl"
    manifest = {"modules": {"k": {"file": "pack/libk.so", "cubins": [cubin]}}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(LIBRARY, "pack/libk.so")
        archive.writestr("pack/manifest.json", json.dumps(manifest))
        archive.writestr("pack/bulk", os.urandom(size))
    seal(path)
    return path


def wheel(ctx: Context, key: str) -> Path | None:
    """The store's wheel of a key."""
    return next(ctx.store.entry("wheels", key).glob("*.whl"), None)


def names(plan: Plan) -> dict[str, str]:
    return {step.key: step.name for step in plan.of_kind("wheel")}


def pushed(ctx: Context, who: str = "me") -> Exchange:
    """Push all, signed by somebody."""
    return push(ctx, require_wheel_repository(ctx.env, None), compiled_wheels(ctx.store), Path(ctx.env["KEYS"]) / who)


def pulled(ctx: Context, wanted: Mapping[str, str] | None = None) -> Exchange:
    return pull(ctx, require_wheel_repository(ctx.env, None), wanted)


def moved(done: Exchange) -> list[str]:
    return [one.key for one in done.wheels if one.moved]


def build_py(ctx: Context, *arguments: str, code: int = 0, **more: str) -> tuple[str, str]:
    """The tool itself: stdout and stderr, once it ended with this exit code."""
    log = ctx.store.root / "stderr"
    env = {**ctx.env, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(ctx.store.root / "hf"), **more}
    argv = ["sh", "-c", f'"$@" 2>{log}', "sh", sys.executable, "-m", "gb10", *arguments]
    try:
        out, found = capture(argv, env=env, cwd=ROOT), 0
    except CommandFailedError as error:
        out, found = error.tail, error.returncode
    assert found == code, log.read_text()
    return out, log.read_text()


def test_push_and_pull_as_a_user_calls_them(first: Context, second: Context, hub: FakeHub, plan: Plan) -> None:
    document = json.loads(build_py(first, "cache", "push", "--json")[0])
    assert document["schema"] == "gb10/cache-push/v1"
    assert {one["key"]: one["moved"] for one in document["wheels"]} == dict.fromkeys(names(plan), True)
    assert len(hub.asked("POST", "/commit/")) == 1  # files and listing in one: no reader sees a half
    out, said = build_py(second, "cache", "pull", REPO)
    assert f"{REPO}: {len(names(plan))} of {len(names(plan))} wheels" in said
    assert "signed by me@example, proven" in said
    for key in names(plan):
        mine, theirs = wheel(first, key), wheel(second, key)
        assert mine and theirs and f"{key}  {theirs.name}\n" in out
        assert file_sha256(mine) == file_sha256(theirs)
        assert sorted(path.name for path in theirs.parent.iterdir()) == sorted((theirs.name, "sha256"))


@pytest.mark.slow
def test_a_wheel_that_is_missing_is_taken_before_anything_is_compiled(
    first: Context, second: Context, hub: FakeHub
) -> None:
    (step,) = make_plan(first, Request(engine="sglang", arch="12.1f")).of_kind("wheel")
    write_wheel(first, step.key, step.name)
    pushed(first)
    hub.log.clear()
    assert f"looks for missing wheels in {REPO}" in build_py(second, "plan", "--engine", "sglang")[0]
    assert not hub.log
    out, said = build_py(second, "wheels", "--engine", "sglang")
    path = wheel(second, step.key)
    assert path and str(path) in out.splitlines()  # the other is upstream's with our patch, made here
    assert f"{path.name}: taken from {REPO}, signed by me@example, proven" in said
    assert not (second.store.root / "logs").exists()  # nothing was compiled


@pytest.mark.slow
def test_what_is_there_travels_no_more(first: Context, second: Context, hub: FakeHub, plan: Plan) -> None:
    assert sorted(moved(pushed(first))) == sorted(names(plan))
    commit = hub.repositories[REPO].sha()
    pulled(second)
    hub.log.clear()
    assert (moved(pushed(first)), moved(pulled(second))) == ([], [])
    assert pushed(second).commit == commit
    assert not hub.asked("POST") + hub.asked("PUT") + hub.asked("/storage/")
    hub.log.clear()
    take_missing(second, plan, ())
    assert not hub.log


@pytest.mark.slow
def test_a_download_that_breaks_off_goes_on_where_it_was(first: Context, second: Context, hub: FakeHub) -> None:
    made = write_wheel(first, MINE, "large", size=2 * BLOCK + 5000)
    pushed(first)
    hub.log.clear()
    hub.drop_after = BLOCK + BLOCK // 2
    assert moved(pulled(second, {MINE: "large"})) == [MINE]
    assert hub.asked("GET", "/storage/", f"bytes={BLOCK}-")
    found = wheel(second, MINE)
    assert found and file_sha256(found) == file_sha256(made)


@pytest.mark.parametrize("case", ["unreachable", "gone", "rebuild"])
def test_a_build_goes_on_without_the_cache(
    *, first: Context, hub: FakeHub, second: Context, plan: Plan, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pushed(first)
    hub.log.clear()
    if case == "unreachable":
        second = replace(second, env={**second.env, "HF_ENDPOINT": "http://127.0.0.1:9"})
    if case == "gone":
        del hub.repositories[REPO]
    capsys.readouterr()
    take_missing(second, plan, tuple(names(plan).values()) if case == "rebuild" else ())
    said = capsys.readouterr().err
    if case == "rebuild":
        assert (said, hub.log) == ("", [])
    else:
        reason = {
            "unreachable": "the Hub cannot be reached",
            "gone": "the Hub has no such repository, or it is private",
        }[case]
        assert said.startswith(f"no wheel is taken from {REPO}: {REPO} cannot be read: {reason}")
    assert not any(wheel(second, key) for key in names(plan))


def signed(ctx: Context, hub: FakeHub, text: str, who: str = "me", purpose: str = "gb10-wheels") -> None:
    """Put a listing there that somebody signed for a purpose."""
    argv = ["ssh-keygen", "-Y", "sign", "-f", f"{ctx.env['KEYS']}/{who}", "-n", purpose]
    signature = capture(argv, stdin=text, env=ctx.env)
    hub.put(REPO, {"wheels.json": text.encode(), "wheels.json.sig": signature.encode()})


def spoil(case: str, ctx: Context, hub: FakeHub, key: str) -> None:
    """What somebody who may write to the repository does to it."""
    listing = hub.read(REPO, "wheels.json").decode()
    document = json.loads(listing)
    path = f"wheels/{key}/{document['wheels'][key]['file']}"
    worse = hub.read(REPO, path)[:-1] + b"x"
    if case == "wheel":
        hub.put(REPO, {path: worse})
    elif case == "listing":
        document["wheels"][key]["sha256"] = hub.keep(worse)
        hub.put(REPO, {path: worse, "wheels.json": json.dumps(document).encode()})
    elif case == "another key's wheel":
        other = next(one for one in document["wheels"] if one != key)
        hub.put(REPO, {path: hub.read(REPO, f"wheels/{other}/{document['wheels'][other]['file']}")})
    elif case == "stranger":
        signed(ctx, hub, listing, who="other")
    elif case == "purpose":
        signed(ctx, hub, listing, purpose="git")
    elif case == "newer":
        signed(ctx, hub, listing.replace('"version": 1', '"version": 2'))
    elif case == "not listed":
        del document["wheels"][key]
        signed(ctx, hub, json.dumps(document))
    else:
        files: dict[str, dict[str, bytes | None]] = {
            "garbage": {"wheels.json.sig": b"no signature"},
            "unsigned": {"wheels.json.sig": None},
            "empty": {"wheels.json": None},
            "lost": {path: None},
        }
        hub.put(REPO, files[case])


@pytest.mark.parametrize(
    ("case", "kind", "text"),
    [
        ("wheel", FetchError, "is not the file that was signed"),
        ("another key's wheel", FetchError, "is not the file that was signed"),
        ("listing", VerifyError, "is of another text"),
        ("stranger", VerifyError, "no key in"),
        ("purpose", VerifyError, "is of another text"),
        ("garbage", VerifyError, "no key in"),
        ("unsigned", VerifyError, "is not signed"),
        ("empty", FetchError, "lists no wheels"),
        ("newer", VerifyError, "not one that this version reads"),
        ("not listed", FetchError, "does not list 1 of"),
        ("lost", FetchError, "and does not have it"),
    ],
)
def test_what_is_not_as_a_trusted_key_signed_it_is_not_taken(
    *,
    first: Context,
    second: Context,
    hub: FakeHub,
    plan: Plan,
    case: str,
    kind: type[Gb10Error],
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pushed(first)
    key, name = list(names(plan).items())[-1]
    spoil(case, first, hub, key)
    with pytest.raises(kind) as caught:
        pulled(second, names(plan))
    assert text in caught.value.message
    capsys.readouterr()
    take_missing(second, plan, ())
    said = capsys.readouterr().err
    assert f" taken from {REPO}: " in said and "; compiling " in said
    assert wheel(second, key) is None
    whole = case in ("wheel", "another key's wheel", "not listed", "lost")
    assert (f"{name} is not taken from" in said, "no wheel is taken from" in said) == (whole, not whole)


def test_a_wheel_that_a_trusted_key_signed_is_proven_all_the_same(first: Context, second: Context) -> None:
    write_wheel(first, MINE, "wrong", cubin="12.1a")
    pushed(first)
    with pytest.raises(VerifyError, match="verify found 1 problem"):
        pulled(second, {MINE: "wrong"})
    assert wheel(second, MINE) is None


@pytest.mark.slow
def test_two_pushers_lose_nothing_of_each_other(
    first: Context, second: Context, hub: FakeHub, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    pushed(first)
    theirs = {path: hub.read(REPO, path) for path in hub.repositories[REPO].commits[-1]}
    hub.repositories[REPO] = Repository()
    hub.before_commit = [theirs]  # they arrive between our look and our commit
    write_wheel(second, MINE, "another")
    hub.log.clear()
    assert moved(pushed(second)) == [MINE]
    assert f"{REPO} changed meanwhile" in capsys.readouterr().err
    assert set(json.loads(hub.read(REPO, "wheels.json"))["wheels"]) == {MINE, *names(plan)}
    assert len(hub.asked("PUT", "/storage/")) == 1  # the second try sends no wheel again
    assert sorted(moved(pulled(second))) == sorted(names(plan))

    write_wheel(second, "b" * 64, "third")
    hub.before_commit = [{"README.md": b"1"}, {"README.md": b"2"}]
    with pytest.raises(PublishError, match="changed twice"):
        pushed(second)


def test_nobody_signs_what_a_stranger_listed_and_no_stranger_pushes(
    first: Context, second: Context, hub: FakeHub
) -> None:
    with pytest.raises(VerifyError, match=r"no key in .* made the signature"):
        pushed(first, who="other")
    assert len(hub.repositories[REPO].commits) == 1
    them = replace(first, env={**first.env, "GB10_WHEEL_CACHE_SIGNERS": f"{first.env['KEYS']}/other.signers"})
    pushed(them, who="other")
    write_wheel(second, MINE, "another")
    with pytest.raises(VerifyError, match=r"no key in .* made the signature"):
        pushed(second)
    assert len(hub.repositories[REPO].commits) == 2


def test_only_whole_compiled_wheels_are_pushed_and_the_first_stays(
    second: Context, hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(EmptySelectionError, match="no compiled wheel"):
        pushed(second)
    assert not hub.log
    for key in ("b", "c", "d"):
        write_wheel(second, key * 64, key)
    damaged, graft = wheel(second, "c" * 64), wheel(second, "d" * 64)
    assert damaged and graft
    damaged.write_bytes(damaged.read_bytes() + b"x")
    with zipfile.ZipFile(graft, "w") as archive:
        archive.writestr("vllm/deep/manifest.json", "{}")
    (graft.parent / "sha256").unlink()
    seal(graft)
    assert moved(pushed(second)) == ["b" * 64]
    assert "(cccccccccccc) is not in the store, or damaged there" in capsys.readouterr().err
    write_wheel(second, "b" * 64, "b")  # compiled again, and not the same bytes
    before = hub.repositories[REPO].sha()
    assert (moved(pushed(second)), hub.repositories[REPO].sha()) == ([], before)
    assert "is of another compile than the one here: it stays" in capsys.readouterr().err


def test_a_token_and_ssh_keygen_are_asked_for_in_so_many_words(
    first: Context, second: Context, hub: FakeHub, tmp_path: Path
) -> None:
    pushed(first)
    with pytest.raises(FetchError, match="the Hub has no such repository, or it is private") as caught:
        pulled(replace(second, env={**second.env, "HF_TOKEN": ""}))
    assert "set HF_TOKEN" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="there is no ssh-keygen here") as bare:
        pulled(replace(second, env={**second.env, "PATH": str(tmp_path)}))
    assert bare.value.hint == "apt install openssh-client"
