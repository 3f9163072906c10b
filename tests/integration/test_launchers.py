"""Our image under the launchers of the community: their mounts, their mods, their users, with a real engine.

The arguments are those of eugr's launch-cluster.sh (2026-08) and of sparkrun 0.4.2, without the GPU, which no engine
has here, and without host networking, which the tests' engine does not need.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from docker.models.containers import Container

from gb10.containers.connection import client
from gb10.containers.emulation import emulated, register
from gb10.containers.reach import connect_or_start
from gb10.image.build.image_build import ImageBuild, Verified
from gb10.image.context import Context, open_context
from tests.integration.test_pipeline import small_plan

pytestmark = pytest.mark.integration

EUGR = (".cache/huggingface", ".cache/vllm", ".cache/flashinfer", ".triton", ".tilelang")
SITE = "/usr/local/lib/python3.12/dist-packages"


@pytest.fixture(scope="module")
def ctx() -> Context:
    return open_context(os.environ, verbosity=0)


@pytest.fixture(scope="module")
def image(ctx: Context) -> Verified:
    if not emulated(ctx.store, "arm64"):
        register(ctx.store, ctx.env, "arm64", "this test")
    return ImageBuild(ctx, small_plan(ctx)).image()


@contextmanager
def started(ctx: Context, image: Verified, command: list[str], options: dict[str, Any]) -> Iterator[Container]:
    """A running container, removed at the end."""
    with closing(client(connect_or_start(ctx.env, ctx.store))) as sdk:
        container = sdk.containers.run(
            image.tags[-1], command, detach=True, network_mode="none", platform="linux/arm64", **options
        )
        try:
            yield container
        finally:
            container.remove(force=True)


def said(container: Container, script: str) -> str:
    """What a script prints by ``docker exec``; it must succeed."""
    code, output = container.exec_run(["bash", "-c", script])
    assert isinstance(output, bytes)
    text = output.decode()
    assert code == 0, text
    return text


@pytest.fixture(scope="module")
def eugr(ctx: Context, image: Verified, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Container, Path]]:
    """A container of launch-cluster.sh, and the home directory whose caches it mounts."""
    home = tmp_path_factory.mktemp("home")
    for name in EUGR:
        (home / name).mkdir(parents=True)
    (home / ".cache/huggingface/hub").mkdir()
    (home / ".cache/huggingface/hub/model").write_text("weights", encoding="ascii")
    volumes = {str(home / name): {"bind": f"/root/{name}", "mode": "rw"} for name in EUGR}
    options: dict[str, Any] = {"entrypoint": "", "privileged": True, "ipc_mode": "host", "volumes": volumes}
    with started(ctx, image, ["sleep", "infinity"], options) as container:
        yield container, home


def test_a_mounted_model_is_found_and_a_new_one_reaches_the_host(eugr: tuple[Container, Path]) -> None:
    container, home = eugr
    assert said(container, 'cat "$HF_HOME/hub/model"; echo new > "$HF_HOME/hub/new"') == "weights"
    assert (home / ".cache/huggingface/hub/new").read_text(encoding="ascii") == "new\n"


@pytest.mark.parametrize(
    ("place", "mounted"),
    [
        ("$XDG_CACHE_HOME/vllm", ".cache/vllm"),
        ("$FLASHINFER_WORKSPACE_BASE/.cache/flashinfer", ".cache/flashinfer"),
        ("$TRITON_CACHE_DIR", ".triton"),
        ("$HOME/.tilelang", ".tilelang"),
    ],
)
def test_what_is_compiled_at_run_time_is_kept_on_the_host(
    eugr: tuple[Container, Path], place: str, mounted: str
) -> None:
    container, home = eugr
    said(container, f'echo kernel > "{place}/kernel"')
    assert (home / mounted / "kernel").read_text(encoding="ascii") == "kernel\n"


@pytest.mark.slow
def test_a_mod_that_names_python_3_12_changes_our_packages(eugr: tuple[Container, Path]) -> None:
    container, _ = eugr
    said(container, f"echo 'MOD = \"theirs\"' >> {SITE}/jinja2/__init__.py")
    assert said(container, 'python3 -c "import jinja2; print(jinja2.MOD)"') == "theirs\n"
    assert said(
        container, "id -u; cd /workspace/vllm; tail -n1 /usr/local/lib/python3.13/dist-packages/jinja2/__init__.py"
    ) == ('0\nMOD = "theirs"\n')


@pytest.mark.slow
def test_any_user_starts_without_rights_and_writes_only_caches(ctx: Context, image: Verified) -> None:
    """sparkrun's way: the host's user, no new rights, HOME in /tmp; here also on a root file system without writing."""
    options: dict[str, Any] = {
        "user": "1234:1234",
        "environment": {"HOME": "/tmp"},  # noqa: S108
        "ipc_mode": "shareable",
        "security_opt": ["no-new-privileges"],
        "cap_add": ["SYS_PTRACE"],
        "read_only": True,
        "tmpfs": {"/tmp": ""},  # noqa: S108
        "volumes": {"gb10-test-cache": {"bind": "/var/cache/gb10", "mode": "rw"}},
    }
    with started(ctx, image, ["bash", "-c", "sleep infinity"], options) as container:
        script = 'id -u; cd; pwd; echo x > "$HF_HOME/x"; mkdir -p "$XDG_CACHE_HOME/any" && python3 -c "import jinja2"'
        assert said(container, script) == "1234\n/tmp\n"


@pytest.mark.slow
def test_any_user_works_on_the_images_own_directories(ctx: Context, image: Verified) -> None:
    with started(ctx, image, ["sleep", "infinity"], {"user": "4321"}) as container:
        assert (
            said(container, 'id -u; pwd; touch mine "$HOME/mine" "$HF_HOME/mine"; ls')
            == "4321\n/workspace/vllm\nmine\n"
        )
