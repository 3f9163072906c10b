"""A real wheel with a patch in it: what pip and uv make of it, and that nothing else moved."""

import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from gb10.core.proc import capture
from gb10.core.store import file_sha256
from gb10.image.patches.graft import graft
from gb10.image.patches.releases import load_releases
from gb10.image.patches.series import load_series
from gb10.image.patches.verdict import changes_of, judge_series
from tests.integration.patches.releases import ctx, opened

pytestmark = pytest.mark.integration
KEY = "5eed" * 16


def test_pip_takes_a_patched_wheel_and_nothing_else_changed(tmp_path: Path) -> None:
    release = opened("sglang", "0.5.11")
    pin = load_releases(ctx().catalog.patches).source("sglang").releases["0.5.11"]
    wheel = ctx().store.entry("downloads", pin.sha256) / pin.filename
    verdicts = judge_series(load_series(ctx().catalog.patches, "sglang"), release.version, release.tree)
    changes = changes_of(verdicts)
    assert len(changes) >= 4
    made = graft(wheel, changes, KEY, tmp_path)
    names = {False: installed(wheel, tmp_path / "before"), True: installed(made, tmp_path / "after")}
    version = "0.5.11+gb10.5eed5eed"
    assert (
        capture(["sh", "-c", f"cat {tmp_path}/after/sglang-*.dist-info/METADATA"]).count(f"Version: {version}\n") == 1
    )
    moved = {path for path in names[True] if names[False].get(path) != names[True][path]}
    assert {path for path in moved if ".dist-info/" not in path} == set(changes)
    assert set(names[False]) - set(names[True]) == {path for path in names[False] if ".dist-info/" in path}
    with zipfile.ZipFile(made) as archive:
        assert archive.testzip() is None
    assert Version(version) > release.version


def installed(wheel: Path, target: Path) -> dict[str, str]:
    """Every file that pip installs, by its sha256; pip checks names, metadata and RECORD on the way."""
    pip = next((Path(__file__).parents[3] / "bootstrap").glob("pip-*.whl"))
    argv = [
        "python3",
        f"{pip}/pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
        "--platform",
        "manylinux_2_34_aarch64",
        "--python-version",
        "3.13",
        "--abi",
        "cp313",
        "--only-binary",
        ":all:",
        "--root-user-action",
        "ignore",
        "--target",
        str(target),
        str(wheel),
    ]
    capture(argv)
    return {str(path.relative_to(target)): file_sha256(path) for path in sorted(target.rglob("*")) if path.is_file()}
