"""Mods under emulation: which emulator counts, what is registered with the kernel, how a crash of qemu is named."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.containers import emulation
from gb10.containers.buildx.progress import StepStarted
from gb10.containers.emulation import emulated, emulator_key, held_version, register
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import BuildError
from gb10.image.build.mod_layers import mod_note, naming_mods, note_build, ready_emulation
from gb10.image.context import Context
from tests.recipes import SHIPPED
from tests.unit.image.test_mods_plan import ENTRY, ONE, TWO, engine, plan

OURS = "gb10-qemu-aarch64"


@pytest.fixture
def binfmt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the kernel's table, and a process that may write to it."""
    folder = tmp_path / "binfmt"
    folder.mkdir()
    for name, text in {"status": "enabled\n", "register": ""}.items():
        (folder / name).write_text(text, encoding="ascii")
    monkeypatch.setattr(emulation, "BINFMT", folder)
    monkeypatch.setattr(emulation, "missing_capability", lambda: None)
    return folder


def enter(binfmt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, name: str = "qemu") -> None:
    """Register an emulator that the kernel holds; the file of its path was upgraded since.

    A first line that names an interpreter stands for the header of another machine: the kernel runs that program.
    """
    held, path = tmp_path / "held", tmp_path / "aarch64-binfmt-P"
    for program, reported in ((held, version), (path, "99.0")):
        program.write_text(f'#!/bin/sh\n[ "$QEMU_VERSION" = 1 ] && echo "qemu-aarch64 version {reported} (Debian)"\n')
        program.chmod(0o755)
    header = f"#!{held}\n".encode()
    monkeypatch.setattr(emulation, "PROGRAMS", {"arm64": ("qemu-aarch64", header)})
    text = re.sub(r"/usr\S+", str(path), ENTRY)
    (binfmt / name).write_text(re.sub(r"magic \w+", f"magic {header.hex()}", text), encoding="utf-8")


def filled(tmp_path: Path) -> Store:
    """A store that has the emulator already."""
    store = Store(tmp_path / "store")
    store.ensure("emulators", emulator_key("qemu-aarch64"), lambda out: (out / "qemu-aarch64").touch())
    return store


@pytest.mark.parametrize(
    ("version", "enough"), [("7.2.22", False), ("9.2.0", False), ("10.0.13", True), ("11.1", True)]
)
def test_an_old_emulator_of_the_host_is_not_used(
    binfmt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, enough: bool
) -> None:
    enter(binfmt, tmp_path, monkeypatch, version)
    store = filled(tmp_path)
    assert held_version(store, "arm64") == version
    assert emulated(store, "arm64") is enough
    assert register(store, {}, "arm64", "the mod one") == (None if enough else "qemu-aarch64")
    assert (b"gb10-qemu-aarch64" in (binfmt / "register").read_bytes()) is not enough


def test_a_kernel_that_runs_no_such_program_has_no_emulator(
    binfmt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulation, "PROGRAMS", {"arm64": ("qemu-aarch64", b"\x7fnone")})
    assert held_version(Store(tmp_path / "store"), "arm64") is None


def test_what_another_registered_stays(binfmt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(binfmt, tmp_path, monkeypatch, "7.2.22")
    before = (binfmt / "qemu").read_bytes()
    register(filled(tmp_path), {}, "arm64", "the mod one")
    assert (binfmt / "qemu").read_bytes() == before
    assert not (binfmt / OURS).exists()


def test_our_own_registration_counts_and_is_replaced_when_it_is_off(
    binfmt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(binfmt, tmp_path, monkeypatch, "10.0.13", OURS)
    assert register(filled(tmp_path), {}, "arm64", "the mod one") is None
    (binfmt / OURS).write_text(ENTRY.replace("enabled", "disabled"), encoding="ascii")
    assert register(filled(tmp_path), {}, "arm64", "the mod one") == "qemu-aarch64"
    assert (binfmt / OURS).read_bytes() == b"-1"


def test_the_emulator_that_will_run_is_named_before_the_first_mod(
    binfmt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    version, note = "7.2.22", "older than 10.0, programs that import torch may crash"
    enter(binfmt, tmp_path, monkeypatch, version)
    monkeypatch.setattr(emulation, "missing_capability", lambda: "this process is not root")
    ctx = Context(env={}, store=Store(tmp_path / "store"), reporter=Reporter({}), catalog=SHIPPED)
    here = replace(engine("user"), data=tmp_path)
    ready_emulation(ctx, here, plan(ONE))
    assert capsys.readouterr().err.endswith(f"the kernel's emulator is qemu {version}: {note}\n")
    enter(binfmt, tmp_path, monkeypatch, "10.0.13")
    ready_emulation(ctx, here, plan(ONE))
    assert capsys.readouterr().err.endswith("the kernel's emulator is qemu 10.0.13\n")


def test_an_old_emulator_serves_where_none_may_be_registered(
    binfmt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(binfmt, tmp_path, monkeypatch, "7.2.22")
    monkeypatch.setattr(emulation, "missing_capability", lambda: "this process is not root")
    assert register(Store(tmp_path / "store"), {}, "arm64", "the mod one") is None


def failure(words: str) -> str:
    with pytest.raises(BuildError) as caught, naming_mods(plan(ONE)):
        raise BuildError("build step failed: [mod-1 1/1] RUN", where=f"{words}\nlog: /l")
    assert caught.value.code == 8
    assert words.splitlines()[-1] in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        "qemu: uncaught target signal 11 (Segmentation fault) - core dumped",
        "Can't open MIDR_EL1 sysfs entry\none: run.sh exited with 139",
        "one: run.sh exited with -11",
        "./run.sh: line 3: 12 Segmentation fault      python3 -c 'import torch'\none: run.sh exited with 1",
    ],
)
def test_a_crash_of_the_emulator_is_not_the_mods_failure(words: str) -> None:
    text = failure(words)
    assert text.startswith("error: the emulator crashed while it ran the mod one\n")
    assert "hint: " in text
    assert "linux/arm64" in text.partition("hint: ")[2]


@pytest.mark.parametrize(
    "words",
    [
        "one: run.sh exited with 1",
        "Can't open MIDR_EL1 sysfs entry\none: run.sh exited with 7",
        "qemu: uncaught target signal 6 (Aborted) - core dumped\none: run.sh exited with 134",
    ],
)
def test_a_mods_own_failure_is_its_own(words: str) -> None:
    assert failure(words).startswith("error: the mod one failed\n")


@pytest.mark.parametrize(
    ("step", "note"),
    [
        ("[mod-1 1/1] RUN --network=none --mount=type=bind,from=mod-1-files", "mod one 1/2 (emulated)"),
        ("[linux/arm64 mod-2 1/1] RUN --network=none", "mod two 2/2 (emulated)"),
        ("[scan-mod-1 1/1] RUN python3", None),
        ("[internal] load mod-1", None),
        ("exporting mod-1", None),
    ],
)
def test_progress_names_the_mod_that_runs(step: str, note: str | None) -> None:
    assert mod_note(plan(ONE, TWO), step) == note


def test_a_native_mod_is_not_called_emulated() -> None:
    made = plan(ONE)
    native = replace(made, options=replace(made.options, build="arm64"))
    assert mod_note(native, "[mod-1 1/1] RUN") == "mod one 1/1"


def test_the_task_shows_the_mods_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ctx = Context(env={}, store=Store(tmp_path), reporter=Reporter({}, interval=0), catalog=SHIPPED)
    with ctx.reporter.task("layers and proof", unit="steps") as task:
        note_build(ctx.reporter, plan(ONE, TWO), task, StepStarted("[mod-2 1/1] RUN --network=none --mount=type=bind"))
    assert "mod two 2/2 (emulated)" in capsys.readouterr().err


def test_an_emulated_mod_is_announced_as_slow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ctx = Context(env={}, store=Store(tmp_path), reporter=Reporter({}), catalog=SHIPPED)
    ready_emulation(ctx, engine("user"), plan(ONE))
    assert "it can take minutes" in capsys.readouterr().err
    ready_emulation(ctx, engine("user"), plan())
    assert not capsys.readouterr().err
