"""explain's script for SGLang with a mistake where it builds the layers. It lies in a copy of explain's process."""

from gb10.image.explain.child.sglang import choose


def build(*_: object) -> None:
    """A mistake."""
    raise RuntimeError("no layer was built")


choose.build = build
answer = choose.answer
