"""What a compile's log becomes: lines that real compiles printed, cut to what decides."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from gb10.containers.buildx.progress import LogLine, StepStarted
from gb10.core.forecast import Forecast
from gb10.core.reporter import Reporter
from gb10.core.store import Store
from gb10.errors import BuildError
from gb10.image.build.compile import COMPILING, SAYS, _note, diagnosed, explained
from gb10.image.build.estimate import TOOLS
from gb10.image.build.stage import log_path
from gb10.image.context import Context
from gb10.image.plan.values import Step
from tests.recipes import SHIPPED

LOG = Path("/store/logs/kernels.log")
AS_IT_WAS = BuildError("build step failed: [compile 1/1] RUN", where="its last lines")
STEP = Step(name="kernels", kind="wheel", key="1a" * 32)
UNIT = "/build/cached_ops/silu_and_mul/generated_silu_and_mul.cuda.o"
NVCC = "/cuda/bin/nvcc -ccbin aarch64-linux-gnu-g++ -Werror -c silu_and_mul.cu"
END = """\
#9 ninja: build stopped: subcommand failed.
#9 flashinfer.aot: Ninja build failed.
#9 ERROR: process "/bin/sh -c set -eux" did not complete successfully: exit code: 1
"""
REFUSED = f"""\
#9 + python3 /inside/compile/aot.py --source /source
#9 [1/2] {NVCC}
#9 FAILED: [code=2] {UNIT}
#9 {NVCC}
#9 /source/include/flashinfer/norm.cuh(7): warning #177-D: variable was declared but never referenced
#9 /source/include/flashinfer/activation.cuh(25): error: identifier "no_such_thing" is undefined
#9   static int broken = no_such_thing;
#9                       ^
#9
#9 1 error detected in the compilation of "/build/generated/silu_and_mul.cu".
{END}"""
KILLED = f"""\
#9 [1/2] {NVCC}
#9 FAILED: [code=137] {UNIT}
#9 {NVCC}
#9 Killed
{END}"""
LINK = f"""\
#9 FAILED: [code=1] /built/gb10_moe/gb10_moe.so
#9 aarch64-linux-gnu-g++ -shared gb10_moe/ops.cpp.o -o /built/gb10_moe/gb10_moe.so
#9 /usr/lib/ld: gb10_moe/wrong.cpp.o: in function `gb10_wrong()':
#9 wrong.cpp:(.text+0x0): undefined reference to `aoti_torch_no_such_call'
#9 collect2: error: ld returned 1 exit status
{END}"""


def told(text: str) -> str:
    return str(diagnosed(AS_IT_WAS, LOG, text, "gb10-kernels"))


def test_the_first_complaint_is_told_with_its_place() -> None:
    assert told(REFUSED).splitlines() == [
        "error: silu_and_mul/generated_silu_and_mul.cuda.o does not compile: "
        '/source/include/flashinfer/activation.cuh(25): error: identifier "no_such_thing" is undefined',
        "    static int broken = no_such_thing;",
        "                        ^",
        f"  log: {LOG}",
        "hint: fix that line in your patch or checkout; without changes of yours it is a defect of the release",
        "hint: run the same command again: units in the compile cache are not recompiled",
    ]


@pytest.mark.parametrize(
    ("complaint"),
    [
        "/units/ops.cpp:12:3: error: 'x' was not declared in this scope",
        "/units/ops.cpp:1:10: fatal error: absent.h: No such file or directory",
        "ptxas /tmp/a.ptx, line 9; error   : Feature 'x' requires .target sm_121a",
        "nvcc fatal   : Unsupported gpu architecture 'compute_999f'",
    ],
)
def test_every_compiler_is_heard(complaint: str) -> None:
    older = f"FAILED: moe/ops.cpp.o\n{NVCC}\n{complaint}\n"  # of ninja before 1.13, without the code
    assert told(older).startswith(f"error: moe/ops.cpp.o does not compile: {complaint}\n")


def test_a_library_does_not_link() -> None:
    text = told(LINK)
    assert text.startswith("error: gb10_moe/gb10_moe.so does not link: wrong.cpp:(.text+0x0): undefined reference to ")
    assert text.count("log:") == 1


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (KILLED, "silu_and_mul/generated_silu_and_mul.cuda.o"),
        (
            KILLED.replace("[code=137] ", "").replace("#9 FAILED", "FAILED"),
            "silu_and_mul/generated_silu_and_mul.cuda.o",
        ),
        (f"#9 FAILED: [code=247] a/b.o\n#9 {NVCC}\n{END}", "a/b.o"),
        (f"FAILED: a/b.o\ng++ -c b.cpp\ng++: fatal error: Killed signal terminated program cc1plus\n{END}", "a/b.o"),
        (f"FAILED: a/b.o\n{NVCC}\nnvcc error   : 'cicc' died due to signal 9 (Kill signal)\n", "a/b.o"),
        ("#9 ERROR: process did not complete successfully: exit code: 137\n", "gb10-kernels"),
    ],
    ids=["nvcc", "older-ninja", "launcher", "gcc", "cicc", "stage"],
)
def test_a_killed_compiler_means_memory(text: str, unit: str) -> None:
    assert told(text).startswith(f"error: the compiler of {unit} was killed, as Linux does when memory runs out\n")
    assert "GB10_JOBS=1" in told(text)
    assert f"  log: {LOG}" in told(text)


CRASHED = "#9 FAILED: [code=139] m/a.o\n#9 nvcc -c a.cu\n#9 Segmentation fault (core dumped)\n"
OTHER = '#9 FAILED: [code=1] m/b.o\n#9 nvcc -c b.cu\n#9 b.cu(3): error: expected a ";"\n'


@pytest.mark.parametrize("text", [CRASHED + OTHER + END, OTHER + CRASHED + END])
def test_no_unit_is_blamed_with_what_another_said(text: str) -> None:
    assert told(text).startswith('error: m/b.o does not compile: b.cu(3): error: expected a ";"\n')
    assert "m/a.o" not in told(text)


def shop_with(tmp_path: Path, text: str) -> Context:
    """A store that has this log of the step's."""
    ctx = Context(env={}, store=Store(tmp_path), reporter=Reporter({}), catalog=SHIPPED)
    log_path(ctx.store, STEP).parent.mkdir(parents=True)
    log_path(ctx.store, STEP).write_text(text, encoding="utf-8")
    return ctx


def test_a_compile_is_explained_from_the_log_of_its_step(tmp_path: Path) -> None:
    with (
        pytest.raises(BuildError, match=r"m/b\.o does not compile") as caught,
        explained(shop_with(tmp_path, OTHER).store, STEP),
    ):
        raise AS_IT_WAS
    assert caught.value.__cause__ is AS_IT_WAS


def test_what_the_log_does_not_explain_is_raised_as_it_is_and_not_from_itself(tmp_path: Path) -> None:
    error = BuildError("build step failed")
    with pytest.raises(BuildError) as caught, explained(shop_with(tmp_path, CRASHED).store, STEP):
        raise error
    assert caught.value is error
    assert error.__cause__ is None


@pytest.mark.parametrize("text", ["", END, CRASHED + END, "#9 error: not of a unit\n"])
def test_what_it_cannot_read_it_leaves(text: str) -> None:
    assert diagnosed(AS_IT_WAS, LOG, text, "gb10-kernels") is AS_IT_WAS


def test_a_killed_compiler_is_told_before_its_complaint() -> None:
    """gcc prints an error of its own when its cc1plus is killed: memory ran out, the source is right."""
    complaint, source = "#9 /source/include/flashinfer/activation", "#9   static int"
    assert "was killed, as Linux does" in told(REFUSED.replace(complaint, f"#9 Killed\n{complaint}"))
    cut = f"#9 Killed\n#9 nvFatbin error: empty input\n{complaint}"
    assert "was killed, as Linux does" in told(REFUSED.replace(complaint, cut))
    assert "does not compile" in told(REFUSED.replace(source, f"#9 Killed signal terminated program cc1plus\n{source}"))


@pytest.mark.parametrize(
    "said",
    [
        "ccA.s: fatal error: error writing to ccA.s: No space left on device",
        "fatal   : Could not open output file 'tmpxft_1.cubin': No space left on device",
        "OSError: [Errno 122] Disk quota exceeded: '/build/a.o'",
        "/source/a.cu(3): catastrophic error: error while writing generated C++ file: No space left on device",
        "nvFatbin error: empty input",
        "fatbinary fatal   : Could not write file '/mnt/b/b.o.fatbin'",
        '/mnt/b/b.o.fatbin.c:150:1: error: missing terminating " character',
    ],
)
def test_a_full_disk_is_no_defect_of_a_source(said: str) -> None:
    """The last four are of nvcc 13.0.88 while its temporary files filled a tmpfs of 1.6 to 4.2 MB."""
    complaint = '#9 /source/include/flashinfer/activation.cuh(25): error: identifier "no_such_thing" is undefined'
    error = told(REFUSED.replace(complaint, f"#9 {said}"))
    assert error.startswith("error: a disk is full: ")
    assert said in error
    assert "hint: free some on the disk of the store and on that of the engine" in error
    assert "does not compile" not in error
    assert "fix that line" not in error


def test_the_lines_of_a_compile_drive_its_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun: list[str] = []
    forecast = SimpleNamespace(
        begin=lambda name: begun.append(f"begin {name}"),
        end=lambda name: begun.append(f"end {name}"),
        done=lambda name, made: begun.append(f"done {name} {made}"),
    )
    ctx = Context(
        env={}, store=Store(tmp_path), reporter=Reporter({}), catalog=SHIPPED, forecast=cast("Forecast", forecast)
    )
    shown: list[tuple[object, ...]] = []

    def update(_: object, *words: object) -> None:
        shown.append(words)

    with pytest.MonkeyPatch.context() as patch, ctx.reporter.task("one") as task:
        patch.setattr(Reporter, "update", lambda self, task, *words: update(task, *words))
        for event in (
            StepStarted(step="[tools 1/1] RUN x"),
            StepStarted(step=f"{COMPILING}1/1] RUN x"),
            LogLine(step="s", text="[2/9] nvcc -c a.cu -o m/a.o"),
            LogLine(step="s", text="[3/9] Linking CXX shared library lib/one.so"),
            LogLine(step="s", text="a line of a compiler"),
            LogLine(step="s", text=f"{SAYS}of a stage"),
        ):
            _note(ctx, STEP, task, event)
    name = STEP.name
    linked = f"begin {name}"  # a library is no object whose time is known
    assert begun == [f"end {TOOLS}", f"begin {name}", f"begin {name}", f"done {name} m/a.o", linked]
    assert shown == [(2, 9, "a.o"), (3, 9, "one.so")]
    said = capsys.readouterr().err
    assert "of a stage" in said and "a line of a compiler" not in said
