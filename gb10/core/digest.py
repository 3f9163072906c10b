"""Keys: sha256 over canonical JSON, the same for the same values on every machine. Pure."""

import hashlib
import json


def digest(value: object) -> str:
    """Hex sha256 of a JSON value; dict order does not matter, list order does."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
