"""An answer from a process of its own: what the engine configures there ends with it."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any


class Forked:
    """A function that runs in a fork of this process, and returns a JSON document."""

    def __init__(self, function: Callable[..., Any], *given: Any) -> None:
        ours, theirs = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(ours)
            with os.fdopen(theirs, "w", encoding="utf-8") as out:
                json.dump(function(*given), out)
            os._exit(0)
        os.close(theirs)
        self._read = os.fdopen(ours, encoding="utf-8")

    def document(self) -> Any:
        """What the function returned. Ends this process, by the same signal, if the fork ended without an answer."""
        with self._read as read:
            text = read.read()
        _, status = os.waitpid(self._child, 0)
        if not text and os.WIFSIGNALED(status):  # a limit, or want of memory
            os.kill(os.getpid(), os.WTERMSIG(status))
        if not text:
            sys.exit(f"a process of the engine ended without a word (status {status})")
        return json.loads(text)
