"""Programs that tests use to look at a machine from outside: Debian's packages of those that it lacks are installed."""

import os
import shutil
import subprocess
from typing import Final

PACKAGES: Final = {
    "ip": "iproute2",
    "ps": "procps",
    "pkill": "procps",
    "curl": "curl",
    "readelf": "binutils",
    "ssh-keygen": "openssh-client",
}
QUIET: Final = {"DEBIAN_FRONTEND": "noninteractive"}


def install_missing() -> None:
    """Install what is missing by apt, which needs root. It prints what it installs."""
    missing = sorted({package for program, package in PACKAGES.items() if shutil.which(program) is None})
    if not missing:
        return
    print(f"tests need {', '.join(missing)}: installing by apt-get", flush=True)
    env = {**os.environ, **QUIET}
    subprocess.run(["apt-get", "update", "-q"], check=True, env=env, stdout=subprocess.DEVNULL)
    command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *missing]
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
