"""An answer of another form is the engine's, another error is ours; what the embedded engine needs of a machine."""

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gb10.containers.docker_answers import LISTED, EventAnswer, is_odd, oddity
from gb10.containers.embedded import privileges
from gb10.containers.embedded.privileges import TOOLS, missing_capability, missing_privilege, require_privileges
from gb10.errors import EngineError


def raised(error: Exception, *packages: str) -> BaseException:
    """The error as it comes through functions of these packages, the last one raising."""
    call = None
    for package in reversed(packages):
        module = ModuleType(package)
        module.__dict__.update(call=call, error=error)
        exec("def run():\n    if call: call()\n    raise error", module.__dict__)  # noqa: S102 # one line, above
        call = module.__dict__["run"]
    assert call is not None
    try:
        call()
    except Exception as found:  # any that was asked for
        return found
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "packages", "odd"),
    [
        (KeyError("Id"), ("gb10.containers", "docker.models"), True),
        (KeyError("Id"), ("gb10.containers", "docker.models", "json"), True),
        (TypeError(), ("gb10.containers", "pydantic.main"), True),
        (Exception("odd"), ("gb10.containers", "docker.utils"), True),
        (OSError(), ("gb10.containers", "docker.models"), False),
        (KeyError("Id"), ("gb10.containers",), False),
        (KeyError("Id"), ("gb10.containers", "json", "docker"), False),
        (KeyError("Id"), ("gb10.containers", "docker.models", "gb10.core"), False),
        (KeyError("Id"), ("docker.models", "json"), False),  # first of all is this test's own frame
    ],
)
def test_whose_error_it_is(error: Exception, packages: tuple[str, ...], odd: bool) -> None:
    assert is_odd(raised(error, *packages)) is odd


def test_an_error_without_a_trace_is_nobodys() -> None:
    assert not is_odd(KeyError("Id"))


def test_what_is_odd_is_one_line() -> None:
    for given, words in (([{"Id": 3}], "0.Id: Input should be a valid string"), ("x", "the whole: Input should be")):
        with pytest.raises(ValueError, match="validation error") as caught:
            LISTED.validate_python(given)
        assert oddity(caught.value).startswith(words)
    assert oddity(KeyError("x" * 400)) == f"KeyError: '{'x' * 189}"
    assert EventAnswer.model_validate({"id": None}) == EventAnswer()  # Docker writes null for what is empty


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    for name in TOOLS:
        (tmp_path / name).touch(0o755)
    return {"PATH": str(tmp_path)}


def machine(monkeypatch: pytest.MonkeyPatch, *, platform: str = "linux", user: int = 0, granted: int = 1 << 21) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(privileges, "_effective_capabilities", lambda: granted)


def test_the_embedded_engine_needs_linux_root_a_capability_and_programs(
    monkeypatch: pytest.MonkeyPatch, tools: dict[str, str]
) -> None:
    machine(monkeypatch)
    assert missing_privilege(tools) is None
    require_privileges(tools)
    (Path(tools["PATH"]) / "mount").unlink()
    (Path(tools["PATH"]) / "grep").unlink()
    assert (missing_privilege(tools) or "").startswith("the embedded engine needs mount and grep (")
    machine(monkeypatch, granted=~(1 << 21))
    assert missing_privilege(tools) == "the embedded engine needs CAP_SYS_ADMIN, and this root lacks it"
    assert missing_capability() == "this root lacks CAP_SYS_ADMIN"
    machine(monkeypatch, user=7)
    assert missing_privilege(tools) == "the embedded engine needs root"
    assert missing_capability() == "this process is not root"
    machine(monkeypatch, platform="darwin")
    assert missing_privilege(tools) == "the embedded engine needs Linux, this is darwin"
    with pytest.raises(EngineError, match="no container engine can be used here") as caught:
        require_privileges(tools)
    assert "DOCKER_HOST" in (caught.value.hint or "")
    machine(monkeypatch)
    assert missing_capability() is None


def test_the_kernel_says_which_capabilities_this_process_has() -> None:
    line = next(one for one in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if "CapEff" in one)
    assert privileges._effective_capabilities() == int(line.split()[1], 16)  # every answer rests on it
