"""explain's script for SGLang with a mistake where it builds the layers."""

import sglang_chosen


def built(*_: object) -> None:
    """A mistake."""
    raise RuntimeError("no layer was built")


sglang_chosen.built = built
answer = sglang_chosen.answer
