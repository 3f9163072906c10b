"""Options of an engine that a recipe of somebody else may not give: those that run code or open files. Pure.

``--trust-remote-code`` is not among them, since two thirds of public recipes give it: it is said, each time.
"""

import re
from collections.abc import Sequence
from typing import Final

from gb10.models.render.engine_flags import words_of

BARRED: Final = words_of("""
    --tool-parser-plugin --reasoning-parser-plugin --middleware --worker-cls --worker-extension-cls --scheduler-cls
    --logits-processors --logits-processor-pattern --io-processor-plugin --config --allowed-local-media-path
    --extra-llm-api-options --slot-save-path --custom-sigquit-handler --ssl-keyfile --ssl-certfile --ssl-ca-certs
    --uds --lora-modules-path
""")
"""By their long names. An engine takes the beginning of a name, too."""
WHOLE: Final = frozenset(words_of("--reasoning-parser --scheduler --worker --logits --io --extra"))
"""Names that are the beginning of one above, and other options."""
FIELD: Final = re.compile(r"(?:module_path|_cls|_plugins?)$", re.IGNORECASE)
"""What a field of a JSON value names that is imported: in ``--x.FIELD`` and in ``{"FIELD": …}``."""
KEY: Final = re.compile(r'"([^"]{1,80})"\s*:')
CLOSED: Final = re.compile(r"(?:^|[\s=\"',:\[{(])/(?:gb10|proc|sys|dev|etc|run)(?:/|$)|(?:^|[/=\"'])\.\.(?:/|$)")
"""Paths of a container where secrets and the machine's own files lie."""


def doubts_of(words: Sequence[str]) -> tuple[str, ...]:
    """Why words of a server's command need trust, each once."""
    return tuple(dict.fromkeys(filter(None, map(_doubt, words))))


def _doubt(word: str) -> str | None:
    name, _, value = word.partition("=")
    if name.startswith("--"):
        plain = name.replace("_", "-").lower()
        field = name.rpartition(".")[2] if "." in name else ""
        if plain not in WHOLE and len(plain) > 3 and any(one.startswith(plain) for one in BARRED):
            return f"the option {name} runs code or opens a file"
        if field and FIELD.search(field):
            return f"the option {name} names code to run"
    if any(FIELD.search(key) for key in KEY.findall(word)):
        return f"a value names code to run: {word[:60]}"
    if CLOSED.search(value or word):
        return f"it names a file of the container that is no model's: {word[:60]}"
    return None
