"""The compile cache that machines share: what ccache and a stage are told of it, and what is read out of it."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from gb10.core.files import Artifact
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.image.build.compile import SAYS, SCRIPT, cache_secret, configuration, reads_reviewed, shared_cache
from gb10.image.context import Context
from gb10.image.plan.options import PatchUse
from gb10.image.plan.values import Inputs, Origin
from gb10.inside.compile.compile_cache import SAYS as STAGE_SAYS
from gb10.inside.compile.compile_cache import address, summary
from tests.recipes import SHIPPED

LOCAL = "direct_cache_hit\nlocal_storage_hit\nlocal_storage_read_hit\n"
REMOTE = "direct_cache_hit\nlocal_storage_miss\nremote_storage_hit\n"
MISS = "cache_miss\nlocal_storage_miss\nremote_storage_miss\n"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://h:1/2", "redis://h:1/2"),
        ("redis://u:p@h", "redis://u:p@h"),
        ("redis://:p%3Aq@h", "redis://default:p%3Aq@h"),  # ccache: no login
        ("redis://p%3Aq@h", "redis://default:p%3Aq@h"),  # ccache: the user p
        ("http://u:p@h/c", "http://u:p@h/c"),
    ],
)
def test_a_redis_login_names_its_user(url: str, told: str) -> None:
    text = configuration(url)
    assert text.splitlines()[0] == f"remote_storage = {told}|connect-timeout=1000"
    assert address(text).geturl() == told


def test_where_results_came_from() -> None:
    log = "".join(f"# a.cu\n{what}" for what in (LOCAL, REMOTE, REMOTE, MISS, "recache\nremote_storage_write\n"))
    assert summary(log) == "units: 1 from this builder, 2 from the server, 2 compiled"
    assert summary("") == "units: 0 from this builder, 0 from the server, 0 compiled"


def test_a_server_that_failed_meanwhile_is_told() -> None:
    log = f"# a\n{MISS}remote_storage_timeout\n# b\n{MISS}remote_storage_error\n# c\n{MISS}"
    assert summary(log) == "units: 0 from this builder, 0 from the server, 3 compiled; the server failed for 2"


def inputs(path: str | None = None) -> Inputs:
    """What a stage compiles: one archive with one patch, from the series or, with a path, by hand."""
    use = PatchUse(source="vllm", project="vllm", name="0001-a", sha256="0" * 64, path=path)
    return Inputs(origins=(Origin(context="vllm", file=Artifact("a", "0" * 64, 1), patches=(use,)),), wheels={})


def test_a_change_by_hand_and_a_projects_own_build_get_no_server(tmp_path: Path) -> None:
    """What it writes into a cache would outlive its build, and the server's secret would be its own to read."""
    ctx = Context(
        env={"GB10_COMPILE_CACHE": "redis://:p@h:1"}, store=Store(tmp_path), reporter=Reporter({}), catalog=SHIPPED
    )
    assert shared_cache(ctx.env, inputs())
    assert shared_cache(ctx.env, inputs("/home/me/fix.diff")) is None
    with cache_secret(ctx, inputs("/home/me/fix.diff")) as secrets:
        assert secrets == {}
    own = replace(inputs(), whole=True)
    assert shared_cache(ctx.env, own) is None
    with cache_secret(ctx, own) as secrets:
        assert secrets == {}
    for name in ("wheel", "targets", "program"):
        text = ctx.catalog.templates[f"{name}.Dockerfile.j2"]
        assert "ccache.mounts(shared, machine, by_hand, reviewed, jobs)" in text


@pytest.mark.parametrize(
    ("diff", "reads"),
    [
        ("--- a/b.h\n+++ b/b.h\n@@ -1 +1 @@\n-old\n+new\n", True),
        ("--- /dev/null\n+++ b/b.h\n@@ -0,0 +1 @@\n+new\n", False),
    ],
)
def test_a_change_by_hand_reads_reviewed_results_unless_it_brings_a_file(
    tmp_path: Path, diff: str, reads: bool
) -> None:
    (tmp_path / "fix.diff").write_text(diff)
    (origin,) = inputs(str(tmp_path / "fix.diff")).origins
    use = replace(origin.patches[0], sha256=hashlib.sha256(diff.encode()).hexdigest())
    given = replace(inputs(), origins=(replace(origin, patches=(use,)),))
    assert (given.by_hand, reads_reviewed(given)) == (True, reads)


def test_what_an_image_says_of_its_plan_is_by_hand() -> None:
    assert not inputs().by_hand
    assert replace(inputs(), foreign=True).by_hand


def test_the_secret_is_for_this_user_and_gone_afterwards(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    env = {"GB10_COMPILE_CACHE": "redis://:p@h:1"}
    ctx = Context(env=env, store=Store(tmp_path), reporter=Reporter({}), catalog=SHIPPED)
    with cache_secret(ctx, inputs()) as secrets:
        (path,) = secrets.values()
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert "default:p@h:1" in path.read_text(encoding="utf-8")
    assert not path.parent.exists()
    assert capfd.readouterr().err == "compile cache redis://***@h:1: the compile stage has a network for it\n"


@pytest.mark.parametrize("env", [{}, {"GB10_COMPILE_CACHE": ""}])
def test_without_a_server_there_is_no_secret(
    env: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ctx = Context(env=env, store=Store(tmp_path), reporter=Reporter({}), catalog=SHIPPED)
    with cache_secret(ctx, inputs()) as secrets:
        assert secrets == {}
    assert capfd.readouterr().err == ""


def test_the_stages_lines_are_those_that_are_repeated() -> None:
    assert (STAGE_SAYS, SCRIPT in SHIPPED.contents) == (SAYS, True)
