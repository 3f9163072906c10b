"""Our package of compiled modules, as the loaders of real FlashInfer releases find it: before 0.7 by its one folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from gb10.image.lock.lockfile import load_recipe
from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.plan.compiles import BY_PROVIDERS, compile_files, stage_files
from tests.integration.patches.releases import opened

pytestmark = pytest.mark.integration

SHIPPED = Catalog(ROOT)
FILES = ("flashinfer/jit/env.py", "flashinfer/compilation_context.py", "flashinfer/jit/_cuda_architecture.py")
"""The loader and what it imports; the last one is of 0.7.2."""
LOAD = """
import sys, types
sys.modules["torch"] = types.SimpleNamespace()  # its GPU is named by FLASHINFER_CUDA_ARCH_LIST
for name, place in (("flashinfer", "flashinfer"), ("flashinfer.jit", "flashinfer/jit")):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [place]
from flashinfer.jit import env
import flashinfer_jit_cache
providers = getattr(flashinfer_jit_cache, "get_jit_cache_providers", tuple)()
print(env.FLASHINFER_AOT_DIR, *(one.jit_cache_dir for one in providers))
"""


def init_of(release: str) -> str:
    """The ``__init__`` that the plan of a release puts into the package."""
    recipe = load_recipe(ROOT / "recipes/images/vllm.yaml")
    build = recipe.wheels["flashinfer-jit-cache"]
    source = recipe.sources[build.source].model_copy(update={"sdist": f"flashinfer-python=={release}"})
    recipe = recipe.model_copy(update={"sources": {**recipe.sources, build.source: source}})
    scripts = SHIPPED.toolkit.digests_of(*compile_files(recipe, build))
    return stage_files(scripts, SHIPPED.contents)[BY_PROVIDERS].decode()


def loaded(folder: Path, release: str, init: str) -> subprocess.CompletedProcess[str]:
    """FlashInfer's own loader of a release, beside a package with this ``__init__`` and one module."""
    tree = opened("flashinfer", release).tree
    texts = {name: content.decode() for name in FILES if (content := tree.read(name))}
    texts["flashinfer/version.py"] = f"__version__ = {release!r}\n"
    texts["flashinfer_jit_cache/__init__.py"] = init
    texts["flashinfer_jit_cache/manifest.json"] = '{"modules": {"norm": {"cubins": ["12.1f"]}}}'
    info = f"flashinfer_jit_cache-{release}+gb10.1.dist-info/METADATA"
    texts[info] = f"Metadata-Version: 2.1\nName: flashinfer-jit-cache\nVersion: {release}+gb10.1\n"
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return subprocess.run(
        [sys.executable, "-c", LOAD],
        cwd=folder,
        env={"FLASHINFER_CUDA_ARCH_LIST": "12.1a", "FLASHINFER_WORKSPACE_BASE": str(folder), "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("release", ["0.6.7.post2", "0.6.18", "0.7.0", "0.7.2.post1"])
def test_the_loader_of_each_release_looks_into_our_modules(tmp_path: Path, release: str) -> None:
    ran = loaded(tmp_path, release, init_of(release))
    assert not ran.returncode, ran.stderr
    assert str(tmp_path / "flashinfer_jit_cache/modules") in ran.stdout.split()


def test_before_0_7_the_package_of_later_releases_breaks_the_loader(tmp_path: Path) -> None:
    """Why there are two."""
    ran = loaded(tmp_path, "0.6.18", init_of("0.7.2.post1"))
    assert "has no attribute 'get_jit_cache_dir'" in ran.stderr
