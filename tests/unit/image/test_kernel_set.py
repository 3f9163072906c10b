"""The kernel set `core`: which modules an arch gets, and what each must hold."""

import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from gb10.errors import UsageError
from gb10.image.recipe.kernel_sets import entries, read_sets
from gb10.inside.compile import aot
from tests.recipes import SHIPPED

KERNELS = tomllib.loads((Path(__file__).parents[3] / "recipes/kernels/flashinfer-core.toml").read_text())


@pytest.mark.parametrize(
    ("arch", "cubins"),
    [
        ("12.1f", {"norm": "12.1f", "fp4_quantization_120f": "12.0f"}),
        ("12.1a", {"norm": "12.1a", "fp4_quantization_120f": "12.0f"}),
        ("12.1", {"norm": "12.1a", "fp4_quantization_120f": "12.0f"}),
        ("12.0f", {"norm": "12.0f", "fp4_quantization_120f": "12.0f"}),
        ("12.0", {"norm": "12.0f", "fp4_quantization_120f": "12.0f"}),
    ],
)
def test_select_declares_the_code_each_module_holds(arch: str, cubins: dict[str, str | None]) -> None:
    selected = {module.name: module.cubins for module in aot.select(KERNELS, arch)}
    assert {name: selected.get(name) for name in cubins} == {k: (v,) if v else None for k, v in cubins.items()}


SETS = SHIPPED.toolkit.kernel_sets


@pytest.mark.parametrize("name", sorted(SETS))
def test_names_are_unique(name: str) -> None:
    names = [entry["name"] for entry in entries(SETS[name])]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('name = "x"\n[[modul]]\nname = "a"\n', "modul: unknown key 'modul'; did you mean 'module'?"),
        ('name = "x"\n[[module]]\nname = "a"\nfactori = "b:c"\n', "module[0].factori: unknown key 'factori'"),
        ('name = "x"\n[[module]]\nname = "a"\nfactory = "os:system"\n', "module[0].factory"),
        ('flashinfer = ["1"]\n', "name: the key 'name' is missing"),
        ('name = "x"\nflashinfer = "1"\n', "flashinfer: 'flashinfer' must be a list, found '1'"),
    ],
)
def test_a_mistake_in_a_set_is_named_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=r"recipes/kernels/flashinfer-x\.toml is not a valid kernel set") as caught:
        read_sets({"kernels/flashinfer-x.toml": text.encode()})
    assert problem in str(caught.value.where)


def test_a_set_that_names_no_releases_has_those_of_what_it_includes() -> None:
    files = {"kernels/flashinfer-a.toml": b'name = "a"\nflashinfer = ["1"]'}
    more = {"kernels/flashinfer-b.toml": b'name = "b"\nincludes = ["a"]'}
    assert read_sets(files | more)["flashinfer-b"]["flashinfer"] == ["1"]


def test_the_name_of_a_set_is_that_of_its_file() -> None:
    with pytest.raises(UsageError, match=r"recipes/kernels/flashinfer-x\.toml has the name 'y'"):
        read_sets({"kernels/flashinfer-x.toml": b'name = "y"'})


def test_a_set_for_another_release_is_refused() -> None:
    for release in KERNELS["flashinfer"]:
        aot.check_version(KERNELS, release)
    with pytest.raises(SystemExit, match=r"the kernel set core is for FlashInfer .*, the source is 9\.9"):
        aot.check_version(KERNELS, "9.9")


def spec(name: str, *sources: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, sources=[Path(source) for source in sources])


def module(name: str, *, group: bool = False, factory: str = "place:make") -> aot.Module:
    return aot.Module(name=name, factory=factory, arguments=("torch.bfloat16", 64), cubins=("12.1f",), group=group)


def test_a_module_has_the_name_that_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aot, "argument", lambda value: value)
    assert [made.name for made in aot.specs_of(module("a"), lambda *_: spec("a"), ())] == ["a"]
    with pytest.raises(SystemExit, match="place:make makes b, the kernel set names it a"):
        list(aot.specs_of(module("a"), lambda *_: spec("b"), ()))


def test_a_group_yields_what_flashinfer_calls_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aot, "argument", lambda value: value)
    given: list[object] = []

    def make(*arguments: object) -> list[SimpleNamespace]:
        given.extend(arguments)
        return [spec("prefill_64"), spec(""), spec("decode_64")]

    assert [made.name for made in aot.specs_of(module("g", group=True), make, ())] == ["prefill_64", "decode_64"]
    assert given == ["torch.bfloat16", 64]
    whole = module("all", group=True, factory=aot.WHOLE)
    assert [made.name for made in aot.specs_of(whole, lambda *own: spec(str(own)), (1, 2))] == ["(1, 2)"]


def test_what_has_no_gpu_code_declares_none() -> None:
    assert aot.Made(spec=spec("log", "log.cc"), declared=("12.1f",)).cubins == ()
    assert aot.Made(spec=spec("norm", "norm.cu", "b.cc"), declared=("12.1f",)).cubins == ("12.1f",)


def test_a_factory_that_is_not_there_cannot_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AttributeError):
        aot.leave_out({"json:no_such": "it is not there"})
    assert capsys.readouterr().out == ""
