"""The requests of a rehearsal: prompts of several lengths alone, short ones together, within the engine's bounds."""

from gb10.image.explain.child.shared.values import Request

TOKENS = 4
"""Tokens that each request generates."""
Prompt = tuple[str, int, int]
"""Name, number and length of a request."""


def batches(request: Request, most: int, many: int, longest: int, *, times: int = 1) -> list[list[Prompt]]:
    """Lists of requests that come together. A request that comes alone comes ``times``.

    ``most``: tokens of a prompt at once. ``many``: requests at once. ``longest``: tokens of a request with its answer.
    """
    lengths = [one for one in dict.fromkeys((*request["lengths"], most, most + 1)) if one <= longest - TOKENS]
    counts = [one for one in dict.fromkeys((*request["together"], many)) if one <= many]
    alone = [[(f"alone-{turn}-{number}", number, one)] for turn in range(times) for number, one in enumerate(lengths)]
    return [*alone, *([(f"{count}-{one}", one, 2 + one % 3) for one in range(count)] for count in counts)]


def sampling(number: int) -> dict[str, float]:
    """The sampling parameters of a request: every second one is greedy."""
    greedy, other = {"temperature": 0.0}, {"temperature": 0.7, "top_p": 0.9, "top_k": 40}
    return {**(other if number % 2 else greedy), "ignore_eos": True}
