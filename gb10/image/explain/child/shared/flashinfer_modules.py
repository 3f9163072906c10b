"""Modules of FlashInfer that the engine would load are noted; their functions do nothing."""

from collections.abc import Iterator
from typing import Any

REQUESTED: dict[str, bool] = {}
"""By the name that FlashInfer looks up: whether the image has the module compiled."""


class Nothing:
    """The result of such a function: zero, empty, and every attribute is such an object."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *_: object, **__: object) -> Any:
        return Nothing()

    def __index__(self) -> int:
        return 0

    __int__ = __len__ = __index__

    def __float__(self) -> float:
        return 0.0

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __eq__(self, _: object) -> bool:
        return False

    __lt__ = __gt__ = __eq__
    __hash__ = object.__hash__


class Rows(int):
    """Rows of a batch, read from a tensor without memory: no number contradicts it."""

    def __ne__(self, _: object) -> bool:
        return False

    __hash__ = int.__hash__


def listen() -> None:
    """Note each module where FlashInfer would load or compile it."""
    from flashinfer.jit.core import JitSpec
    from flashinfer.prefill import BatchPrefillWithPagedKVCacheWrapper, BatchPrefillWithRaggedKVCacheWrapper

    for wrapper in (BatchPrefillWithPagedKVCacheWrapper, BatchPrefillWithRaggedKVCacheWrapper):
        wrapper._qo_indptr_last = property(lambda _: Rows(), lambda *_: None)

    def note(self: Any, *_: object, **__: object) -> Nothing:
        REQUESTED[self.name] = bool(self.is_aot)
        return Nothing()

    JitSpec.build_and_load = note
