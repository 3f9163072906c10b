"""How a command ends: ``kill`` and a closed terminal interrupt it as Ctrl-C does."""

import signal


def end_as_by_ctrl_c() -> None:
    """Let SIGTERM and SIGHUP interrupt as Ctrl-C does, unless the process that started this ignores them (nohup)."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
