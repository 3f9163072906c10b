"""What a compile stage exports: a link, or a file that nobody expects, never reaches the store."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from gb10.containers.buildx.build import BuildRequest, BuildResult
from gb10.containers.buildx.progress import IMPORT, Event, LogLine, Note, StepDone, StepFailed, StepStarted
from gb10.containers.connection import Endpoint, Engine
from gb10.core.reporter import Reporter
from gb10.core.store import Store, seal
from gb10.errors import BuildError, EngineError
from gb10.image.build import stage
from gb10.image.build.stage import WARNING, check_builder, check_caches, check_exported, log_path, run_build
from gb10.image.context import Context, build_architecture
from gb10.image.plan.values import Step
from tests.recipes import SHIPPED

WHEEL = ("*.whl", "manifest.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good export."""
    found = tmp_path / "work"
    found.mkdir()
    (found / "a-1.whl").write_bytes(b"wheel")
    (found / "manifest.json").write_text("{}", encoding="ascii")
    return found


def test_the_expected_files_are_accepted(folder: Path) -> None:
    check_exported(folder, *WHEEL)


@pytest.mark.parametrize("name", ["sha256", "manifest.json", "b-1.whl"])
def test_a_link_is_refused_and_its_target_unchanged(folder: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="ascii")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(victim)
    with pytest.raises(BuildError, match=name):
        check_exported(folder, *WHEEL)
    assert victim.read_text(encoding="ascii") == "mine"


def test_a_folder_and_an_unknown_name_are_refused(folder: Path) -> None:
    (folder / "c.whl").mkdir()
    with pytest.raises(BuildError, match=r"c\.whl"):
        check_exported(folder, *WHEEL)
    (folder / "c.whl").rmdir()
    (folder / "more\n").write_text("", encoding="ascii")
    with pytest.raises(BuildError, match=r"more\\n"):
        check_exported(folder, *WHEEL)


def test_sealing_follows_no_link_and_overwrites_nothing(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (folder / "sha256").symlink_to(victim)
    with pytest.raises(FileExistsError):
        seal(folder / "a-1.whl")
    assert not victim.exists()
    (folder / "sha256").unlink()
    seal(folder / "a-1.whl")
    with pytest.raises(FileExistsError):
        seal(folder / "a-1.whl")


def test_what_buildkit_says_of_a_stage_is_shown_or_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[Event] = [
        StepStarted(step="[one 1/2] RUN make"),
        LogLine(step="[one 1/2] RUN make", text="gcc -c a.c"),
        StepFailed(step=f"{IMPORT} registry", error="not found"),
        StepFailed(step="[one 1/2] RUN make", error="exit code 2"),
        Note(text=f"{WARNING} not found at /cache"),
        Note(text="other"),
        StepDone(step="[one 1/2] RUN make", seconds=2.0, cached=False),
    ]
    asked: list[BuildRequest] = []
    result = cast("BuildResult", object())

    def build(
        _: object, request: BuildRequest, *, log: Path, on_event: Callable[[Event], None], stop: object
    ) -> object:
        asked.append(request)
        assert log == log_path(ctx.store, step)
        for event in told:
            on_event(event)
        return result

    monkeypatch.setattr(stage, "open_buildx", lambda *_: None)
    monkeypatch.setattr(stage, "build", build)
    events: list[tuple[str, object]] = []
    ctx = Context(
        env={},
        store=Store(tmp_path),
        reporter=Reporter({}, verbosity=1),
        catalog=SHIPPED,
        cache_from=("type=local,src=/cache",),
        on_build=lambda _, step, event: events.append((step.name, event)),
    )
    step = cast("Step", SimpleNamespace(name="one", key="0123456789abcdef"))
    request = BuildRequest(dockerfile=tmp_path, target="one", platform="linux/arm64")
    seen: list[Event] = []
    assert run_build(ctx, cast("Engine", None), request, step, seen.append) is result
    assert (seen, events) == (told, [("one", event) for event in told])
    assert asked[0].cache_from == ("type=local,src=/cache",)
    said = capsys.readouterr().err
    assert "gcc -c a.c" in said
    assert f"{IMPORT} registry failed, building without it: not found" in said
    assert f"{WARNING} not found at /cache" in said
    assert "exit code 2" not in said and "other" not in said


ENGINE = Engine(kind="user", endpoint=Endpoint(host="h", origin=""), version="1", api="1", containerd=False)


@pytest.mark.parametrize(
    ("asked", "containerd", "builder", "refused"),
    [(True, False, None, True), (True, True, None, False), (True, False, "big", False), (False, False, None, False)],
)
def test_a_cache_is_exported_by_containerds_store_or_a_builder(
    asked: bool, containerd: bool, builder: str | None, refused: bool, tmp_path: Path
) -> None:
    cache = ("type=local",) if asked else ()
    ctx = Context(env={}, store=Store(tmp_path), reporter=Reporter({}), catalog=SHIPPED, cache_to=cache)
    with pytest.raises(EngineError, match="exports no build cache") if refused else nullcontext():
        check_caches(ctx, replace(ENGINE, containerd=containerd, builder=builder))


@pytest.mark.parametrize("driver", ["docker", "docker-container"])
def test_a_builder_that_is_an_engine_is_named_as_one(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def require_builder(*words: object) -> object:
        asked.append(str(words[-1]))
        return SimpleNamespace(driver=driver)

    monkeypatch.setattr(stage, "require_builder", require_builder)
    ctx = Context(env={}, store=Store(tmp_path), reporter=Reporter({}), catalog=SHIPPED)
    assert check_builder(ctx, ENGINE) is ENGINE
    assert asked == []
    own = replace(ENGINE, builder="big")
    if driver == "docker":
        with pytest.raises(EngineError, match="the builder big is an engine of its own") as caught:
            check_builder(ctx, own)
        assert "DOCKER_CONTEXT=big" in (caught.value.hint or "")
    else:
        assert check_builder(ctx, own) is own
    assert asked == [f"linux/{build_architecture()}"]
