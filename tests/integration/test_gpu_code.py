"""A real aarch64 library without the code of other chips, by tools that we did not write: cuobjdump and readelf."""

import re
from pathlib import Path

import pytest

from gb10.core.proc import capture
from gb10.inside.scan.binary import scan_file
from gb10.inside.slim.gpu_code import thinned
from tests.integration.pinned import pinned

pytestmark = pytest.mark.integration
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def library() -> Path:
    """nvJPEG for aarch64."""
    root = pinned("arm64-library", HERE / "arm64-library.txt", platform="manylinux2014_aarch64")
    return root / "nvidia/cu13/lib/libnvjpeg.so.13"


@pytest.fixture(scope="module")
def thin(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for 12.1."""
    made = tmp_path_factory.mktemp("thin") / library.name
    made.write_bytes(thinned(library.read_bytes(), "12.1", hollow=False))
    return made


def extracted(tools: Path, path: Path, folder: Path) -> list[bytes]:
    """The cubins for sm_121 in a library, as cuobjdump writes them out."""
    folder.mkdir()
    capture([str(tools / "bin" / "cuobjdump"), "-arch", "sm_121", "-xelf", "all", str(path)], cwd=folder)
    return sorted(found.read_bytes() for found in folder.glob("*.cubin"))


def test_cuobjdump_finds_the_chosen_code_unchanged(library: Path, thin: Path, cuda_tools: Path, tmp_path: Path) -> None:
    listed = capture([str(cuda_tools / "bin" / "cuobjdump"), "-all", "-lelf", str(thin)])
    assert set(re.findall(r"\.(sm_[0-9]+[af]?)\.cubin", listed)) == {"sm_121"}
    before = extracted(cuda_tools, library, tmp_path / "before")
    assert before == extracted(cuda_tools, thin, tmp_path / "after")
    assert len(before) == listed.count(".cubin") == scan_file(thin, "b").codes["sm_121"] > 5


def test_only_the_code_is_missing(library: Path, thin: Path) -> None:
    assert thin.stat().st_size < library.stat().st_size * 0.7
    old, new = scan_file(library, "a"), scan_file(thin, "a")
    assert new.codes == {"sm_121": old.codes["sm_121"]}
    assert (new.needed, new.soname, new.versions) == (old.needed, old.soname, old.versions)
    for option in ("--dyn-syms", "-d", "--version-info", "-n"):
        assert dump(option, library) == dump(option, thin)


def dump(option: str, path: Path) -> str:
    """What readelf prints, but for places in the file, which move."""
    text = capture(["readelf", "-W", option, str(path)])
    return re.sub(r"[Oo]ffset:? 0x[0-9a-f]+", "offset", text)
