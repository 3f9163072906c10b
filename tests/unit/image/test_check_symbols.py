"""The check ``symbols``: libraries and symbols that are not there, but for those that recipes/verify.yaml allows."""

import pytest

from gb10.image.plan.catalog import ROOT, Catalog
from gb10.image.proof.check import Subject
from gb10.image.proof.checks.symbols import CHECK
from gb10.image.recipe.allowances import Allowances, AllowedLibrary, AllowedSymbol
from gb10.inside.scan.binary import Binary
from gb10.inside.scan.linked import Absent, Elsewhere, Linked, Unresolved
from gb10.inside.scan.scan import Scan
from tests.unit.made_up_images import SITE, found

VLLM = f"{SITE}/vllm/_C.abi3.so"
SHMEM = f"{SITE}/nvidia/nvshmem/lib/nvshmem_transport_ucx.so.3"
ALLOWED = Catalog(ROOT).allowances


def judged(linked: Linked) -> list[tuple[str, str]]:
    """File and finding of each problem."""
    return found(CHECK.judge(Subject(scan=Scan(root="image"), linked=linked, allowed=ALLOWED)))


def test_a_library_that_is_not_there() -> None:
    lacking = Absent(path=VLLM, library="libtorch.so")
    assert judged(Linked(absent=(lacking,))) == [("_C.abi3.so", "no such file in the image")]


def test_the_drivers_library_is_allowed_and_excuses_its_own_symbols_alone() -> None:
    driver = Absent(path=VLLM, library="libcuda.so.1")
    own = Unresolved(path=VLLM, symbol="cuMemCreate", when="load")
    other = Unresolved(path=VLLM, symbol="_ZN3c104cuda9somethingEv", when="call")
    assert judged(Linked(absent=(driver,), unresolved=(own,))) == []
    told = "undefined _ZN3c104cuda9somethingEv: it fails when it calls them"
    assert judged(Linked(absent=(driver,), unresolved=(own, other))) == [("_C.abi3.so", told)]
    assert judged(Linked(unresolved=(own,))) == [("_C.abi3.so", "undefined cuMemCreate: it cannot be loaded")]


@pytest.mark.parametrize("path", [SHMEM, VLLM])
def test_an_allowance_is_for_the_files_that_it_names(path: str) -> None:
    linked = Linked(
        absent=(Absent(path=path, library="libucp.so.0"),),
        unresolved=(Unresolved(path=path, symbol="ucp_init@X", when="call"),),
    )
    assert len(judged(linked)) == (0 if path == SHMEM else 2)


def test_symbols_of_one_file_are_one_problem_and_the_first_are_named() -> None:
    many = tuple(Unresolved(path=VLLM, symbol=f"s{number}", when="load") for number in range(5))
    assert judged(Linked(unresolved=many)) == [("_C.abi3.so", "undefined s0, s1, s2 and 2 more: it cannot be loaded")]


def test_three_symbols_are_all_named() -> None:
    three = tuple(Unresolved(path=VLLM, symbol=f"s{number}", when="load") for number in range(3))
    assert judged(Linked(unresolved=three)) == [("_C.abi3.so", "undefined s0, s1, s2: it cannot be loaded")]


def test_what_another_library_of_the_image_has_is_there() -> None:
    assert judged(Linked(elsewhere=(Elsewhere(path=VLLM, by="x.so", count=3),))) == []


@pytest.mark.parametrize(("beside", "problems"), [("313", 0), ("312", 1), ("313t", 1)])
def test_a_module_for_another_python_is_loaded_by_nobody_where_the_right_one_is_beside_it(
    beside: str, problems: int
) -> None:
    other, own = (f"usr/lib/python3.13/dist-packages/deep_gemm/_C.cpython-{tag}-aarch64.so" for tag in ("310", beside))
    linked = Linked(
        absent=(Absent(path=other, library="libpython3.10.so.1.0"),),
        unresolved=(Unresolved(path=other, symbol="_PyThreadState_UncheckedGet", when="call"),),
    )
    scan = Scan(root="image", binaries=tuple(Binary(path=path, kind="elf", size=1) for path in (other, own)))
    assert len(CHECK.judge(Subject(scan=scan, linked=linked))) == 2 * problems
    its_own = Linked(unresolved=(Unresolved(path=own, symbol="gone", when="load"),))
    assert len(CHECK.judge(Subject(scan=scan, linked=its_own))) == 1


def test_a_list_that_was_cut_is_no_proof() -> None:
    assert judged(Linked(more=7)) == [("the image", "7 more")]


def test_every_allowance_has_a_reason_and_no_pattern_of_all_files_allows_all_symbols() -> None:
    for one in ALLOWED.libraries:
        assert "*" not in one.symbols or one.of != ("*",)
    reasons = [*(one.why for one in ALLOWED.libraries), *(one.why for one in ALLOWED.symbols)]
    assert all(len(why) > 20 for why in reasons)


def test_an_entry_fits_by_the_name_and_by_the_file() -> None:
    libraries = (AllowedLibrary(names=("libcuda.so.1",), of=("*/torch/*",), symbols=("cu*",), why="the driver's"),)
    symbols = (AllowedSymbol(names=("cu*", "nv?"), of=("*/a.so",), why="the driver's"),)
    allowed = Allowances(libraries=libraries, symbols=symbols)
    asked = (("libcuda.so.1", "x/torch/a.so"), ("libcuda.so.1", "x/a.so"), ("libcuda.so.10", "x/torch/a.so"))
    assert [allowed.absent(*one) for one in asked] == [libraries[0], None, None]
    wanted = (("cuInit", "x/a.so"), ("nvx", "x/a.so"), ("nvxx", "x/a.so"), ("cuInit", "x/b.so"))
    assert [allowed.unresolved(*one) for one in wanted] == [symbols[0], symbols[0], None, None]
