"""The figures that are compared, and the words for "higher" and "lower" of each. Pure."""

from dataclasses import dataclass
from typing import Final

from gb10.serving.stats.comparison import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a level. ``up`` and ``down`` say what a higher and a lower one of B means."""

    name: str
    title: str
    unit: str
    up: str = "faster"
    down: str = "slower"

    def word(self, outcome: Outcome) -> str:
        """The outcome in a person's word."""
        return {Outcome.HIGHER: self.up, Outcome.LOWER: self.down}.get(outcome, str(outcome))


FIGURES: Final = (
    Figure(name="steps_s", title="steps/s", unit="steps a second, of one stream"),
    Figure(name="tokens_per_step", title="tokens/step", unit="tokens a step", up="more", down="fewer"),
    Figure(name="tok_s", title="tok/s", unit="tokens a second, all streams"),
    Figure(name="first_token_s", title="first token, s", unit="seconds to the first token", up="slower", down="faster"),
)
SPEED: Final = ("steps_s", "tok_s")
"""The figures that the verdict of a whole comparison rests on."""
