"""The wheel cache without a network: its settings, its listing, and what it costs those who have none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gb10.cli.app import MODULES
from gb10.core.host import open_host
from gb10.errors import UsageError, VerifyError
from gb10.image.plan.catalog import ROOT
from gb10.image.publish.sharing import (
    REPO,
    SIGNERS,
    Listed,
    read_listing,
    require_wheel_repository,
    take_missing,
    wheel_cache,
    write_listing,
)
from gb10.sources.hub import open_hub
from tests.golden.small import plan_for
from tests.golden.test_render import options

KEY, SHA256 = "a" * 64, "b" * 64
WHEELS = {KEY: Listed(file="flashinfer_jit_cache-0.7+gb10.aaaaaaaa-py3-none-any.whl", sha256=SHA256, size=5)}


def test_a_listing_reads_back_and_is_one_text_for_one_content() -> None:
    more = {**WHEELS, "0" * 64: WHEELS[KEY]}
    assert read_listing(write_listing(more)) == more
    assert write_listing(more) == write_listing(dict(reversed(more.items())))
    assert WHEELS[KEY].path(KEY) == f"wheels/{KEY}/{WHEELS[KEY].file}"


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"wheels": {"short": {}}},
        {"wheels": {KEY: {"file": "../../a.whl", "sha256": SHA256, "size": 1}}},
        {"wheels": {KEY: {"file": "a.whl\n", "sha256": SHA256, "size": 1}}},
        {"wheels": {KEY: {"file": "a.whl", "sha256": SHA256, "size": -1}}},
        {"wheels": {KEY: {"file": "a.whl", "sha256": SHA256, "size": 1, "url": "x"}}},
        {"more": 1},
    ],
)
def test_a_listing_of_another_kind_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(VerifyError, match="not one that this version reads"):
        read_listing(json.dumps({**json.loads(write_listing(WHEELS)), **change}))
    with pytest.raises(VerifyError):
        read_listing("{")


def test_a_cache_is_asked_for_what_the_store_lacks_alone(tmp_path: Path) -> None:
    """A cache without signers is a mistake, so this tells when one would be asked."""
    host = open_host(
        {"HOME": str(tmp_path), "GB10_CACHE_DIR": str(tmp_path / "store"), REPO: "me/wheels"}, verbosity=-1
    )
    plan = plan_for(options("12.1f"))
    with pytest.raises(UsageError, match="who may sign the wheels of me/wheels"):
        take_missing(host, plan, ())
    take_missing(host, plan, [step.name for step in plan.of_kind("wheel")])


def test_a_cache_needs_somebody_who_is_trusted(tmp_path: Path) -> None:
    assert wheel_cache({SIGNERS: str(tmp_path / "none")}) is None
    with pytest.raises(UsageError, match="no wheel cache is named"):
        require_wheel_repository({}, None)
    for env in ({REPO: "me/wheels"}, {REPO: "me/wheels", SIGNERS: str(tmp_path / "none")}):
        with pytest.raises(UsageError, match="who may sign the wheels of me/wheels"):
            wheel_cache(env)
    (tmp_path / "signers").touch()
    env = {REPO: "me/wheels", SIGNERS: str(tmp_path / "signers")}
    assert require_wheel_repository(env, None).repo == "me/wheels"
    assert require_wheel_repository(env, "you/wheels").repo == "you/wheels"


@pytest.mark.parametrize("name", ["wheels", "a/b/c", "https://huggingface.co/a/b", "../b", "a/", ""])
def test_a_repository_has_an_owner_and_a_name(name: str) -> None:
    with pytest.raises(UsageError, match="is not a Hub repository name"):
        open_hub(name, {})


def test_no_verb_loads_the_hubs_client_before_it_is_needed() -> None:
    verbs = ", ".join(["gb10.cli.app", *(MODULES[verb] for verb in ("image", "wheels", "plan", "cache"))])
    code = f"import sys, {verbs}; print('huggingface_hub' in sys.modules, 'httpx2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
