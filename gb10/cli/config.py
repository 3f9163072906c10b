"""``config``: show the settings."""

import os

from gb10.cli.common import JsonOption, print_json, verb_app
from gb10.config import SETTINGS, config_file, read_settings

app = verb_app(
    """Show the settings and where each came from: GB10_* variables win over config.toml.

Settings decide speed and place, never what goes into an image; that is the recipe's and the lock's.
""",
    group=True,
)


@app.command()
def show(*, as_json: JsonOption = False) -> None:
    """Print every setting with its origin."""
    found = read_settings(os.environ)
    if as_json:
        values = {setting.name: {"value": setting.value, "origin": setting.origin} for setting in found}
        print_json({"schema": "gb10/config/v1", "file": str(config_file(os.environ)), "settings": values})
        return
    print(f"file  {config_file(os.environ)}")
    for setting in found:
        print(f"{setting.name:14} {setting.value or '-':30} {setting.origin:20} {SETTINGS[setting.name]}")


@app.callback()
def config() -> None:
    """The group; ``show`` is its verb."""
