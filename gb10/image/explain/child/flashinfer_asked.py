"""Which modules of FlashInfer the engine asks for: each is noted, and stood in for by one whose functions do nothing."""

ASKED = {}
"""By the name that FlashInfer looks up: whether the image has it compiled."""


class Nothing:
    """What such a function returns: zero, empty, and again such an object."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *_, **__):
        return Nothing()

    def __index__(self):
        return 0

    __int__ = __len__ = __index__

    def __float__(self):
        return 0.0

    def __bool__(self):
        return False

    def __iter__(self):
        return iter(())

    def __eq__(self, _):
        return False

    __lt__ = __gt__ = __eq__
    __hash__ = object.__hash__


class Rows(int):
    """Rows of a batch, read from a tensor without memory: no number contradicts it."""

    def __ne__(self, _):
        return False

    __hash__ = int.__hash__


def listen():
    """Note each module at the point where FlashInfer would load or compile it."""
    from flashinfer.jit.core import JitSpec
    from flashinfer.prefill import BatchPrefillWithPagedKVCacheWrapper, BatchPrefillWithRaggedKVCacheWrapper

    for wrapper in (BatchPrefillWithPagedKVCacheWrapper, BatchPrefillWithRaggedKVCacheWrapper):
        wrapper._qo_indptr_last = property(lambda _: Rows(), lambda *_: None)

    def asked(self, *_, **__):
        ASKED[self.name] = bool(self.is_aot)
        return Nothing()

    JitSpec.build_and_load = asked
