"""A tokenizer.json whose tokens are bytes: what a load needs when the model's own is not at hand."""

import json
from pathlib import Path


def write_byte_tokenizer(path: Path) -> Path:
    """Write it; returns ``path``."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    names = {chr(byte): byte for byte in shown} | {chr(256 + at): byte for at, byte in enumerate(hidden)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "vocab": names, "merges": [], "byte_fallback": False, "fuse_unk": False}
    document = {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
