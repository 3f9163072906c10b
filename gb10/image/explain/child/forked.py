"""An answer from a process of its own: what it configures ends with it."""

import json
import os


class Forked:
    """A function that runs in a fork of this process, and returns a document."""

    def __init__(self, look, *given):
        ours, theirs = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(ours)
            with os.fdopen(theirs, "w", encoding="utf-8") as out:
                json.dump(look(*given), out)
            os._exit(0)
        os.close(theirs)
        self._read = os.fdopen(ours, encoding="utf-8")

    def document(self):
        """What it found. Ends this process when that one ended without a word."""
        with self._read as read:
            text = read.read()
        _, status = os.waitpid(self._child, 0)
        if not text and os.WIFSIGNALED(status):  # a limit, or want of memory: this process ends by the same
            os.kill(os.getpid(), os.WTERMSIG(status))
        if not text:
            raise SystemExit(f"a process of the engine ended without a word (status {status})")
        return json.loads(text)
