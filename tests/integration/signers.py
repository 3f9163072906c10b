"""A context whose ssh-keygen is Debian's, and people with keys."""

import os
from dataclasses import replace
from pathlib import Path

from gb10.image.context import Context, open_context
from tests.integration.hub_server import make_signer
from tests.integration.nodes import ssh_keygen


def signing_shop(keys: Path, *names: str) -> Context:
    """The folder ``keys`` gets a key of each name, and a file that trusts it alone."""
    made = open_context(os.environ, verbosity=0)
    env = {**made.env, "PATH": ssh_keygen(made.store, keys / "ssh")}
    for name in names:
        make_signer(keys, name, env)
    return replace(made, env=env)
