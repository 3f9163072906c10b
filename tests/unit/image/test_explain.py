"""explain without an engine: its data, what it reads from a child, and what it says of a kernel's code."""

import json
import shutil
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from gb10.cli import main
from gb10.cli.look import explain as verb
from gb10.cli.look.explain import as_document, engine_of, print_rows
from gb10.core.proc import SILENT, CommandFailedError
from gb10.errors import FetchError, Gb10Error, LockStaleError, UsageError, VerifyError
from gb10.image.context import open_context
from gb10.image.explain import engine_choice
from gb10.image.explain.engine_choice import (
    CHILD,
    AskedEngine,
    Held,
    Question,
    ask_engine,
    ask_models,
    image_wheels,
    options_by_engine,
    refuse,
    write_model,
    write_own_package,
)
from gb10.image.explain.engine_files import (
    FOLDER,
    EngineFacts,
    Packages,
    check_interpreter,
    read_facts,
    read_operators,
    unpack,
)
from gb10.image.explain.layer_rows import Answer, check_engine, code_of, read_answer
from gb10.image.explain.operators import schemas
from gb10.image.lock.lockfile import load_lock, load_recipe
from gb10.image.plan.catalog import ROOT
from gb10.image.proof.arch_match import Judged
from gb10.image.recipe.kernel_sets import BY_KERNEL, KernelEntry
from gb10.image.request.kernel_choice import check_model, local_files
from gb10.image.request.optional_layers import drop_optional_layers
from gb10.inside.scan.binary import Binary
from gb10.inside.scan.code_fit import Fit
from gb10.inside.scan.installed import Distribution

ROW = (
    '{"name":"a.*","count":2,"kind":"linear","class":"L","format":"F","shape":"1x2","chosen":"FlashInferExperts",'
    '"held":null,"refused":{"MarlinExperts":"no"},"fits":[],"options":{}}'
)


@pytest.fixture(name="facts")
def vllm_facts() -> EngineFacts:
    return read_facts(ROOT, "vllm")[0]


def judged(path: str, fit: Fit) -> Judged:
    return Judged(binary=Binary(path=path, kind="elf", size=1), fit=fit, units={})


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_facts_and_packages_are_of_the_locked_engine(engine: str) -> None:
    facts, packages = read_facts(ROOT, engine)
    lock = load_lock(ROOT / f"recipes/images/{engine}.lock.json").wheels.image
    locked = {wheel.name: wheel.version for wheel in lock["arm64"]}
    assert facts.engine == packages.engine == locked[engine]
    assert {*facts.from_image} <= {*locked}
    assert {*facts.twins} <= {wheel.name for wheel in lock["amd64"]}
    own = {wheel.name for wheel in packages.wheels}
    assert own | {*facts.twins} >= {"torch", "transformers", "compressed-tensors"}
    assert not own & {*facts.twins}
    assert (CHILD / f"{facts.script.replace('.', '/')}.py").is_file()


def test_a_package_that_the_image_leaves_out_is_not_asked(facts: EngineFacts) -> None:
    path = ROOT / "recipes/images/vllm.yaml"
    recipe, lock = load_recipe(path), load_lock(ROOT / "recipes/images/vllm.lock.json")
    assert [wheel.name for wheel in image_wheels(recipe, lock, facts)] == [*facts.from_image]
    smaller = image_wheels(*drop_optional_layers(recipe, lock, ("b12x",)), facts)
    assert [wheel.name for wheel in smaller] == [name for name in facts.from_image if name != "b12x"]


def test_an_engine_without_facts_is_named() -> None:
    with pytest.raises(UsageError, match="does not know the engine 'llama'"):
        read_facts(ROOT, "llama")


def test_operators_are_the_schemas_of_a_module() -> None:
    module = b"\x00awq_gemm(Tensor a, int b) -> Tensor\x00std::f(int) -> x\x00plain text\x00f(int) -> bool\x00"
    assert schemas(module.replace(b"\x00", b"\x00\x00")) == ("awq_gemm(Tensor a, int b) -> Tensor", "f(int) -> bool")


def test_texts_side_by_side_share_a_zero_byte() -> None:
    assert schemas(b"\x00a(int x) -> int\x00b(int x) -> int\x00c(int x) -> int\x00") == tuple(
        f"{name}(int x) -> int" for name in "abc"
    )


@pytest.mark.parametrize("document", ["", "[]", "{}", '{"stopped":null,"rows":[{}],"tried":[]}', '{"rows":1}'])
def test_a_child_that_says_something_else_is_an_error(document: str) -> None:
    with pytest.raises(Gb10Error, match="no answer"):
        read_answer(document, "m")


def test_an_answer_is_kept_until_something_that_it_follows_from_changes(
    facts: EngineFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = list[Path]()

    def child(*_: object, cwd: Path, **__: object) -> str:
        runs.append(cwd)
        return document(Answer(stopped=None, rows=[], tried=[]))

    (tmp_path / "files").mkdir()
    (tmp_path / "files/operators.json").write_text("{}")
    (tmp_path / "others").mkdir()
    (tmp_path / "others/operators.json").write_text("{}")
    monkeypatch.setattr(engine_choice, "capture_while_active", child)
    host = open_context({"GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=-1)
    plain = partial(ask_engine, host, facts, tmp_path / "files", {"a": 1}, {})
    assert plain() == plain()
    assert len(runs) == 1
    ask_engine(host, facts, tmp_path / "others", {"a": 1}, {})
    ask_engine(host, facts, tmp_path / "files", {"a": 2}, {})
    ask_engine(host, facts, tmp_path / "files", {"a": 1, "b": 2}, {})
    ask_engine(host, facts, tmp_path / "files", {"b": 2, "a": 1}, {})  # engines take the first group that fits
    ask_engine(host, facts, tmp_path / "files", {"a": 1}, {"kv_cache_dtype": "fp8"})
    ask_engine(host, facts.model_copy(update={"cuda": "99.9"}), tmp_path / "files", {"a": 1}, {})
    monkeypatch.setattr(engine_choice, "CHILD", tmp_path / "files")
    plain()
    assert len(runs) == 8


def test_an_engine_that_stopped_is_asked_again(
    facts: EngineFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "operators.json").write_text("{}")
    host = open_context({"GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=-1)
    answers = [Answer(stopped=why, rows=[], tried=[]) for why in ("MemoryError", None)]
    monkeypatch.setattr(engine_choice, "capture_while_active", lambda *_, **__: document(answers.pop(0)))
    asked = [ask_engine(host, facts, tmp_path, {}, {}).stopped for _ in range(3)]
    assert asked == ["MemoryError", None, None]


def document(*answers: Answer) -> str:
    """What the child prints."""
    return f"[{','.join(answer.model_dump_json(by_alias=True) for answer in answers)}]"


def test_several_models_are_asked_at_once_and_only_those_without_an_answer(
    facts: EngineFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()

    def child(*_: object, cwd: Path, **__: object) -> str:
        asked.append(len(json.loads((cwd / "request.json").read_text())["models"]))
        return document(*[Answer(stopped=None, rows=[], tried=[])] * asked[-1])

    (tmp_path / "operators.json").write_text("{}")
    monkeypatch.setattr(engine_choice, "capture_while_active", child)
    host = open_context({"GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=-1)
    question = Question(facts=facts, files=tmp_path, options={}, held=Held())
    for configs in ([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 3}, {"a": 1}]):
        assert len(ask_models(host, question, configs)) == len(configs)
    assert asked == [2, 1]


def test_what_is_no_answer_is_not_kept(facts: EngineFacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "operators.json").write_text("{}")
    host = open_context({"GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=-1)
    monkeypatch.setattr(engine_choice, "capture_while_active", lambda *_, **__: "killed")
    with pytest.raises(Gb10Error, match="no answer"):
        ask_engine(host, facts, tmp_path, {}, {})
    assert not any((host.store.root / "answers").glob("[!.]*"))


def test_an_engine_that_refuses_every_kernel_is_no_backend() -> None:
    refuse(Answer(stopped=None, rows=[], tried=[]), "vllm")
    with pytest.raises(VerifyError, match="no backend") as caught:
        refuse(Answer(stopped="ValueError: none", rows=[], tried=[("A", "needs 9.0"), ("B", "no")]), "vllm")
    assert "A: needs 9.0" in str(caught.value)


def test_an_engine_that_stops_elsewhere_leaves_it_unknown() -> None:
    with pytest.raises(UsageError, match="unknown"):
        refuse(Answer(stopped="KeyError: 'hidden_size'", rows=[], tried=[]), "vllm")


@pytest.mark.parametrize(
    ("about", "code", "said"),
    [
        ({"missing": "torchvision"}, 1, "explain has no module torchvision"),
        ({"whose": "explain"}, 1, "not the config's fault"),
        ({"missing": "cutlass", "lacks": ["NewForCausalLM"]}, 1, "no module cutlass"),
        ({"lacks": ["NewForCausalLM"]}, 2, "does not know this model: its registry has no NewForCausalLM"),
        ({"own_code": True}, 2, "code of the model itself"),
        ({"whose": "engine"}, 2, "refuses the model or an option itself"),
        ({"whose": "config"}, 2, "not what its readers expect"),
        ({}, 2, "nobody knows whether the config or explain"),
    ],
)
def test_whose_a_stop_is_decides_what_is_said(about: dict[str, object], code: int, said: str) -> None:
    answer = Answer.model_validate({"stopped": "ValueError: words", "rows": [], "tried": [], **about})
    with pytest.raises(Gb10Error, match=said) as caught:
        refuse(answer, "vllm 0.33.0")
    assert caught.value.code == code
    assert "ValueError: words" in (caught.value.where or "")
    assert ("does not know" in str(caught.value)) == (about.get("lacks") is not None and "missing" not in about)


def test_a_row_that_a_patch_of_ours_decides_says_so(facts: EngineFacts, capsys: pytest.CaptureFixture[str]) -> None:
    row = ROW.replace('"kind":"linear"', '"kind":"attention"').replace('"held":null', '"upstream":"FLASH_ATTN"')
    print_rows(read_answer(f'{{"stopped":null,"rows":[{row}],"tried":[]}}', "m"), facts, None)
    assert "    upstream FLASH_ATTN: our patch vllm/0007 makes the choice above\n" in capsys.readouterr().out


def test_the_patches_that_decide_are_in_the_series(facts: EngineFacts) -> None:
    for patch in facts.patches.values():
        project, number = patch.split("/")
        assert [*(ROOT / "patches" / project).glob(f"{number}-*.patch")], patch


def test_modelopt_s_own_file_reaches_the_engine_as_a_file(tmp_path: Path) -> None:
    quantized = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "MIXED_PRECISION"}}
    write_model({"model_type": "a", "quantization_config": quantized}, tmp_path / "file")
    assert json.loads((tmp_path / "file/config.json").read_text()) == {"model_type": "a"}
    assert json.loads((tmp_path / "file/hf_quant_config.json").read_text()) == quantized
    write_model({"model_type": "a", "hf_quant_config.json": quantized}, tmp_path / "beside")
    assert json.loads((tmp_path / "beside/config.json").read_text()) == {"model_type": "a"}
    assert json.loads((tmp_path / "beside/hf_quant_config.json").read_text()) == quantized
    own = {"model_type": "a", "quantization_config": {"quant_method": "modelopt", "quantization": {}}}
    write_model(own, tmp_path / "own")
    assert json.loads((tmp_path / "own/config.json").read_text()) == own
    assert not (tmp_path / "own/hf_quant_config.json").exists()


def test_the_default_image_s_kernels_are_asked_by_their_own_code(tmp_path: Path) -> None:
    write_own_package("12.1f", tmp_path)
    assert (tmp_path / "gb10_kernels/__init__.py").read_text() == (
        ROOT / "gb10/inside/compile/gb10_kernels.py"
    ).read_text()
    assert json.loads((tmp_path / "gb10_kernels/manifest.json").read_text()) == {"arch": "12.1f"}


def test_a_config_beside_its_source_is_read_and_another_file_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps({"model": "a/b", "source": [], "config": {"model_type": "a"}}))
    assert local_files(kept) == {"model_type": "a"}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {}}))
    assert local_files(kept)["hf_quant_config.json"] == {"quantization": {}}
    with pytest.raises(UsageError, match="neither architectures nor model_type") as caught:
        check_model({"weights": 1, "source": "x"}, "mine.json")
    assert caught.value.where == "it has source, weights"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_first_run_downloads_700_mb_at_most(engine: str) -> None:
    facts, packages = read_facts(ROOT, engine)
    image = load_lock(ROOT / f"recipes/images/{engine}.lock.json").wheels.image
    wheels = [
        *packages.wheels,
        *(wheel for wheel in image["amd64"] if wheel.name in facts.twins),
        *(wheel for wheel in image["arm64"] if wheel.name in facts.from_image),
    ]
    assert sum(wheel.size for wheel in wheels) < 700_000_000


@pytest.mark.parametrize(
    ("kernel", "scan", "said"),
    [
        ("TritonExperts", None, "compiled at first request by Triton"),
        ("NobodyKnows", None, "unknown"),
        (None, None, "unknown"),
        ("FlashInferExperts", (), "compiled at first request by FlashInfer"),
        ("FLASH_ATTN", (), "nothing: no */vllm/vllm_flash_attn/_vllm_fa2_C*.so"),
        ("FLASH_ATTN", (("usr/vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", Fit.PTX),), "ptx in _vllm_fa2_C.abi3.so"),
    ],
)
def test_where_the_code_of_a_kernel_is(
    facts: EngineFacts, kernel: str | None, scan: tuple[tuple[str, Fit], ...] | None, said: str
) -> None:
    found = None if scan is None else [judged(*one) for one in scan]
    assert code_of(kernel, facts, found) == said


@pytest.mark.parametrize(("kernel", "modules"), BY_KERNEL.items())
def test_a_module_that_a_model_s_set_gets_for_a_kernel_is_where_its_code_is_looked_for(
    kernel: str, modules: tuple[KernelEntry, ...]
) -> None:
    places = [read_facts(ROOT, engine)[0].place_of(kernel) for engine in ("vllm", "sglang")]
    assert any(modules[0]["name"] in place.library for place in places if place)


@pytest.mark.parametrize(
    ("installed", "said"),
    [((), "has none"), ((("sglang", "0.5.23"),), "has none"), ((("vllm", "0.32.0"),), r"has 0\.32\.0")],
)
def test_an_image_of_another_engine_or_release_is_named(
    facts: EngineFacts, installed: tuple[tuple[str, str], ...], said: str
) -> None:
    found = [Distribution(path="METADATA", name=name, version=version) for name, version in installed]
    with pytest.raises(UsageError, match=rf"explain knows vllm 0\.33\.0, mine {said}"):
        check_engine("mine", found, facts)
    check_engine("mine", [*found, Distribution(path="METADATA", name="vllm", version="0.33.0")][-1:], facts)


def test_a_release_of_sglang_without_facts_is_refused_with_the_one_that_is_known(tmp_path: Path) -> None:
    ctx = open_context({"GB10_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}, verbosity=0)
    with pytest.raises(UsageError, match=r"explain knows sglang 0\.5\.23, the lock has 0\.5\.10"):
        engine_of(ctx, "sglang-0.5.10")


def test_the_document_has_every_layer(facts: EngineFacts) -> None:
    answer = read_answer(f'{{"stopped":null,"rows":[{ROW}],"tried":[]}}', "m")
    layers = as_document(answer, facts, None)["layers"]
    assert layers[0]["class"] == "L"
    assert layers[0]["refused"] == {"MarlinExperts": "no"}


def test_a_wheel_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "bad.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a/../../out.py", "x")
    with pytest.raises(FetchError, match="not a wheel"):
        unpack(wheel, tmp_path / "site")
    assert not (tmp_path / "out.py").exists()


def test_another_python_is_named() -> None:
    packages = read_facts(ROOT, "vllm")[1].model_copy(update={"python": "2.7"})
    assert isinstance(packages, Packages)
    with pytest.raises(UsageError, match=r"locked for Python 2\.7"):
        check_interpreter(packages)


def test_an_option_that_an_engine_has_not_is_named() -> None:
    with pytest.raises(UsageError, match="no --linear-backend"):
        options_by_engine(read_facts(ROOT, "sglang")[0], {"linear_backend": "triton"})
    given = options_by_engine(read_facts(ROOT, "sglang")[0], {"moe_backend": "triton"})
    assert given == {"moe_runner_backend": "triton"}


def test_an_option_of_several_names_itself(facts: EngineFacts, capsys: pytest.CaptureFixture[str]) -> None:
    row = ROW.replace('"options":{}', '"before":["Triton q"],"options":{"--fp8-gemm-backend triton":"T","marlin":"M"}')
    print_rows(read_answer(f'{{"stopped":null,"rows":[{row}],"tried":[]}}', "m"), facts, None)
    said = capsys.readouterr().out
    assert "    before   Triton q\n" in said
    assert "    option   --fp8-gemm-backend triton: T\n    option   --linear-backend marlin: M\n" in said


def test_operators_are_named_by_the_path_of_their_module(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a/sm90/ops.abi3.so", b"\x00f(int x) -> int\x00")
        archive.writestr("a/sm100/ops.abi3.so", b"\x00g(int x) -> int\x00")
    assert read_operators([wheel], ["a/sm100/ops"]) == {"a/sm100/ops": ("g(int x) -> int",)}
    with pytest.raises(FetchError, match="no wheel has a/sm80/ops"):
        read_operators([wheel], ["a/sm80/ops"])


@pytest.mark.parametrize("missing", ["toml", "lock.json"])
def test_an_engine_needs_both_of_its_files(missing: str, tmp_path: Path) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    for name in ("vllm.toml", "vllm.lock.json", "sglang.toml"):
        shutil.copy(ROOT / FOLDER / name, folder)
    assert read_facts(tmp_path, "vllm") == read_facts(ROOT, "vllm")
    (folder / f"vllm.{missing}").rename(folder / "other")
    with pytest.raises(UsageError, match="explain does not know the engine 'vllm'") as caught:
        read_facts(tmp_path, "vllm")
    assert caught.value.hint == ("it knows sglang" if missing == "toml" else "it knows sglang, vllm")
    (folder / "sglang.lock.json").write_text("{", encoding="utf-8")
    with pytest.raises(LockStaleError, match="sglang is not valid"):
        read_facts(tmp_path, "sglang")


@pytest.mark.parametrize(
    ("code", "tail", "kind", "words"),
    [
        (SILENT, "x", UsageError, "it ran for more than"),
        (-9, "x", UsageError, "it needs more than explain gives it"),
        (-24, "x", UsageError, "it needs more than explain gives it"),
        (1, "y\nMemoryError", UsageError, "it needs more than explain gives it"),
        (1, "KeyError", Gb10Error, "explain's process ended without an answer (exit 1)"),
        (-11, "", Gb10Error, "(exit -11)"),
    ],
)
def test_a_child_that_ended_is_about_the_config_or_about_us(  # noqa: PLR0917 - a row
    code: int, tail: str, kind: type[Gb10Error], words: str, facts: EngineFacts, tmp_path: Path
) -> None:
    def end(*_: object, **__: object) -> str:
        raise CommandFailedError(["python"], code, tail)

    (tmp_path / "operators.json").write_text("{}", encoding="utf-8")
    host = open_context({"GB10_CACHE_DIR": str(tmp_path / "store")}, verbosity=-1)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Gb10Error) as caught:
        patch.setattr(engine_choice, "capture_while_active", end)
        ask_engine(host, facts, tmp_path, {}, {})
    assert type(caught.value) is kind
    assert words in caught.value.message


KERNELS = Held(kernels="12.1f")
STOCK, OURS = Held(stock=True), Held(kernels="12.1f", beside=True)


@pytest.mark.parametrize(
    ("words", "packages", "held"),
    [
        ((), None, OURS),
        (("--upstream",), None, STOCK),
        (("--image", "i:1"), ["vllm", "gb10-kernels"], OURS),
        (("--image", "i:1"), ["vllm"], Held(beside=True)),
        (("--image", "i:1", "--upstream"), ["vllm", "gb10-kernels"], STOCK),
    ],
)
def test_the_engine_is_asked_with_what_the_image_has(  # noqa: PLR0917 - a row
    words: tuple[str, ...],
    packages: list[str] | None,
    held: Held,
    facts: EngineFacts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[dict[str, str], Held]] = []
    checked: list[str] = []

    def ask(*words: object, held: Held) -> Answer:
        options = words[-1]
        assert isinstance(options, dict)
        asked.append((options, held))
        return Answer(stopped=None, rows=[], tried=[])

    scan = SimpleNamespace(distributions=[SimpleNamespace(name=name) for name in packages or ()])
    monkeypatch.setattr(engine_choice, "ask_engine", ask)
    monkeypatch.setattr(verb, "engine_of", lambda *_: AskedEngine(facts=facts, files=tmp_path, held=KERNELS))
    monkeypatch.setattr(verb, "read_files", lambda *_: {"model_type": "a", "architectures": ["A"]})
    monkeypatch.setattr(verb, "inspect_image", lambda *_: SimpleNamespace(found=SimpleNamespace(scan=scan)))
    monkeypatch.setattr(verb, "check_engine", lambda image, *_: checked.append(image))
    monkeypatch.setattr(verb, "judge", lambda *_: SimpleNamespace(judged=[]))
    monkeypatch.setenv("GB10_CACHE_DIR", str(tmp_path / "store"))
    options = ("--moe-backend", "triton", "--block-size", "32")
    assert main(["explain", "m", *words, *options, "--json"]) == 0
    assert asked == [({"moe_backend": "triton", "block_size": "32"}, held)]
    assert checked == (["i:1"] if packages else [])


def test_a_backend_that_is_no_word_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "m", "--moe-backend", "a b"]) == 2
    assert "--moe-backend 'a b' is not the name of a backend or a type" in capsys.readouterr().err
    assert main(["explain", "m", "--block-size", "0"]) == 2
    assert "--block-size" in capsys.readouterr().err
