"""Keys: sha256 over canonical JSON, the same for the same values on every machine. Pure."""

import hashlib
import json
from collections.abc import Iterable


def digest(value: object) -> str:
    """Hex sha256 of a JSON value; dict order does not matter, list order does."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_texts(texts: Iterable[tuple[str, bytes]]) -> str:
    """Hex sha256 of named contents, sorted by name."""
    return digest(sorted((name, hashlib.sha256(content).hexdigest()) for name, content in texts))
