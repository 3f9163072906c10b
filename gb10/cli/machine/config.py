"""``config``: show the settings."""

import os
from collections.abc import Callable

from gb10.cli.common import JsonOption, QuietOption, VerboseOption, print_json, verb_app
from gb10.core.config import SETTINGS, config_file, read_settings, store_root, without_login
from gb10.core.fetch import ca_bundle
from gb10.errors import UsageError
from gb10.image.context import cores
from gb10.sources.debian.mirror import mirror_url

app = verb_app(
    """Show the settings and where each comes from: GB10_* variables win over config.toml.

\b
./build.py config show
./build.py config show --json

Settings change speed and places, never the content of an image: only the recipe and the lock do.
""",
    group=True,
)


@app.command()
def show(*, as_json: JsonOption = False, verbose: VerboseOption = 0, quiet: QuietOption = False) -> None:
    """Print every setting, the value in effect, and its origin.

    \b
    ./build.py config show --json
    """
    found = [setting._replace(value=shown(setting.name, setting.value)) for setting in read_settings(os.environ)]
    if as_json:
        values = {setting.name: {"value": setting.value, "origin": setting.origin} for setting in found}
        print_json({"schema": "gb10/config/v1", "file": str(config_file(os.environ)), "settings": values})
        return
    print(f"file  {config_file(os.environ)}")
    for setting in found:
        print(f"\n{setting.name} = {setting.value or 'not set'}\n    from {setting.origin}: {SETTINGS[setting.name]}")


def shown(name: str, value: str | None) -> str | None:
    """A setting's value, or the default in effect; passwords of URLs are hidden."""
    found = value or in_effect(name)
    return without_login(found) if found else None


def in_effect(name: str) -> str | None:
    """The default of a setting on this machine; None when it has none."""
    defaults: dict[str, Callable[[], object]] = {
        "cache-dir": lambda: store_root(os.environ),
        "debian-mirror": lambda: mirror_url(os.environ),
        "ca-bundle": lambda: ca_bundle(os.environ),
        "wheel-cache": lambda: None,
        "wheel-cache-signers": lambda: None,
        "wheel-cache-key": lambda: None,
        "jobs": lambda: f"up to {cores()}, as memory allows",
        "compile-cache": lambda: None,
    }
    try:
        value = defaults[name]()
    except UsageError:
        return None
    return None if value is None else str(value)


@app.callback()
def config() -> None:
    """Keep ``show`` a subcommand while it is the only one."""
