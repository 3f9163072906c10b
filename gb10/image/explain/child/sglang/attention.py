"""The class of attention that SGLang would build for a model, and for its layers of state; it is not built."""

import signal
import types
from collections.abc import Iterator
from typing import Any, NoReturn

from gb10.image.explain.child.shared.engine_errors import raising_package
from gb10.image.explain.child.shared.meta_tensors import NoMemory
from gb10.image.explain.child.shared.values import Row


def backends(given: Any, config: Any) -> Row:
    """``name`` and ``class`` of attention for prompts and for decoding; ``state``: the class for layers of state."""
    from sglang.srt.configs.model_config import AttentionArch
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS, attn_backend_wrapper
    from sglang.srt.runtime_context import attention_backends

    prompts, decoding = attention_backends()
    runner = _runner(given, config, AttentionArch, prompts, decoding)
    with _Unconstructed():
        full = [ATTENTION_BACKENDS[name](runner) for name in dict.fromkeys((prompts, decoding))]
        wrapped = attn_backend_wrapper(runner, full[0])
    for one in full:
        check(one)
    names = prompts if prompts == decoding else f"{prompts}, decoding {decoding}"
    state = next((one for one in wrapped.given if isinstance(one, Unbuilt) and one is not full[0]), None)
    return {
        "name": names,
        "class": ", ".join(one.kind.__name__ for one in full),
        "state": state.kind.__name__ if state else None,
    }


SECONDS = 5
"""CPU time of a constructor."""


class AbsentError(Exception):
    """A backend needs a package, or an operator, that the image has not."""


def check(unbuilt: "Unbuilt") -> None:
    """Raise for a class whose constructor takes what the image has not, or that it refuses for this model itself.

    The constructor runs over a stand-in of SGLang's runner, as far as it comes: where that decided, nothing is known.
    """
    Number.compared = False
    signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    first, *others = unbuilt.arguments
    given = Runner(first) if isinstance(first, types.SimpleNamespace) else first
    try:
        with NoMemory():
            unbuilt.kind.__init__(object.__new__(unbuilt.kind), given, *others, **unbuilt.named)
    except (ImportError, NameError) as error:  # a name is absent where its import has failed
        raise AbsentError(f"{unbuilt.kind.__name__} needs what the image has not: {error}") from error
    except AttributeError as error:
        if "_OpNamespace" in str(error):
            raise AbsentError(f"{unbuilt.kind.__name__} needs an operator that the image has not: {error}") from error
    except Exception as error:
        if raising_package(error) == "sglang" and not Number.compared:
            raise
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _too_long(*_: object) -> NoReturn:
    raise TimeoutError("a constructor waits for a value that nobody gives")


class Number(int):
    """A value of the runner, which nobody knows: a number, and what it is asked for."""

    compared = False
    """Whether a constructor went by such a value."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Number(1)

    def __call__(self, *_: object, **__: object) -> Any:
        return Number(1)

    __getitem__ = __call__

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        Number.compared = True
        return True

    def __eq__(self, other: Any) -> bool:
        Number.compared = True
        return int.__eq__(self, other)

    def __lt__(self, other: Any) -> bool:
        Number.compared = True
        return int.__lt__(self, other)

    def __gt__(self, other: Any) -> bool:
        Number.compared = True
        return int.__gt__(self, other)

    __hash__ = int.__hash__


class Runner:
    """SGLang's model runner, by what the choice reads of it; all else of it is unknown."""

    def __init__(self, known: Any) -> None:
        self._known = known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._known, name, Number(1))


class Unbuilt:
    """An attention backend whose constructor did not run: its class, and what it was given."""

    def __init__(self, kind: Any, arguments: Any, named: Any) -> None:
        self.kind, self.arguments, self.named = kind, arguments, named
        self.given = (*arguments, *named.values())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Number(1)


class _Unconstructed:
    """While active, a class of attention gives what it was called with, and no object of itself."""

    def __enter__(self) -> None:
        from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

        AttentionBackend.__new__ = lambda kind, *args, **named: Unbuilt(kind, args, named)

    def __exit__(self, *_: object) -> None:
        from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

        del AttentionBackend.__new__


def _runner(given: Any, config: Any, kinds: Any, prompts: Any, decoding: Any) -> Any:
    """What the choice reads of SGLang's model runner."""
    return types.SimpleNamespace(
        server_args=given,
        model_config=config,
        use_mla_backend=config.attention_arch == kinds.MLA,
        is_draft_worker=False,
        init_new_workspace=False,
        device="cuda",
        dtype=config.dtype,
        prefill_attention_backend_str=prompts,
        decode_attention_backend_str=decoding,
    )
