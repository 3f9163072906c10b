"""The quick result of an unchanged ``image``: from a receipt, before most of gb10 is imported."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gb10.cli.receipt import read_receipt, receipt_path
from gb10.core.config import config_file, with_cache_dir
from gb10.core.store import store_root


def own_receipt(arguments: Sequence[str]) -> Path | None:
    """The path of a command line's receipt in this environment; None for a verb without receipts."""
    if list(arguments[:1]) != ["image"]:
        return None
    docker = Path(os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")) / "config.json"  # noqa: PTH111
    files = (config_file(os.environ), docker)
    return receipt_path(store_root(with_cache_dir(os.environ)), arguments, os.environ, files)


def answered(arguments: Sequence[str]) -> bool:
    """Print the kept result if it is still valid; False when the command must run."""
    path = own_receipt(list(arguments))
    receipt = read_receipt(path) if path else None
    if receipt is None:
        return False
    if not {"-q", "--quiet"} & set(arguments):
        print("\n".join(receipt.summary), file=sys.stderr)
    print(json.dumps(receipt.document, indent=2) if "--json" in arguments else receipt.digest)
    return True
