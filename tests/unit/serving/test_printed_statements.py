"""What a program may print, read from its files: statements, their words and conditions, and an index of releases."""

import json
import random
import tarfile
from pathlib import Path
from typing import cast

import pytest

from gb10.core.host import Host
from gb10.core.installation import ROOT
from gb10.errors import UsageError
from gb10.serving.checkup.engine_source import explained, member_text
from gb10.serving.doctor.diagnosing import Evidence, diagnose
from gb10.serving.doctor.engine_statements import statements_of
from gb10.serving.doctor.explaining import Question, known_statement
from gb10.serving.doctor.log_scan import scan_log
from gb10.serving.doctor.message_index import SCHEMA, IndexBuilder, MessageIndex, Source, read_index
from gb10.serving.doctor.printed_statements import Statement, python_statements, telling_words, word_hash
from gb10.serving.doctor.rule_files import MESSAGES, load_messages

FILE = """
def check(self, model_config, cache_config):
    limit = envs.VLLM_MAX_THING
    if model_config.max_model_len > cache_config.num_gpu_blocks * 16:
        if self.strict:
            raise ValueError(
                f"The model's longest sequence ({model_config.max_model_len}) is larger than "
                f"what the KV cache stores ({tokens}). Decrease `max_model_len`"
            )
        else:
            logger.warning("Only %d of %s blocks are left", free, total)
    message = "scheme " + scheme + " happened twice"
    assert limit > 0, message
    parser.error("unrecognized colour %s here" % colour)
    torch._check(rows == 4096, lambda: f"rows must be divisible, found {rows}")
    if backend := TABLE.get(name):
        return backend
    raise NotImplementedError("no backend {} serves layer {!r}".format(name, layer))
"""
SOURCE = Source(url="https://h/x-1.tar.gz", sha256="0" * 64, size=1, prefix="x-1/")


def statements(text: str = FILE, file: str = "vllm/x.py") -> dict[str, Statement]:
    return {one.parts[0].split()[0]: one for one in python_statements(text, file)}


def test_statements_have_their_exception_text_and_condition() -> None:
    found = statements()
    assert {first: (one.kind, one.exception) for first, one in found.items()} == {
        "The": ("raise", "ValueError"),
        "Only": ("log", "warning"),
        "scheme": ("assert", "AssertionError"),
        "unrecognized": ("exit", "SystemExit"),
        "rows": ("raise", "RuntimeError"),
        "no": ("raise", "NotImplementedError"),
    }
    assert found["The"].conditions == (
        "self.strict",
        "model_config.max_model_len > cache_config.num_gpu_blocks * 16",
    )
    assert found["Only"].conditions[0] == "not (self.strict)"
    assert found["scheme"].conditions[0] == "not (limit > 0)"
    assert found["no"].conditions[0] == "not ((backend := TABLE.get(name)))"
    assert (found["The"].function, found["The"].line, found["The"].end) == ("check", 6, 9)
    assert "VLLM_MAX_THING" in found["no"].names or "envs" in found["no"].names


def test_a_message_gives_the_values_of_what_is_filled_in() -> None:
    message = "The model's longest sequence (131072) is larger than what the KV cache stores (86432)."
    message += " Decrease\n`max_model_len`"
    assert statements()["The"].values(message) == {"model_config.max_model_len": "131072", "tokens": "86432"}
    assert statements()["The"].values("another text") == {}


def test_words_tell_texts_apart_and_are_bounded() -> None:
    assert telling_words("The value is not your `kv_cache_dtype` of 131072") == ("kv_cache_dtype", "131072")
    assert len(telling_words(" ".join(f"word{number}x" for number in range(100)))) == 12


def test_what_is_no_python_of_today_has_no_statements() -> None:
    for text in ("def x(:", "\x00", "(" * 5000, "x = " + "-" * 100_000 + "1", "print 'a'"):
        assert python_statements(text, "x.py") == ()


@pytest.mark.parametrize("seed", range(20))
def test_damaged_files_never_stop_the_reader(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a test
    text = list(FILE)
    for _ in range(30):
        text[draw.randrange(len(text))] = draw.choice("()[]{}:=\n'\"#% \t\x0c\ud800"[:-1])
    python_statements("".join(text), "x.py")


CPP_FILE = r"""
#define CHECK_DIM(d, x) \
  TVM_FFI_ICHECK_EQ(x.ndim(), d) << #x " must be a tensor of rank " << d

template <typename T>
void launch(TensorView const& a, int heads, T* out) {
  if (heads > 8) {
    TVM_FFI_CHECK(a.ndim() >= 4, ValueError)
        << "TMA source " << name << " must have more dimensions, got ndim=" << a.ndim();
  } else {
    FLASHINFER_CHECK(window == WINDOW, "x_cache.size(2) - npredicted = ", window,
                     " must equal JIT WINDOW=", /* the rest */ WINDOW);
  }
  switch (kind) {
    case Kind::Wide:
      throw std::runtime_error("unsupported tile shape: " + std::to_string(kind));
    default:
      TLLM_THROW("cooperative kernels need %d rows, \"%s\" has %zu", 128, name, rows);
  }
#if defined(ENABLE_SM120) && ENABLE_SM120
  if (sm >= 120) {
    run_sm120(out);
    return;
  }
#endif
  STD_TORCH_CHECK_NOT_IMPLEMENTED(false, "no compiled nvfp4 kernel for SM ", sm, "\nrecompile");
  static_assert(N % 8 == 0, "head size must be divisible by eight");
  kernel<<<grid, block, 0, stream>>>(a.data(), out);
  TORCH_WARN_ONCE("workspace grows beyond ", limit);
  TORCH_CHECK(rows == 3);
  CHECK_DIM(3, a);
  printf("done %d\n", sum(a));
}
"""


def test_checks_of_cpp_and_cuda_are_statements_too() -> None:
    found = {one.line: one for one in statements_of(CPP_FILE, "csrc/x.cu")}
    assert {line: (one.kind, one.exception, one.parts[0].strip()) for line, one in found.items()} == {
        3: ("raise", "", ""),
        8: ("raise", "ValueError", "TMA source"),
        11: ("raise", "", "x_cache.size(2) - npredicted ="),
        16: ("raise", "", "unsupported tile shape:"),
        18: ("raise", "", "cooperative kernels need"),
        26: ("raise", "NotImplementedError", "no compiled nvfp4 kernel for SM"),
        27: ("assert", "", "head size must be divisible by eight"),
        29: ("log", "warning", "workspace grows beyond"),
    }
    assert (found[3].function, found[3].conditions, found[3].holes) == (
        "CHECK_DIM",
        ("not (x.ndim() == d)",),
        ("x", "d"),
    )
    assert (found[8].function, found[8].end) == ("launch", 9)
    assert found[8].conditions == ("not (a.ndim() >= 4)", "heads > 8")
    assert found[11].conditions == ("not (window == WINDOW)", "not (heads > 8)")
    assert found[11].holes == ("window", "WINDOW")
    assert found[16].conditions == ("case Kind::Wide",)
    assert found[18].values('cooperative kernels need 128 rows, "gate" has 64') == {"name": "gate", "rows": "64"}
    assert found[26].conditions == ("not (defined(ENABLE_SM120) && ENABLE_SM120 and sm >= 120)",)
    assert found[26].values("no compiled nvfp4 kernel for SM 121\nrecompile") == {"sm": "121"}


@pytest.mark.parametrize("seed", range(20))
def test_damaged_cpp_never_stops_the_reader(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 - a test
    text = list(CPP_FILE)
    for _ in range(30):
        text[draw.randrange(len(text))] = draw.choice("()[]{}:<>;\n'\"#% \t\0\x0c\\/*")
    statements_of("".join(text), "x.cuh")


def test_a_check_of_a_thousand_generated_files_is_one_row() -> None:
    builder = IndexBuilder("flashinfer", frozenset())
    names = ("csrc/generated/a0.cu", "csrc/b.cu", "csrc/generated/c0.cu")
    builder.add("1", SOURCE, [one for name in names for one in statements_of(CPP_FILE, name)])
    builder.add("2", SOURCE, [one for name in names[::2] for one in statements_of("\n" + CPP_FILE, name)])
    builder.add("3", SOURCE, [one for name in names for one in statements_of(CPP_FILE, name)])
    own = read_index(json.loads(json.dumps(builder.document())))
    found = own.find("x_cache.size(2) - npredicted = 12 must equal JIT WINDOW=8", "RuntimeError")
    assert found
    assert sorted((one.file, dict(one.lines)) for one in own.rows if one.hashes == found[0].hashes) == [
        ("csrc/b.cu", {0: 11}),
        ("csrc/generated/a0.cu", {1: 12, 2: 11}),
    ]


def index() -> MessageIndex:
    builder = IndexBuilder("vllm", frozenset(("max_model_len",)))
    old = FILE.replace("longest sequence", "max seq len")
    builder.add("0.30.0", SOURCE, python_statements(old, "vllm/x.py"))
    builder.add("0.31.0", SOURCE, python_statements(FILE, "vllm/x.py"))
    builder.add("0.32.0", SOURCE, python_statements("\n\n" + FILE, "vllm/x.py"))
    builder.add("0.33.0", SOURCE, python_statements(FILE.replace("no backend", "some other text of"), "vllm/x.py"))
    document = json.loads(json.dumps(builder.document()))
    assert document["schema"] == SCHEMA
    return read_index(document)


def test_a_line_finds_its_statement_and_its_releases() -> None:
    found = index().find("no backend cutlass serves layer 'gate'", "NotImplementedError")
    assert found
    known = index().known(found[0], "0.31.0")
    assert (known.here, known.gone, known.changed) == (("0.30.0", "0.31.0", "0.32.0"), "0.33.0", True)
    assert dict(known.row.lines) == {0: 18, 1: 18, 2: 20}


def test_a_statement_that_only_moved_is_the_same_and_options_are_named() -> None:
    found = index().find("The model's longest sequence (5) is larger than what the KV cache stores (4)", "ValueError")
    assert found
    assert found[0].names[0] == "--max-model-len"
    assert index().known(found[0], "0.31.0").gone is None


@pytest.mark.parametrize("file", ["flashinfer/y.py", "vllm/x.py"])
def test_of_equal_statements_of_two_packages_that_of_the_traceback_s_file_is_meant(file: str) -> None:
    builder = IndexBuilder("flashinfer", frozenset())
    builder.add("1", SOURCE, python_statements(FILE, "flashinfer/y.py"))
    both = (read_index(json.loads(json.dumps(builder.document()))), index())
    asked = Question(
        message="no backend cutlass serves layer 'gate'",
        exception="NotImplementedError",
        file=file,
        line=18,
        releases={"vllm": "0.31.0"},
        engine="vllm",
    )
    for indexes in (both, both[::-1]):
        known = known_statement(asked, indexes)
        assert known
        assert known.row.file == file


def test_words_that_no_statement_has_find_nothing() -> None:
    assert index().find("the quick brown fox jumps over lazy dogs") is None
    assert index().find("") is None


def test_the_index_has_no_sentence_and_no_code() -> None:
    builder = IndexBuilder("vllm", frozenset())
    builder.add("1", SOURCE, python_statements(FILE, "vllm/x.py"))
    text = json.dumps(builder.document())
    for word in ("longest", "sequence", "happened", "colour", "num_gpu_blocks", "TABLE"):
        assert word not in text
    assert str(word_hash("longest")) in text


def test_the_shipped_index_is_small_and_finds_a_line_in_a_millisecond() -> None:
    assert sum(path.stat().st_size for path in (ROOT / MESSAGES).iterdir()) < 8 << 20
    indexes = load_messages()
    assert {"flashinfer", "sglang", "transformers", "vllm"} < {one.engine for one in indexes}
    lines = (
        (
            "Free memory on device cuda:0 (9.02/11.63 GiB) on startup is less than desired GPU memory utilization (0, "
            "10.47 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
            "ValueError",
        ),
        (
            "No compiled nvfp4 mm kernel for SM 121. Recompile with CUDA >= 12.8 and CC >= 100.",
            "NotImplementedError",
        ),
        ("a sentence that nobody ever printed about elephants and teapots", ""),
    )
    vllm = next(one for one in indexes if one.engine == "vllm")
    found = [vllm.find(*line) for line in lines[:2]]
    assert [one[0].file if one else "" for one in found] == [
        "vllm/v1/worker/utils.py",
        "csrc/quantization/fp4/nvfp4_scaled_mm_entry.cu",
    ]


def archive(folder: Path, name: str, text: str) -> Path:
    path = folder / "x.tar.gz"
    source = folder / "x.py"
    source.write_text(text, encoding="utf-8")
    with tarfile.open(path, "w:gz") as tar:
        tar.add(source, name)
    return path


def test_a_file_of_an_archive_is_read_and_a_link_is_not(tmp_path: Path) -> None:
    path = archive(tmp_path, "vllm-1/vllm/x.py", FILE)
    assert member_text(path, "vllm-1/vllm/x.py") == FILE
    assert member_text(path, "vllm-1/vllm/y.py") == ""


LOG = """(EngineCore pid=9) ERROR 11-24 08:01:12 [core.py:9]   File "/v/lib/python3.12/site-packages/vllm/x.py", line 6, in check
(EngineCore pid=9) ERROR 11-24 08:01:12 [core.py:9]     raise ValueError(
(EngineCore pid=9) ERROR 11-24 08:01:12 [core.py:9] ValueError: The model's longest sequence (5) is larger than what the KV cache stores (4). Decrease `max_model_len`
"""  # noqa: E501


@pytest.mark.parametrize("place", ["", "python", "lib/python3.12/site-packages"])
def test_the_engine_s_own_file_explains_its_error(tmp_path: Path, place: str) -> None:
    file = tmp_path / place / "vllm/x.py"
    file.parent.mkdir(parents=True)
    file.write_text(FILE, encoding="utf-8")
    (file.parent / "link.py").symlink_to("/etc/passwd")
    shown = Evidence(logs={"log": scan_log([LOG.encode()], ())})
    host = cast("Host", None)  # a folder needs none
    (one,) = explained(host, diagnose((), shown), shown, tmp_path, fetch=False)[0].seen
    assert one.explained[0].startswith("Printed by vllm/x.py:6 in check")
    assert "model_config.max_model_len > cache_config.num_gpu_blocks * 16 and self.strict" in one.explained[1]
    assert one.explained[2] == "In this log: model_config.max_model_len = 5, tokens = 4."


def test_a_folder_without_an_engine_is_refused(tmp_path: Path) -> None:
    shown = Evidence(logs={"log": scan_log([LOG.encode()], ())})
    with pytest.raises(UsageError, match="has no package of an engine"):
        explained(cast("Host", None), diagnose((), shown), shown, tmp_path, fetch=False)


def test_what_pydantic_caught_is_sought_as_the_engine_raised_it(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/x.py").write_text(FILE, encoding="utf-8")
    reason = "The model's longest sequence (5) is larger than what the KV cache stores (4). Decrease `max_model_len`"
    text = f"pydantic_core.ValidationError: 1 validation error for C\n  Value error, {reason} [type=value_error]\n"
    shown = Evidence(logs={"log": scan_log([text.encode()], ())})
    (one,) = explained(cast("Host", None), diagnose((), shown), shown, tmp_path, fetch=False)[0].seen
    assert one.explained[2] == "In this log: model_config.max_model_len = 5, tokens = 4."


EMPTY = """\
(APIServer pid=1) INFO 06-10 08:51:12 [api_utils.py:345] version {release}
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/usr/local/lib/python3.12/dist-packages/vllm/envs.py", line 505, in _get_validated_env
(APIServer pid=1) ValueError: Invalid value '' for VLLM_NVFP4_GEMM_BACKEND. Valid options: ['cutlass', 'marlin'].
"""


@pytest.mark.parametrize(("release", "said"), [("0.20.0.dev", True), ("0.99.0", True), ("0.33.0", False)])
def test_a_version_that_is_not_in_the_index_is_said_with_the_one_that_is_shown(release: str, said: bool) -> None:
    shown = Evidence(logs={"log": scan_log([EMPTY.format(release=release).encode()], ())})
    (one,) = explained(cast("Host", None), diagnose((), shown), shown, None, fetch=False)[0].seen
    assert ("is not in the index; shown is 0.33.0." in one.explained[0]) is said
    assert one.explained[0].startswith(release) is said


def test_where_explain_adds_nothing_a_line_says_so() -> None:
    text = "(EngineCore pid=9) ERROR 11-24 08:01:12 [core.py:9] ValueError: zq qzx vexed wombats jumped over it\n"
    shown = Evidence(logs={"log": scan_log([text.encode()], ())})
    host = cast("Host", None)  # nothing is fetched
    (one,) = explained(host, diagnose((), shown), shown, None, fetch=True)[0].seen
    assert one.explained[-1].startswith("--explain adds nothing: no statement")
    (one,) = explained(host, diagnose((), shown), shown, None, fetch=False)[0].seen
    assert not any("--explain" in text for text in one.explained)
    nothing = Evidence(logs={"log": scan_log([b"INFO all is well\n"], ())})
    assert explained(host, diagnose((), nothing), nothing, None, fetch=True)[0].remarks[0].startswith("--explain adds")


def test_a_folder_is_searched_by_the_rarest_words_when_the_file_is_another(tmp_path: Path) -> None:
    """The traceback is of an installed wheel; a checkout has the statement in another file. Three rare words do."""
    (tmp_path / "python/vllm/deep").mkdir(parents=True)
    (tmp_path / "csrc").mkdir()
    shown = Evidence(logs={"log": scan_log([LOG.encode()], ())})

    def told() -> tuple[str, ...]:
        found = explained(cast("Host", None), diagnose((), shown), shown, tmp_path, fetch=False)[0].seen
        return found[0].explained

    (tmp_path / "python/vllm/x.py").write_text("import os\n", encoding="utf-8")
    other = tmp_path / "python/vllm/deep/y.py"
    assert told() == ()
    for missing, found in (("none of them", True), ("longest", True), ("model's longest sequence", False)):
        other.write_text(FILE.replace(missing, "x"), encoding="utf-8")
        assert told()[:1] == ((f"Printed by vllm/deep/y.py:6 in check ({tmp_path}).",) if found else ()), missing
    other.write_text(FILE, encoding="utf-8")
    other.rename(other.with_suffix(".txt"))
    assert told() == ()
