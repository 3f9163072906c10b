"""The requests of a rehearsal: prompts of several lengths alone, short ones together, within the engine's bounds."""

TOKENS = 4
"""What each request makes."""


def batches(request, most, many, longest, times=1):
    """Lists of requests that come together: name, number and length of each. Alone each comes ``times``.

    ``most``: tokens of a prompt at once. ``many``: requests at once. ``longest``: tokens of a request, its answer, too.
    """
    lengths = [one for one in dict.fromkeys((*request["lengths"], most, most + 1)) if one <= longest - TOKENS]
    counts = [one for one in dict.fromkeys((*request["together"], many)) if one <= many]
    alone = [[(f"alone-{turn}-{number}", number, one)] for turn in range(times) for number, one in enumerate(lengths)]
    return [*alone, *([(f"{count}-{one}", one, 2 + one % 3) for one in range(count)] for count in counts)]


def sampling(number):
    """The engine's parameters: every second request is greedy."""
    chosen = {"temperature": 0.0} if number % 2 == 0 else {"temperature": 0.7, "top_p": 0.9, "top_k": 40}
    return {**chosen, "ignore_eos": True}
