"""Whether an engine refuses a model itself: its own code raises the error, by a statement that does so."""

import dis

ENGINE = "sglang"
RAISES = dis.opmap["RAISE_VARARGS"]
"""``raise``, and an ``assert`` that fails."""


def is_own(error):
    """Whether the engine raised this error; not what Python, another package or a stand-in raised within it."""
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    code = last.tb_frame.f_code.co_code[last.tb_lasti]
    return last.tb_frame.f_globals.get("__name__", "").partition(".")[0] == ENGINE and code == RAISES
