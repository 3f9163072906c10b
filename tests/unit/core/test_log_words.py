"""Which line of a log tells of an error of its own, by the forms in which engines write."""

import pytest

from gb10.core.log_words import first_error, is_trouble


@pytest.mark.parametrize(
    ("line", "trouble"),
    [
        ("ValueError: no such head", True),
        ("(EngineCore_0 pid=7) ERROR 11-27 10:00:00 [core.py:1] torch.OutOfMemoryError: CUDA out of memory", True),
        ("INFO 11-27 10:00:00 [a.py:1] nothing failed", False),
        ("WARNING: the file is not found", False),
        ("ERROR the file is not found", True),
        ("[E1127 10:00:00.1 init.cc:3] cannot bind", True),
        ("[I1127 10:00:00.1 init.cc:3] cannot bind", False),
        ("1.02.345.678 E llama_model_load: no tensor", True),
        ("1.02.345.678 W llama_model_load: cannot mlock", False),
        ("x.py:3: UserWarning: it failed before", False),
        ('  File "x.py", line 3, in failed', False),
        ("Traceback (most recent call last): failed", False),
        ("During handling of the above exception, another one failed", False),
        ("RuntimeError: Engine core initialization failed. See root cause above.", False),
        ("gb10: unrecognized arguments: --x", True),
        ("Killed", True),
        ("ValueError: unknown log level=trace", True),
        ("RuntimeError: x - INFO - y", True),
        ("ValueError: [info] is no level", True),
        ("(EngineCore_0 pid=7) ValueError: log spec [info] is odd", True),
        ("RuntimeError: the last words were: spark:1:2 [0] NCCL INFO no route", True),
        ("time=1 level=info msg=failed", False),
        ("2026-11-27 10:00:00 - INFO - ValueError: tried again", False),
        ("spark:1:2 [0] NCCL INFO connection failed", False),
        ("all is well", False),
        ("", False),
    ],
)
def test_a_line_that_tells_of_an_error_of_its_own(line: str, trouble: bool) -> None:
    assert is_trouble(line) is trouble


QUOTED = "WARNING tried again after ValueError: odd"
ECHO = "RuntimeError: Engine core initialization failed. See root cause above."


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["cannot open x", "ValueError: y", "KeyError: 'z'"], "ValueError: y"),
        (["ValueError: unknown log level=trace", "make: *** [all] Error 2"], "ValueError: unknown log level=trace"),
        (["ValueError: y", "1.02.345.678 E llama: z"], "1.02.345.678 E llama: z"),
        ([ECHO, "KeyError: 'z'"], "KeyError: 'z'"),
        ([QUOTED, "cannot open x"], "cannot open x"),
        ([QUOTED, "all is well"], QUOTED),
        ([ECHO, "all is well"], None),
        ([], None),
    ],
)
def test_the_first_error_is_the_one_that_no_other_caused(lines: list[str], found: str | None) -> None:
    assert first_error(iter(list(lines))) == found
    assert first_error(lines) == found
