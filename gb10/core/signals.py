"""How a command ends: ``kill`` and a closed terminal interrupt it as Ctrl-C does, and no interrupt is lost."""

import signal
import sys
from threading import Timer, main_thread
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

ASKED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
OURS: Final = (signal.SIG_DFL, signal.default_int_handler)
AGAIN_S: Final = 0.05
_heard: Final[list[int]] = []


def end_as_by_ctrl_c() -> None:
    """Let SIGTERM and SIGHUP interrupt as Ctrl-C does, unless the process that started this ignores them (nohup)."""
    for number in ASKED:
        if signal.getsignal(number) in OURS:
            signal.signal(number, _interrupt)
    sys.unraisablehook = _interrupt_again


def was_interrupted() -> bool:
    """Whether an interrupt came. Others may take it for a failure of their own.

    Pydantic calls a value invalid; Python up to 3.11 makes it a RuntimeError while a class is defined.
    """
    return bool(_heard)


def _interrupt(number: int, _: object) -> NoReturn:
    _heard.append(number)
    raise KeyboardInterrupt


def _interrupt_again(dropped: "UnraisableHookArgs") -> None:
    """Python drops an interrupt that comes while it frees an object; then it comes once more, a moment later.

    As a signal: it ends what the main thread waits for.
    """
    if dropped.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(dropped)
    elif not sys.is_finalizing():
        heard = (one for one in ASKED if signal.getsignal(one) in (_interrupt, signal.default_int_handler))
        Timer(AGAIN_S, signal.pthread_kill, [main_thread().ident, next(heard, signal.SIGINT)]).start()
