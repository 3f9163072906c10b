"""Programs that read the files of other launchers, as others made them: Debian's, and the package index's, by hash."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jsonschema
import yaml

from gb10.core.proc import CommandFailedError, capture
from gb10.core.store import Store
from tests.integration.debian_roots import unpacked_root
from tests.integration.pinned import pinned

HERE: Final = Path(__file__).parent
PACKAGES: Final = (
    "containernetworking-plugins",
    "docker-cli",
    "docker-compose",
    "netplan-generator",
    "python3",
    "systemd",
)
COMPOSE: Final = "usr/libexec/docker/cli-plugins/docker-compose"
KUBERNETES: Final = ("1.32", "1.33", "1.34", "1.35", "1.36", "1.37")
SCHEMA: Final = json.loads((HERE / "lws.schema.json").read_text(encoding="utf-8"))
SPARKRUN: Final = HERE.parent / "e2e/inside/sparkrun_dry_run.py"
DOCKER_UNIT: Final = "[Service]\nExecStart=/usr/bin/true\n"


class WrongError(Exception):
    """A file is refused."""


@dataclass(frozen=True, slots=True)
class Tools:
    """A root of Debian 13 with its tools, and the folder of the index's."""

    root: Path
    site: Path

    @property
    def env(self) -> dict[str, str]:
        """For the index's tools."""
        return {**os.environ, "PYTHONPATH": str(self.site), "ANSIBLE_LOCALHOST_WARNING": "0", "NO_COLOR": "1"}

    def compose(self, file: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
        """A command of docker-compose 2.26 for a file."""
        argv = [str(self.root / COMPOSE), "--file", str(file), *words]
        return capture(argv, env=None if env is None else {**os.environ, **env})

    def playbook(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        """``ansible-playbook``."""
        return capture([sys.executable, "-m", "ansible", "playbook", *words], env={**self.env, **(env or {})})

    def unit(self, name: str, text: str) -> str:
        """What systemd-analyze says about a unit; it must load."""
        (self.root / "etc/systemd/system" / name).write_text(text, encoding="utf-8")
        argv = ["systemd-analyze", "verify", "--man=no", "--generators=no", "--recursive-errors=no"]
        return capture(["chroot", str(self.root), *argv, f"/etc/systemd/system/{name}"])

    def netplan(self, text: str) -> dict[str, str]:
        """The files that netplan's generator makes of a file, by name."""
        scratch = self.root / "netplan"
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "etc/netplan").mkdir(parents=True)
        (scratch / "etc/netplan/60-gb10.yaml").write_text(text, encoding="utf-8")
        (scratch / "etc/netplan/60-gb10.yaml").chmod(0o600)
        capture(["chroot", str(self.root), "/usr/libexec/netplan/generate", "--root-dir", "/netplan"])
        return {path.name: path.read_text() for path in (scratch / "run").rglob("*") if path.is_file()}

    def network(self, text: str, netns: Mapping[str, str], interface: str) -> dict[str, Any]:
        """What CNI's own plugins answer when a pod gets a network; ``netns`` has the names of ``node`` and ``pod``."""
        folder = self.root / "usr/lib/cni"
        words = ("ADD", "1", f"/var/run/netns/{netns['pod']}", interface, str(folder))
        names = ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH")
        env = {**os.environ, **dict(zip(names, words, strict=True))}
        argv = ["ip", "netns", "exec", netns["node"], str(folder / json.loads(text)["type"])]
        done = subprocess.run(argv, input=text, env=env, capture_output=True, text=True, check=False)
        found: dict[str, Any] = json.loads(done.stdout)
        if done.returncode:
            raise WrongError(found["msg"])
        return found

    def kubernetes(self, file: Path) -> None:
        """Kubernetes' schemas of six releases, and ours of the two kinds that are not its own; all of them strict."""
        objects = [one for one in yaml.safe_load_all(file.read_text(encoding="utf-8")) if one]
        known = [part for one in objects for part in _parts(one)]
        plain = file.with_suffix(".plain.yaml")
        plain.write_text(yaml.safe_dump_all(known), encoding="utf-8")
        for release in KUBERNETES:
            argv = [
                sys.executable,
                "-m",
                "kubernetes_validate",
                "--strict",
                "--kubernetes-version",
                release,
                str(plain),
            ]
            capture(argv, env=self.env)

    def sparkrun(self, scratch: Path, site: Path, text: str, nodes: tuple[str, ...]) -> dict[str, Any] | None:
        """What sparkrun's own dry run would serve; None when it refuses."""
        inside = self.root / "work"
        shutil.rmtree(inside, ignore_errors=True)
        inside.mkdir()
        (inside / "r.yaml").write_text(text, encoding="utf-8")
        case = {"file": "/work/r.yaml", "nodes": list(nodes), "overrides": []}
        (inside / "cases.json").write_text(json.dumps([case]), encoding="utf-8")
        shutil.copy(SPARKRUN, inside / "driver.py")
        if not (self.root / "sparkrun").exists():
            shutil.copytree(site, self.root / "sparkrun")
        env = {"PATH": "/usr/sbin:/usr/bin:/bin", "HOME": "/work", "NO_COLOR": "1", "PYTHONPATH": "/sparkrun"}
        capture(["chroot", str(self.root), "python3", "/work/driver.py", "/work/cases.json", "/work/out.json"], env=env)
        found: list[dict[str, Any] | None] = json.loads((inside / "out.json").read_text(encoding="utf-8"))
        return found[0]

    def words_of(self, name: str) -> list[str]:
        """The words of a unit's ExecStart, as systemd itself reads them; no unit is started.

        The manager must not be root for its test, and wants to see /proc and /sys.
        """
        home = self.root / "home/units"
        (home / "systemd/user").mkdir(parents=True, exist_ok=True)
        for unit in (name, "docker.service"):
            shutil.copy(self.root / "etc/systemd/system" / unit, home / "systemd/user")
        (self.root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
        inner = [
            f"mount --rbind /proc {self.root}/proc",
            f"mount --rbind /sys {self.root}/sys",
            f"exec chroot --userspec=65534:65534 {self.root} env XDG_CONFIG_HOME=/home/units XDG_RUNTIME_DIR=/tmp"
            f" HOME=/tmp SYSTEMD_LOG_LEVEL=warning /usr/lib/systemd/systemd --test --user --unit={name}",
        ]
        done = capture(["unshare", "--mount", "sh", "-ec", "\n".join(inner)])
        found = re.search(r"ExecStart:\n\s*Command Line: (.*)\n", done.partition(f"Unit {name}:")[2])
        assert found, done
        return [_meant(word) for word in re.findall(r'"(?:[^"\\]|\\.)*"|\S+', found[1])]


def _meant(word: str) -> str:
    """A word of systemd's dump, which quotes as C does; then ``$$`` becomes a dollar, as at the start of a program."""
    if word.startswith('"'):
        named = {"n": "\n", "t": "\t"}
        word = re.sub(r"\\(.)", lambda found: named.get(found[1], found[1]), word[1:-1])
    return word.replace("$$", "$")


def _parts(one: dict[str, Any]) -> list[dict[str, Any]]:
    """What Kubernetes' own schemas know of an object. Raises WrongError when ours refuse the rest."""
    if one["kind"] not in ("LeaderWorkerSet", "NetworkAttachmentDefinition"):
        return [one]
    try:
        jsonschema.validate(one, SCHEMA)
        if one["kind"] == "NetworkAttachmentDefinition":
            return []
    except (jsonschema.ValidationError, ValueError) as error:
        raise WrongError(str(error)) from error
    parts = one["spec"]["leaderWorkerTemplate"]
    templates = [parts[name] for name in ("leaderTemplate", "workerTemplate") if name in parts]
    return [
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"}, "template": template}
        for template in templates
    ]


def unpack_tools(store: Store, folder: Path) -> Tools:
    """The tools."""
    root = unpacked_root(store, folder, *PACKAGES)
    (root / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
    (root / "etc/systemd/system/docker.service").write_text(DOCKER_UNIT, encoding="utf-8")
    return Tools(root=root, site=pinned("deploy-tools", HERE / "deploy-tools.txt"))


def refused(check: object, *given: object) -> str:
    """The words with which a tool refuses a file."""
    try:
        check(*given)  # type: ignore[operator]
    except CommandFailedError as error:
        return error.tail
    except WrongError as error:
        return str(error)
    except subprocess.SubprocessError as error:
        return str(error)
    raise AssertionError("it accepts the mistake")
