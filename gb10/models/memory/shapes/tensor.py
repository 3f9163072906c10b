"""A tensor of a model file: its name from ``layers.`` on, its size, and whether a scheme may store it in fewer bits."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """``name`` has ``*`` for the number of an expert, of which there are ``copies``. A vector has one column.

    ``linear`` is a projection that quantization may change. ``width`` is the bytes of an element otherwise, where
    they are not those of the model's type.
    """

    name: str
    rows: int
    columns: int = 1
    copies: int = 1
    linear: bool = False
    width: int | None = None

    @property
    def elements(self) -> int:
        """Numbers in all copies."""
        return self.rows * self.columns * self.copies


def linear(name: str, columns: int, rows: int, *, copies: int = 1) -> Tensor:
    """A projection from ``columns`` to ``rows``."""
    return Tensor(name=name, rows=rows, columns=columns, copies=copies, linear=True)


def plain(name: str, rows: int, columns: int = 1, *, copies: int = 1, width: int | None = None) -> Tensor:
    """A tensor that keeps its type."""
    return Tensor(name=name, rows=rows, columns=columns, copies=copies, width=width)
