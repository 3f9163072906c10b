"""The commands of a RUN: which become requirements, patches or a mod, and which are left out. Nothing is run."""

import posixpath
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Final

from packaging.utils import canonicalize_name

from gb10.core.fields import requirement_name
from gb10.errors import PatchError, UsageError
from gb10.image.adopt.adopted import Block, Line, ModDraft, Need, Verdict, WheelNeeded
from gb10.image.adopt.build_files import BuildFile
from gb10.image.adopt.hiding import HIDDEN, holds_secret, is_secret
from gb10.image.adopt.installs import (
    APT,
    ARCHIVE,
    INDEX_OPTIONS,
    PIP,
    PYPI,
    PYTHON,
    SETTING,
    Installs,
    Tree,
    apt_packages,
    files_read,
    git_checkout,
    git_clone,
    pip_arguments,
    public,
    read_install,
    without_prefix,
)
from gb10.image.adopt.shell import MOST_CHARACTERS, SHELLS, Command, parse_commands
from gb10.image.patches.diff import MOST_BYTES, parse_diff
from gb10.image.patches.owners import SITE, divide, sections
from gb10.image.patches.releases import Releases

QUIET: Final = frozenset(
    """
    echo printf true : ls pwd which date whoami uname sleep wait ccache nproc env printenv nvidia-smi du df
    tree file dpkg-query readlink realpath id hostname
    """.split()  # noqa: SIM905 - one word after the other is easier to read
)
"""Programs that change nothing, unless their output goes to a file."""
WAITS: Final = frozenset(("wait", "sleep"))
"""Of these, those that give a command behind ``&`` its time."""
GUARDS: Final = frozenset(
    """
    test [ [[ grep cmp diff sha256sum md5sum stat ldd readelf nm strings cuobjdump
    """.split()  # noqa: SIM905 - one word after the other is easier to read
)
"""Programs that stop a build when something is not as expected; kept beside what they guard."""
STATE: Final = frozenset(
    """
    cd set export declare source . umask shopt unset exit
    """.split()  # noqa: SIM905 - one word after the other is easier to read
)
FETCHERS: Final = frozenset(
    """
    curl wget aria2c huggingface-cli hf gdown axel lftp ftp rsync scp
    """.split()  # noqa: SIM905 - one word after the other is easier to read
)
NAMED_BY_URL: Final = ("wget", "aria2c", "axel")
"""Of these, those that name a file by its address."""
COMPILERS: Final = frozenset(
    """
    cmake make ninja nvcc cargo rustc rustup go meson bazel bazelisk npm yarn pnpm maturin conda mamba
    micromamba configure autoreconf dpkg-buildpackage debuild
    """.split()  # noqa: SIM905 - one word after the other is easier to read
)
INSTALLS: Final = frozenset(("install", "i", "-g", "--install", "add"))
"""What a compiler or a manager of packages is told that makes programs."""
CONDAS: Final = frozenset(("conda", "mamba", "micromamba"))
CACHES: Final = re.compile(
    r"(/var/lib/apt/lists|/var/cache/apt|/root/\.cache|~/\.cache|/root/\.triton|/tmp|/var/tmp|/root/\.cargo)(/.*)?"
)
VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_]\w*)")
NAMED: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
IMPORTS: Final = re.compile(r"\b(import|find_spec|version)\b")
IMPORTED: Final = re.compile(
    r"(?:\bfrom\s+([\w.]+)\s+)?\bimport\s+([\w.]+(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[ \t]*[\w.]+(?:[ \t]+as[ \t]+\w+)?)*)?"
)
"""An import of Python: the module that names come from, else the modules."""
ASKED: Final = re.compile(
    r"\b(?:version|find_spec|import_module|__import__|(?:get_)?distribution|requires|metadata|files)"
    r"""\(\s*\\?["']([\w.-]+)"""
)
"""A module or a package that a text of Python asks for by its name."""
LISTS: Final = ("freeze", "list", "inspect", "tree", "check")
"""Subcommands of pip that name all packages."""
CHANGES: Final = re.compile(
    r"write|open\(|copy|shutil|subprocess|\bos\.|unlink|rename|symlink|hardlink|mkdir|rmdir|touch|chmod"
)
"""What a text of Python that changes files has, and one that only looks does not need."""
APT_QUIET: Final = ("update", "clean", "autoclean", "")
PIP_QUIET: Final = ("list", "show", "check", "cache", "freeze", "debug", "inspect", "index", "tree", "")
TOOLS: Final = ("pip", "setuptools", "wheel", "uv", "build")
"""What installs, without a version: an image keeps its own."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
INDEXES: Final = re.compile(r"(PIP|UV)_((EXTRA_|DEFAULT_)?INDEX(_URL)?|FIND_LINKS)")
"""Variables that name where packages come from."""
SHORT: Final = re.compile(r"[-+][A-Za-z]+")
"""Options of a shell, of one letter each."""
SPOKEN: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
"""The option of a shell behind which its text stands."""
PATHS: Final = re.compile(r"(?<![\w/.:$}-])/[\w./+-]*")
OF_BASES: Final = re.compile(
    r"/((boot|dev|home|media|mnt|proc|root|run|srv|sys|tmp|workspace|app|sgl-workspace|vllm-workspace"
    r"|opt(/(conda|hpcx|nvidia|venv))?"
    r"|etc(/(apt|default|[\w.-]+\.d|ssl|ssh|ld\.so\.conf|environment|bash\.bashrc|passwd|group|hosts))?"
    r"|var(/(cache|lib|log|opt|run|spool|tmp)(/(apt|dpkg))?)?"
    r"|(usr/(local/)?)?(s?bin(/(bash|pip|python|sh)[\d.]*)?|lib(32|64)?(/(python3[\d.]*|\w+-linux-gnu))?)"
    r"|usr(/local)?(/(cuda[\w.-]*|etc|games|include|libexec|man|share(/(doc|keyrings))?|src))?)(?=/|$))?"
)
"""Folders that images have, and what is in them."""
PROGRAMS: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where programs are that a command names without their folder."""
ROOTS: Final = frozenset(("/", "/usr", "/usr/local", *PROGRAMS))
"""What holds them, or their folders."""
OF_SYSTEM: Final = frozenset(
    """
    add-apt-repository addgroup adduser apt-cache apt-key apt-mark awk base64 basename bc c++ cc chattr chgrp
    chpasswd chsh cp cut dd deluser dirname dpkg dpkg-divert dpkg-reconfigure expand expr false find fold g++ gawk
    gcc gpg groupadd groupmod gunzip gzip head install ip join kill killall ld ldconfig locale-gen localedef lscpu
    mawk md5sum mkfifo mount nl numfmt nvcc nvidia-ctk objcopy od openssl passwd paste perl pgrep pip pip3 pkill ps
    pwd python python3 ray rmdir runuser seq service setcap sglang shuf sort split ssh ssh-keygen stdbuf strip su
    sync sysctl tac tail tee test timeout torchrun touch tr umount uniq update-alternatives update-ca-certificates
    useradd userdel usermod uv visudo vllm wc which xargs xz yes zcat zstd
    """.split()  # noqa: SIM905 - one word after the other is easier to read
)
"""Programs that an image of an engine has, beside those of the other lists."""
OF_PACKAGES: Final = ("/usr/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/include")
"""Where Debian packages put libraries and headers."""
DEEPEST: Final = 32
"""Folders above a path that are looked at."""
DEEPEST_OF_BASES: Final = 6
"""Parts of a path in such a folder."""
UNPACKERS: Final = frozenset(("tar", "bsdtar", "unzip", "7z", "cpio", "ar"))
MAKERS: Final = frozenset(("mkdir", "touch", "mktemp", "truncate"))
COPIERS: Final = frozenset(("cp", "mv", "ln", "install"))
"""Programs whose last word is made."""
WORKERS: Final = frozenset("cp mv rm ln install chmod chown cat sed bash sh dpkg rpm python python3".split())  # noqa: SIM905
"""Programs whose plain words may be files of the current folder."""
LOCAL_PROGRAMS: Final = MAKERS | COPIERS | WORKERS | QUIET | GUARDS
KNOWN: Final = (
    LOCAL_PROGRAMS | UNPACKERS | STATE | FETCHERS | COMPILERS | OF_SYSTEM | {*SHELLS, *APT, "git", "patch", "eval"}
)
"""Programs that an image has, or that are judged by themselves."""
ONLINE: Final = re.compile(r"python[\d.]*|apt-key|gpg2?|add-apt-repository|spacy|playwright|modelscope|uv")
FETCHES: Final = re.compile(
    r"(^|\s)(download|nltk\.downloader|install-deps|(playwright|python) install|add-apt-repository"
    r"|uv tool (install|upgrade|run)|--fetch-keys|--recv-keys?|--keyserver)(\s|=|$)"
)
"""What a program of ONLINE needs a network for."""
DOWNLOADS: Final = re.compile(r"(download|fetch|pull)(-\w+)*$")
"""Subcommands that need a network, of whatever program."""
MANAGERS: Final = re.compile(
    r"pipx|poetry|pdm|hatch|(micro)?dnf|yum|zypper|apk|gem|bundle|snap|flatpak|brew|luarocks|cpanm?|opam|ghcup|uvx|tlmgr"
)
"""Programs that install from an index of their own, by all but the verbs of LOCAL."""
LOCAL: Final = frozenset(
    """
    remove erase del uninstall purge clean autoremove list show info config env version help rm cleanup --version
    """.split()  # noqa: SIM905 - one word after the other is easier to read
)
CODE_FETCHES: Final = re.compile(
    r"\b(pip[\"'\s,]+install|snapshot_download|hf_hub_download|nltk\.download|load_dataset|urlopen|urlretrieve|(requests|httpx)\.(get|post)"
    r"|torch\.hub\.load|from_pretrained\(\s*[\"'][\w.-]+/[\w.-]+[\"'])"
)
"""What a text of Python needs a network for."""
OF_TORCH: Final = re.compile(r"(py)?torch", re.IGNORECASE)
"""Packages that have an index of their own for each CUDA."""
OF_INDEX: Final = re.compile(r"(.*\.)?((extra-|default-)?index(-url)?|find-links)")
REMOTE_NAME: Final = re.compile(r"-[A-Za-z]*O|--remote-name(-all)?")
MADE_BY: Final = re.compile(
    r"(-o|-B|--out(put)?(-?(dir|file|folder|path))?|--(target|install|dest)-?dir|--(install-)?prefix|--root"
    r"|(-D)?CMAKE_INSTALL_PREFIX(:\w+)?|DESTDIR|PREFIX|prefix|GOBIN|CARGO_INSTALL_ROOT|CARGO_TARGET_DIR)"
)
"""Options and variables of programs that name the path that they make."""
ATTACHED: Final = re.compile(r"(-[oB])([^=]+)")
"""Such an option with its path in one word."""
OUTPUT: Final = re.compile(r"-[A-Za-z]*[oOP]|--out(put)?(-(document|dir))?|--local-dir|-d|-C|--dir(ectory(-prefix)?)?")
LISTED: Final = re.compile(r"-K|--config")
"""The option of curl whose file names what it fetches, and where that goes."""
MOST_STARS: Final = 4
"""Of a path with wildcards that is compared; one with more may be any."""
OF_PYTHON: Final = re.compile(rf"{PYTHON.pattern}|{PIP.pattern}|uv")
"""Programs that a Python of the Dockerfile's own has, or works on."""
OF_VARIABLES: Final = {"CONSTRAINT": "-c", "OVERRIDE": "--override"}
"""Options of pip and uv that name files, by the variable that stands for each."""
READERS: Final = frozenset("cat grep head tail awk sort uniq cut tr jq diff cmp wc chmod chown tee".split())  # noqa: SIM905
"""Programs that leave the files that they name as they are, but for those that their output goes to."""
KEPT_SETTINGS: Final = re.compile(r"(PIP|UV|HF|PYTHON)_\w+|DEBIAN_FRONTEND|MAX_JOBS|TMPDIR")
"""Variables before pip that do not change what a wheel holds."""
STRIP: Final = re.compile(r"-p(\d+)")
WILD: Final = re.compile(r"/[^/]*[*?\[]")
"""Where the part of a path begins that has a wildcard."""
NO_SUCCESSOR: Final = "what would take its place is not taken"
LARGEST_SCRIPT: Final = 1 << 20
"""Bytes of a mod's run.sh."""


@dataclass(frozen=True, slots=True)
class ShellLine:
    """Shell lines for a mod. ``real``: a command, not only a state. ``part``: commands of one number are joined by
    ``&&``."""

    text: str
    real: bool
    part: int


@dataclass(slots=True)
class Draft:
    """A mod while it is written."""

    network: bool
    blocks: list[Block] = field(default_factory=list)
    files: dict[str, BuildFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Removal:
    """A command that removes packages or paths; ``since``: how much was lost before it."""

    line: int
    text: str
    names: tuple[str, ...]
    since: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Later:
    """What a reading of the whole Dockerfile found that lines before it need."""

    withheld: Mapping[tuple[int, str], str] = field(default_factory=dict)
    """Of variables and of commands that remove something, by line and text, why they are not taken: only a line after
    them would have made what they name, or what takes its place."""
    env: Mapping[str, str] | None = None
    """The variables of ENV at the end, which all commands of mods see; None before they are known."""


@dataclass(slots=True)
class Image:
    """What the image holds and asks for so far, in the order of the Dockerfile."""

    releases: Releases
    values: dict[str, str | None]
    """Variables of ENV and ARG; None: declared without a value."""
    base: Mapping[str, str] = field(default_factory=dict)
    """The variables of the base, as far as they are known."""
    workdir: str | None = None
    made: set[str] = field(default_factory=set)
    """What is copied and what commands of a mod name, by ``first_folders``."""
    env: dict[str, str] = field(default_factory=dict)
    requirements: dict[str, str] = field(default_factory=dict)
    constraints: dict[str, str] = field(default_factory=dict)
    overlay: dict[str, BuildFile] = field(default_factory=dict)
    added: dict[str, BuildFile] = field(default_factory=dict)
    """Files that are copied after a command of a mod: they lie beside its run.sh."""
    patches: dict[str, bytes] = field(default_factory=dict)
    drafts: list[Draft] = field(default_factory=list)
    clones: dict[str, Tree] = field(default_factory=dict)
    """Folders of repositories that are not taken."""
    lost: dict[str, str] = field(default_factory=dict)
    """Paths that would hold what is not taken, and why."""
    filled: dict[str, str] = field(default_factory=dict)
    """Folders of the base that would hold more, and why: not taken is what is in them alone by that."""
    losses: dict[str, int] = field(default_factory=dict)
    """Of what is not taken, the packages, the paths and the folders above them, by the number of the last time; of a
    folder of the base its path ends with a slash."""
    held: set[str] = field(default_factory=set)
    """Folders that have something of their own in them, or that are there to work in."""
    removals: list[Removal] = field(default_factory=list)
    later: Later = field(default_factory=Later)
    """What an earlier reading found."""
    count: int = 0
    """Of what was lost."""
    brought: set[str] = field(default_factory=set)
    """Debian packages that a mod installs."""
    programs: str = ""
    """Why programs are not there whose names nobody knows."""
    written: int = 0
    """Characters of all commands of mods."""
    wheels: dict[str, WheelNeeded] = field(default_factory=dict)
    shell: tuple[str, ...] = ("/bin/sh", "-c")
    user: str = ""
    """Who runs the commands, where USER names one that is not root."""
    pythons: list[str] = field(default_factory=list)
    """Folders of environments that the Dockerfile makes: what is installed into one is not the base's."""
    first: str = ""
    """The folder that PATH begins with, as far as it is known."""
    left: bool = False
    """Whether something is not taken that a check of the image may look for."""
    changed: set[str] = field(default_factory=set)
    """Paths, also with wildcards, that commands of a mod name: they may be other files after it."""
    removed: set[str] = field(default_factory=set)
    """Packages that a command of a mod removes."""
    absent: set[str] = field(default_factory=set)
    """Packages of another index, which are not taken; an empty name: some that only its command knows."""
    modules: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The names that a package is imported by, as far as they are known."""
    unsure: set[str] = field(default_factory=set)
    """Packages that are not taken, of which a command may import a module of another name."""
    indexes: dict[str, str] = field(default_factory=dict)
    """What ``pip config`` sets: where packages come from."""
    secrets: set[str] = field(default_factory=set)
    """Variables whose value no recipe keeps."""
    withheld: dict[str, str] = field(default_factory=dict)
    """Variables of ENV that are not taken as they name what is not, and why."""

    def make(self, paths: Iterable[str]) -> None:
        """Note that paths are in the image."""
        folders = first_folders(paths)
        self.made |= folders.keys()
        self.held |= {posixpath.dirname(path) for path in folders}

    def lose(self, path: str, why: str) -> None:
        """Note that a path would hold what is not taken; of a folder of the base, that it would hold more."""
        if OF_BASES.fullmatch(path):
            self.fill(path, why)
        else:
            self.lost[path] = why
            self.lose_names([path, *first_folders([path], DEEPEST)])

    def fill(self, folder: str, why: str) -> None:
        """Note that a folder would hold more than it does."""
        self.filled[folder] = why
        self.lose_names([f"{folder}/", folder, *first_folders([folder], DEEPEST)])

    def lose_names(self, names: Iterable[str]) -> None:
        """Note that packages, or paths, are not taken."""
        self.count += 1
        self.losses |= dict.fromkeys(names, self.count)

    def replaced(self, removal: Removal) -> bool:
        """Whether what takes the place of what a command removes is not taken: it stands after the command."""
        places = (name for one in removal.names for name in (one, f"{posixpath.dirname(one)}/"))
        return any(self.losses.get(name, 0) > removal.since for name in places)

    def lost_program(self, name: str) -> str:
        """Why a program is not there that is named without its folder; empty when it is, or may be."""
        lost = (self.lost.get(f"{folder}/{name}", "") for folder in (*PROGRAMS, self.first))
        if "/" in name or (why := next(filter(None, lost), "")):
            return "" if "/" in name else why
        filled = (why for folder, why in self.filled.items() if folder in ROOTS)
        known = any(name in names for names in (KNOWN, self.brought, self.requirements)) or OF_PYTHON.fullmatch(name)
        return "" if known else self.programs or next(filled, "")

    def hollow(self, path: str) -> str:
        """Why a folder would hold nothing, as all that would be in it is not taken; empty when it holds something."""
        deep = path.count("/") >= DEEPEST_OF_BASES
        if path not in self.losses or path in self.held or deep or OF_BASES.fullmatch(path):
            return ""
        lost = {**self.lost, **self.filled}
        return next((why for one, why in lost.items() if f"{one}/".startswith(f"{path}/")), "")

    def file(self, path: str) -> BuildFile | None:
        """A file that the build copied, by its path in the image."""
        return self.added.get(path) or self.overlay.get(path)

    @property
    def own_python(self) -> str:
        """The environment of their own whose programs come first; empty when the base's do."""
        active = self.values.get("VIRTUAL_ENV")
        return next((one for one in self.pythons if self.first == f"{one}/bin" or active == one), "")

    def draft(self, *, network: bool) -> Draft:
        """The mod that the next command belongs to."""
        if not self.drafts or self.drafts[-1].network != network:
            self.drafts.append(Draft(network))
        return self.drafts[-1]

    def lost_in(self, text: str, mounts: Mapping[str, str], own: Collection[str] = (), *, pythons: bool = False) -> str:
        """Why a path that a text names is not there, of these mounts or else; empty when nothing of it is lost.

        ``own``: what the command of the text makes itself, by ``first_folders``. ``pythons``: environments count.
        """
        environments = dict.fromkeys(self.pythons if pythons else (), "a Python of its own")
        lost = (
            why
            for path, why in {**mounts, **self.lost, **environments}.items()
            if path in text and re.search(rf"(?<![\w/.-]){re.escape(path)}(?![\w-])", text)
        )
        named = dict.fromkeys(PATHS.findall(text)) if self.filled else ()
        return next(lost, "") or next((why for path in named if (why := self._new(path, own))), "")

    def _new(self, path: str, own: Collection[str]) -> str:
        """Why a path is not there: nothing but what is not taken would make it in a folder of the base."""
        above = ["/", *first_folders([path])]
        known = OF_BASES.match(above[-1])
        least = len(known[0]) if known else 0
        return next(
            (
                self.filled[folder]
                for folder, top in pairwise(above)
                if folder in self.filled and len(top) > least and top not in self.made and top not in own
            ),
            "",
        )


@dataclass(frozen=True, kw_only=True)
class Mounts:
    """Paths that are there for one RUN alone. ``lost``: why what reads them is not taken. ``empty``: folders whose
    content no image keeps, with mode and owner. ``folders``: by their place, the files of the build context that are
    there."""

    lost: Mapping[str, str] = field(default_factory=dict)
    empty: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    folders: Mapping[str, Mapping[str, BuildFile]] = field(default_factory=dict)

    @cached_property
    def files(self) -> Mapping[str, BuildFile]:
        """All of them: those of a mount that is in another one's folder hide its own."""
        found: dict[str, BuildFile] = {}
        for target in sorted({*self.empty, *self.folders}):
            found = {path: file for path, file in found.items() if not _below(path, target)}
            found |= self.folders.get(target, {})
        return found


class RunReader:
    """The commands of one RUN in their order."""

    def __init__(self, image: Image, mounts: Mounts) -> None:
        self.image = image
        self.mounted = mounts
        self.mounts = mounts.lost
        self.folder = image.workdir
        self.kept = list[ShellLine]()
        self.part = 0
        self.left = False
        """Whether something before was not taken: a check of it is not taken either."""
        self.settings = dict[str, str | None]()
        """Variables that were set here."""
        self.python = ""
        """The environment of their own that was activated here."""
        self.network = False
        self.unset = set[str]()
        """Variables that are not set, as what sets them is not taken."""
        self.unpacked = set[str | None]()
        """Folders in which an archive that is not taken would be unpacked."""
        self.compiled = set[str | None]()
        """Folders in which a compiler that is not taken would make files."""
        self.gone = list[int]()
        """Places in ``kept`` of packages that are removed."""

    def read(self, commands: Sequence[Command]) -> list[Line]:
        """A verdict for each command; what goes into a mod is written there as one block.

        When a part cannot be read, what is beside it may be no whole command either.
        """
        if any(command.unread for command in commands):
            self.image.left = True
            return [_line(command, "unread", "our grammar of shells cannot read all of it") for command in commands]
        found = list[Line]()
        states = list[int]()
        for command in commands:
            self.part += not command.joined
            for line in self._command(command):
                prepares = line.verdict == "no-effect" and line.need == "lost"
                states += [len(found)] if prepares else []
                found.append(replace(line, need="") if prepares else line)
        self.image.left |= self.left
        if self.left and self.gone:  # an image without a package, and without what takes its place, is of no use
            texts = {self.kept[place].text for place in self.gone}
            self.kept = [kept for kept in self.kept if kept.text not in texts]
            found = [
                replace(line, verdict="not-taken", why=NO_SUCCESSOR, need="lost") if line.text in texts else line
                for line in found
            ]
        if self._has_commands and self.image.user:
            why = f"it runs as {self.image.user}: the commands of a mod run as root"
            self.image.left = True
            return [
                replace(line, verdict="not-taken", why=why) if line.verdict == "mod" or index in states else line
                for index, line in enumerate(found)
            ]
        if self._has_commands:
            self._write(commands)
            found = [
                replace(line, verdict="mod", why="beside the commands of the mod") if index in states else line
                for index, line in enumerate(found)
            ]
        return found

    def _write(self, commands: Sequence[Command]) -> None:
        """The block of this RUN: a shell of its own, theirs, with the variables that its text reads."""
        text = _joined(self.kept, self.part)
        place = quoted(self.image.workdir or "")
        start = [f"mkdir -p {place} && cd {place} || exit"] if self.image.workdir else []
        first = commands[0].first if commands else 0
        end = f"END_OF_LINE_{first}"
        while end in text:
            end += "_"
        shell = f"{self._variables()}{_started(self.image.shell)} /dev/fd/9 9<<'{end}'"  # echo differs by shell
        draft = self.image.draft(network=self.network)
        before, after = self._set_aside(draft, first)
        block = [f"# line {first} of the Dockerfile", *before, shell, *start, text, end, *after]
        last = commands[-1].last if commands else 0
        draft.blocks.append(Block(first, last, "\n".join(block)))
        self.image.written += len(draft.blocks[-1].text)
        if self.image.written > MOST_CHARACTERS:
            raise UsageError("the commands of the Dockerfile are too long with their variables")

    def _variables(self) -> str:
        """What starts a shell with the variables as they are at this line: a mod has those that ENV gives at the end.

        Not by ``export`` in the shell: bash refuses that of ``UID``. PATH is never unset: each base has one.
        """
        image, end = self.image, self.image.later.env
        if end is None:
            return ""
        here = {name: value for name, value in image.values.items() if value is not None and NAMED.fullmatch(name)}
        other = {name: value for name, value in here.items() if value != end.get(name, image.base.get(name))}
        words = [
            *(f"-u {name}" for name in end if name not in here and name != "PATH"),
            *(f"{name}={quoted(other[name])}" for name in other),
        ]
        return f"env {' '.join(words)} " if words else ""

    def _set_aside(self, draft: Draft, first: int) -> tuple[list[str], list[str]]:
        """Commands that make the mounts of a RUN, and that put back what was there before."""
        before, after = list[str](), list[str]()
        targets = sorted({*self.mounted.empty, *self.mounted.folders})  # a folder before what is in it
        for number, target in enumerate(targets, 1):
            place, aside = quoted(target), quoted(f"{target}.gb10-aside")
            before.append(f"[ ! -e {place} ] || mv {place} {aside}")
            if rights := self.mounted.empty.get(target):
                mode, owner = rights
                whose = f" && chown {owner} {place}" if owner else ""
                before.append(f"mkdir -p {place} && chmod {mode} {place}{whose}")
            else:
                folder = f"mounts/{first}-{number}"
                draft.files |= {f"{folder}{path}": file for path, file in self.mounted.folders[target].items()}
                before.append(f"mkdir -p {quoted(posixpath.dirname(target))}")
                before.append(f'cp -a --no-preserve=ownership "$here"/{quoted(f"{folder}{target}")} {place}')
            after.insert(0, f"rm -rf {place}\n[ ! -e {aside} ] || mv {aside} {place}")
        return before, after

    def _command(self, command: Command) -> Iterator[Line]:
        command = _spoken(command)
        words = without_prefix(command.words)
        program = (words[0] or "").rsplit("/", 1)[-1] if words else ""
        if command.skipped:
            yield _line(command, "no-effect", "its condition does not hold with the values that are known here")
        elif command.whole:
            yield self._whole(command)
        elif pip := pip_arguments(command.words):
            yield from self._pip(command, *pip)
        elif fetching := next((one.program for one in command.inner if one.program in FETCHERS), ""):
            yield self._fetched_inside(command, fetching, program)
        elif apt := apt_packages(command.words):
            yield self._apt(command, *apt)
        else:
            yield self._plain(command, program, words)

    def _plain(self, command: Command, program: str, words: Sequence[str | None]) -> Line:
        """A command that installs nothing."""
        known: dict[str, Callable[[Command], Line]] = {
            "git": self._git,
            "patch": self._patch,
            "rm": self._removed,
            "mv": self._moved,
        }
        if not command.words or program in STATE or (program in WAITS and self._in_background()):
            return self._state(command, program)
        if made := environment_made(words):
            return self._own_environment(command, made)
        if _compiles(program, words):
            self.left = True
            self._lose_made(command)
            if INSTALLS & {*words}:
                self.image.programs = f"what {program} installs"
            compiled = _line(command, "not-taken", f"{program} compiles: its result needs a wheel method", "wheel")
            own = _line(command, "not-taken", f"{program} installs from its own channels: no lock has them", "index")
            return own if program in CONDAS else compiled
        asks = command.program == "command" and command.words[1:2] in (("-v",), ("-V",))
        if program in QUIET and not command.writes and not asks:
            return _line(command, "no-effect", "it changes nothing")
        if asks or (program in GUARDS and not command.writes):
            return self._guard(command)
        return known.get(program, self._fetched if program in FETCHERS else self._in_mod)(command)

    def _state(self, command: Command, program: str) -> Line:
        """What only changes how the commands after it run."""
        self.settings |= dict(command.settings)
        if program in ("source", ".") and (path := next(iter(command.arguments), "")):
            place = posixpath.normpath(posixpath.join(self.folder or "", path))
            self.python = next((one for one in self.image.pythons if place == f"{one}/bin/activate"), self.python)
        if program == "cd":
            target = command.arguments[0] if command.arguments else "/root"
            if target and not target.startswith(("/", ".")) and self.folder in self.unpacked:
                self._lose(target, "what would be unpacked")
            inside = posixpath.join(self.folder or "", target) if target else ""
            self.folder = posixpath.normpath(inside) if inside.startswith("/") else None
            if target and self._lost_in(f"{self.folder or target}/"):
                return _line(command, "no-effect", "a folder of what is not taken")
        if reason := self._blocked(command, check_folder=False):
            self.unset |= {name for name, _ in command.settings}
            return _line(command, "not-taken", *reason)
        self.unset -= {name for name, _ in command.settings}
        sourced = command.arguments[:1] if program in ("source", ".") else ("/",)
        if self.left and not (sourced[:1] and (sourced[0] or "").startswith("/")):
            return _line(command, "not-taken", "it reads a file that what is not taken may make", "lost")
        self._keep(command.text)
        return _line(command, "no-effect", "it only prepares the commands beside it", "lost")

    def _asks_absent(self, command: Command) -> bool:
        """Whether a command, or one inside it, imports, runs or lists a package that is not taken."""
        if not self.image.absent:
            return False
        for one in (command, *command.inner):
            verb, arguments = pip_arguments(one.words) or ("", ())
            if verb in LISTS:
                return True
            shows, imported = verb == "show", {*self._imported(one)}
            asked = {word or "" for word in arguments} if shows else imported | {one.program} - {*TOOLS}
            tops = {full.partition(".")[0] for full in asked} - sys.stdlib_module_names - {""}
            modules = chain.from_iterable(self.image.modules.get(name, ()) for name in self.image.absent)
            names = {canonicalize_name(name) for name in (*asked, *tops) if name}
            unsure = shows or bool(imported - sys.stdlib_module_names)
            if names & self.image.absent or tops & {*modules} or ("" in self.image.absent and unsure):
                return True
            self.image.unsure |= self.image.absent - self.image.modules.keys() if imported & tops else set()
        return False

    def _imported(self, command: Command) -> Iterator[str]:
        """The modules and packages that a text of Python, or a file of it that the build copies, names."""
        words = without_prefix(command.words)
        if words[:1] != (None,) and not any(word and PYTHON.fullmatch(word.rsplit("/", 1)[-1]) for word in words):
            return
        files = (self._text(word) for word in words[1:] if word and word.endswith(".py"))
        code = "\n".join([*(word or "" for word in words), command.text, command.stdin or "", *filter(None, files)])
        for module, modules in IMPORTED.findall(code):
            yield from [module] if module else (part.split()[0] for part in modules.split(",") if part.strip())
        yield from ASKED.findall(code)
        yield from (after for word, after in pairwise(words) if word == "-m" and after)

    @property
    def _has_commands(self) -> bool:
        """Whether the mod has a command, and not only states of its shell."""
        return any(kept.real for kept in self.kept)

    def _in_background(self) -> bool:
        """Whether a command of the mod goes on beside those after it."""
        return any(kept.real and kept.text.endswith(" &") for kept in self.kept)

    def _guard(self, command: Command) -> Line:
        if reason := self._blocked(command):
            return _line(command, "not-taken", f"a check: {reason[0]}", reason[1])
        self._keep(command.text)
        return _line(command, "no-effect", "a check that changes nothing", "lost")

    def _keep(self, text: str, *, real: bool = False) -> None:
        self.kept.append(ShellLine(text, real, self.part))

    def _blocked(self, command: Command, *, check_folder: bool = True) -> tuple[str, Need] | None:
        """Why a command cannot run in a mod."""
        text = command.text if command.stdin is None else f"{command.text}\n{command.stdin}"
        shown = " ".join(word for word in (command.seen, *command.words, *command.writes, *command.reads) if word)
        folder = f" {self.folder.rstrip('/')}/" if check_folder and self.folder else ""
        named = "".join(f" {path}/" for path in self._relative(command)) if check_folder else ""
        if secret := self._secret(command, text):
            return f"{secret}, which no recipe keeps", "value"
        if why := self._lost_in(f"{text} {shown}{folder}{named}", command):
            return f"it works on what is not taken: {why}", "lost"
        programs = [one.program for one in (command, *command.inner)]
        if (own := self.python or self.image.own_python) and any(OF_PYTHON.fullmatch(one) for one in programs):
            return f"it runs by the Python of {own}, which the Dockerfile makes", "base"
        if self._asks_absent(command):
            return "it asks a package that is not taken", "lost"
        if why := self._lost_here(command):
            return f"it works on what is not taken: {why}", "lost"
        return self._without_value(command, text)

    def _lost_here(self, command: Command) -> str:
        """What a command may run, or work on in its folder, that is not there; empty when there is nothing of that."""
        named = (word for one in (command, *command.inner) for word in without_prefix(one.words)[:1] if word)
        if why := next(filter(None, map(self.image.lost_program, named)), ""):
            return why
        works = command.program in WORKERS | UNPACKERS and self.folder in self.unpacked
        if works and (any(self._relative(command, first=1)) or None in command.words[1:]):
            return "what would be unpacked"
        if self.folder in self.compiled and command.program in COPIERS:
            sources = self._relative(replace(command, words=command.words[:-1]), first=1)
            if None in command.words[1:-1] or not all(self._file(path) for path in sources):
                return "what would be compiled"
        return ""

    def _secret(self, command: Command, text: str) -> str:
        """The secret that a command reads or holds; empty when there is none."""
        if name := next((name for name in VARIABLE.findall(text) if name in self.image.secrets), ""):
            return f"{name} is a secret"
        given = [pair for one in (command, *command.inner) for pair in one.settings]
        code = PYTHON.fullmatch(command.program) and command.stdin is not None  # its names are a program's own
        held = holds_secret(text, names=not code) or any(is_secret(name, value or "") for name, value in given)
        return "it holds a secret" if held else ""

    def _without_value(self, command: Command, text: str) -> tuple[str, Need] | None:
        """Why a variable of a command is not set."""
        here = _set_here(self.kept) - self.unset
        for name, why in self.image.withheld.items():
            if name not in here and re.search(rf"""(\$\{{?|["']|printenv ){name}\b""", text):
                return f"{name} names what is not taken: {why}", "lost"
        for name in VARIABLE.findall(text):
            if name in self.unset:
                return f"{name} is set by what is not taken", "lost"
        for name in VARIABLE.findall(command.text):
            if name in self.image.values and self.image.values[name] is None and name not in _set_here(self.kept):
                return f"{name} has no value here: --build-arg {name}=VALUE", "value"
        return None

    def _lost_in(self, text: str, command: Command | None = None) -> str:
        """Why a path of a text is not there; those that the command itself makes are."""
        own = dict[str, None]()
        if command and self.image.filled:  # a plain word in the uppermost folder is seldom a file of it
            own = first_folders(chain(self._made(command), self._relative(command) if self.folder == "/" else ()))
        return self.image.lost_in(text, self.mounts, own)

    def _made(self, command: Command) -> Iterator[str]:
        """Paths that a command makes."""
        for one in (command, *command.inner):
            words = [word for word in without_prefix(one.words)[1:] if word and not word.startswith("-")]
            made = words if one.program in MAKERS else words[-1:] if one.program in COPIERS else []
            for word in (*made, *(word for word in one.writes if word)):
                yield posixpath.normpath(posixpath.join(self.folder or "", word))

    def _may_change(self, command: Command) -> Iterator[str]:
        """Paths that a command names where it may write."""
        for one in (command, *command.inner):
            reads = one.program in READERS | QUIET | GUARDS and one.program != "tee"
            words = [] if reads else [*one.words[1:], *PATHS.findall(one.stdin or "")]
            for word in (*words, *one.writes):
                if word and not word.startswith("-"):
                    yield posixpath.normpath(posixpath.join(self.folder or "", word))

    def _relative(self, command: Command, first: int = 0) -> Iterator[str]:
        """Files of the current folder that a command may name, by their whole path; its program only with a folder."""
        first = first or not any("/" in word for word in command.words[:1] if word)
        for word in (*command.words[first:], *command.reads):
            if self.folder and word and not word.startswith(("/", "-", "~")) and "://" not in word:
                yield posixpath.normpath(posixpath.join(self.folder, word))

    def _in_mod(self, command: Command, *, network: bool = False, why: str = "it runs in the image") -> Line:
        if reason := self._blocked(command, check_folder=not _names_whole_paths(command)):
            self.left = True
            self._lose_made(command)
            self._lose_packages(files=command.program in ("dpkg", "rpm"))
            if command.program in UNPACKERS:
                words = [word or "" for word in command.words]
                into = next((after for word, after in pairwise(words) if word in ("-C", "-d", "--directory")), "")
                self._lose(into, "what would be unpacked")
                self.unpacked |= set() if into else {self.folder}
            return _line(command, "not-taken", *reason)
        network = network or any(_fetches(one) for one in (command, *command.inner))
        checks = PYTHON.fullmatch(command.program) and ("-c" in command.words or command.stdin is not None)
        content = f"{command.text}{command.stdin or ''}"
        reads = IMPORTS.search(content) and not CHANGES.search(content)
        if (self.left or self.image.left) and checks and reads:
            return _line(command, "not-taken", "it checks what is not taken", "lost")
        if sum(len(kept.text) for kept in self.kept) + len(command.text) > LARGEST_SCRIPT:
            return _line(command, "not-taken", "the script of the mod would be too long", "lost")
        self._keep(command.text, real=True)
        self.image.make([*PATHS.findall(command.seen or command.text), *self._made(command)])
        self.image.changed |= {*self._may_change(command)}
        self.network = self.network or network
        return _line(command, "mod", f"{why}, with a network: not locked" if network else why)

    def _whole(self, command: Command) -> Line:
        """A loop, a condition or a pipe: in one piece."""
        programs = [one.program for one in command.inner]
        fetched = [program for program in programs if program in FETCHERS]
        if fetched and any(program in ("sh", "bash", "python3", "python", "dash") for program in programs):
            self.left = True
            self.image.programs = "what a script of the web makes"
            return _line(
                command, "not-taken", "it runs a script of the web: fetch it, read it, add it as a file", "download"
            )
        if fetched:
            self.left = True
            self._lose_writes(command)
            self._lose_nameless(command)
            return self._archive(command) or _line(
                command, "not-taken", f"{fetched[0]} fetches what no lock has", "download"
            )
        cloned = [one for one in command.inner if one.program == "git" and _git_fetches(one)]
        for one in cloned:
            if found := git_clone(one.words):
                self._lose(found[1], f"the repository {found[0].url}")
                self._needs(found[0])
        compiled = [one.program for one in command.inner if _compiles(one.program, one.words)]
        compiled += ["pip" for one in command.inner if self._builds(one)]
        if cloned or compiled:
            self.left = True
            self._lose_made(command)
            what = "git fetches sources" if cloned else f"{compiled[0]} compiles"
            return _line(command, "not-taken", f"{what} in a condition or a loop: it needs a wheel method", "wheel")
        waits = self._in_background() and not WAITS.isdisjoint(programs)
        quiet = bool(programs) and all(program in QUIET for program in programs) and not waits
        if quiet and not any(one.writes for one in command.inner) and ">" not in command.text:
            return _line(command, "no-effect", "it changes nothing")
        verbs = {call[0] for one in command.inner if (call := pip_arguments(one.words))} - {*PIP_QUIET}
        packages = any(apt_packages(one.words) for one in command.inner) or "apt-get install" in command.text
        if packages or verbs - {"uninstall"}:
            what = "apt" if packages else "pip"
            return self._in_mod(command, network=True, why=f"{what} in a condition, a loop or a pipe")
        line = self._in_mod(command)
        self.gone += [len(self.kept) - 1] if verbs and line.verdict == "mod" else []
        return line

    def _builds(self, command: Command) -> bool:
        """Whether pip builds a package from its sources."""
        verb, arguments = pip_arguments(command.words) or ("", ())
        found = read_install(arguments, partial(self._text, stdin=command.stdin)) if verb == "install" else Installs()
        for tree in found.trees:
            self._needs(tree)
        folders = [place for place in found.places if not place.endswith(".whl")]
        return bool(found.trees or folders or {"-e", "--editable"} & {*arguments})

    def _archive(self, command: Command) -> Line | None:
        """An archive of a commit that is unpacked into a folder: sources, as if they were cloned."""
        words = [word for one in command.inner for word in one.words if word]
        found = next((match for word in words if (match := ARCHIVE.fullmatch(word))), None)
        folders = [words[index + 1] for index, word in enumerate(words[:-1]) if word in ("-C", "--directory")]
        if found is None:
            return None
        tree = Tree(url=f"{found[1]}.git", ref=found[2])
        self._needs(tree)
        for folder in folders:
            self.image.clones[posixpath.normpath(posixpath.join(self.folder or "", folder))] = tree
        return _line(command, "not-taken", f"{tree.url} at {tree.ref}: sources, which need a wheel method", "wheel")

    def _lose_writes(self, command: Command) -> None:
        for one in (command, *command.inner):
            for path in _outputs(one):
                self._lose(path, f"a file that {one.program} fetches")
            for written in one.writes:
                self._lose(written or "", f"a file that {one.program or 'it'} writes")

    def _lose_nameless(self, command: Command) -> None:
        """Note the folder of files that are fetched by names that are not known."""
        if any(_nameless(one) for one in (command, *command.inner)):
            self.unpacked.add(self.folder)
            if self.folder:
                self.image.fill(self.folder, "what would be fetched or unpacked")

    def _lose_packages(self, *, files: bool) -> None:
        """Note where libraries and headers of Debian packages would be, of ``files`` that are not taken."""
        for folder in OF_PACKAGES if files else ():
            self.image.fill(folder, "packages of files that are not taken")

    def _lose_made(self, command: Command) -> None:
        """Note what a command that is not taken would write or copy."""
        for one in (command, *command.inner):
            compiler = _compiles(one.program, without_prefix(one.words))
            made = [*_products(one, self.folder or "", self._set(one) if compiler else None)]
            if compiler and not made and one.program not in CONDAS:  # it makes files where it runs
                self.compiled.add(self.folder)
            for path in (*made, *one.writes):
                self._lose(path or "", "a file of a command that is not taken")

    def _lose(self, path: str, why: str) -> None:
        """Note that a path would hold what is not taken."""
        place = posixpath.normpath(posixpath.join(self.folder or "", path)) if path else ""
        if place.startswith("/"):
            self.image.lose(place, why)

    def _needs(self, tree: Tree) -> None:
        """A project that the Dockerfile compiles."""
        self.image.wheels[tree.name] = WheelNeeded(name=tree.name, url=tree.url, ref=tree.ref)
        self.image.lose_names([tree.name])

    def _fetched(self, command: Command) -> Line:
        self.left = True
        self._lose_writes(command)
        self._lose_nameless(command)
        return _line(
            command, "not-taken", f"{command.program} fetches what no lock has: add the file by COPY", "download"
        )

    def _fetched_inside(self, command: Command, fetching: str, program: str) -> Line:
        """A command with what is fetched put in: a script to run, a value, a word."""
        self.left = True
        self._lose_writes(command)
        self.unset |= {name for name, _ in command.settings}
        why = f"{fetching} fetches what no lock has"
        if program in (*SHELLS, "eval"):
            self.image.programs = "what a script of the web makes"
            why = "it runs a script of the web: fetch it, read it, add it as a file"
        return _line(command, "not-taken", why, "download")

    def _apt(self, command: Command, verb: str, packages: Sequence[str | None]) -> Line:
        if verb in APT_QUIET:
            if self._has_commands and verb != "update":
                self._keep(command.text)
            return _line(command, "no-effect", "lists of packages, which an image does not keep", "lost")
        if verb in ("upgrade", "dist-upgrade", "full-upgrade"):
            return _line(command, "not-taken", "it takes whatever is newest on the day of the build", "base")
        why = f"apt {verb} {' '.join(name or '…' for name in packages)}".strip()
        update = "apt-get update && " if verb in ("install", "reinstall", "build-dep") else ""
        files = any(name is None or "/" in name for name in packages)
        if reason := self._blocked(command, check_folder=files):
            self.left = True
            self._lose_packages(files=files)
            return _line(command, "not-taken", *reason)
        self.image.brought |= {name for name in packages if name} if update else set()
        self._keep(f"{update}{command.text}", real=True)
        self.network = self.network or bool(update)
        return _line(command, "mod", f"{why[:200]}, with a network: not locked" if update else why[:200])

    def _pip(self, command: Command, verb: str, arguments: Sequence[str | None]) -> Iterator[Line]:
        if verb != "install":
            yield self._other_pip(command, verb, arguments)
            return
        if own := self._other_python(command, arguments):
            self.left = True
            why = f"it installs into {own}, which the Dockerfile makes: a recipe installs into the base's Python"
            yield _line(command, "not-taken", why, "base")
            return
        arguments = (*arguments, *self._constrained(command))
        found = read_install(arguments, partial(self._text, stdin=command.stdin))
        if indexes := (*found.indexes, *self._indexes(command), *self._of_torch(command, found)):
            where = ", ".join(dict.fromkeys(indexes))
            why = f"it comes from {where}: a recipe on an image names no further index"
            self.left = True
            absent = [*map(requirement_name, found.requirements)]
            self.image.absent |= {*absent, *([""] if found.problems else [])}
            self.image.lose_names(absent)
            yield _line(command, "not-taken", why[:300], "index")
            return
        changed = (name for name in files_read(arguments) if self._changed(name))
        if name := next(changed, ""):
            yield self._in_mod(command, network=True, why=f"pip, of {name}, which a command before it changes")
            return
        yield from self._compiled(command, found)
        yield from self._places(command, found)
        if found.problems:
            self.left = True
            self._lose_wheels(found.urls)
            yield _line(command, "not-taken", "; ".join(found.problems[:5])[:400], "value")
        again = [text for text in found.requirements if requirement_name(text) in self.image.removed]
        if again and not (found.trees or found.places or found.problems):
            why = f"pip, after a command that removes {requirement_name(again[0])}"
            yield self._in_mod(command, network=True, why=why)
            return
        tools = [text for text in found.requirements if text in TOOLS]
        found = replace(found, requirements=tuple(text for text in found.requirements if text not in TOOLS))
        if tools and not found.requirements:
            yield _line(command, "no-effect", f"{', '.join(tools)}: tools that install, not locked with an image")
        for text in found.requirements:
            self.image.requirements[requirement_name(text)] = text
        for text in found.constraints:
            self.image.constraints[requirement_name(text)] = text
        if found.requirements:
            names = ", ".join(found.requirements[:8]) + (", …" if len(found.requirements) > 8 else "")
            dropped = [name for name, _ in command.settings if not KEPT_SETTINGS.fullmatch(name)]
            notes = "".join(
                f"; {note}" for note in (*found.notes, *(f"the lock does not set {one}" for one in dropped))
            )
            yield _line(command, "taken", f"requirements: {names}{notes}"[:400])
        elif not (tools or found.trees or found.places or found.problems):
            yield _line(command, "no-effect", "it installs nothing")

    def _lose_wheels(self, places: Iterable[str]) -> None:
        """Note the packages of wheels that are not taken; an empty name where only the build knows them."""
        files = (posixpath.basename(place.partition("#")[0]) for place in places)
        names = {canonicalize_name(re.split(r"[-*?]", file)[0]) for file in files if file.endswith(".whl")}
        self.image.absent |= names
        self.image.lose_names(names)

    def _set(self, command: Command) -> dict[str, str | None]:
        """The variables of a command that the Dockerfile sets."""
        words = (word.partition("=") for word in command.words if word and SETTING.fullmatch(word))
        return {
            **{name: value for name, value in self.image.values.items() if value != self.image.base.get(name)},
            **self.settings,
            **dict(command.settings),
            **{name: value for name, _, value in words},
        }

    def _constrained(self, command: Command) -> Iterator[str | None]:
        """The options that variables stand for, which name files."""
        known, program = self._set(command), "UV" if command.program == "uv" else "PIP"
        for name, option in OF_VARIABLES.items():
            value = known.get(f"{program}_{name}", "")
            for word in [None] if value is None else value.split():
                yield from (option, word)

    def _changed(self, path: str) -> bool:
        """Whether a command of a mod makes or changes a file, as far as its words show."""
        place = posixpath.normpath(posixpath.join(self.folder or "", path))
        wild = (one for one in self.image.changed if "*" in one or "?" in one)
        return place in self.image.changed or any(one.count("*") > MOST_STARS or _matches(place, one) for one in wild)

    def _indexes(self, command: Command) -> Iterator[str]:
        """Other indexes than PyPI that variables or options name; of an option whose value is not known, that."""
        for word, text in zip(command.words, command.written, strict=False):
            if word is None and text.partition("=")[0] in INDEX_OPTIONS:
                yield "an index that is known only when it runs"
        known = {**self._set(command), **dict.fromkeys(self.image.secrets, HIDDEN), **self.image.indexes}
        for name, value in known.items():
            if (INDEXES.fullmatch(name) or name in self.image.indexes) and value and value.rstrip("/") not in PYPI:
                yield f"{name} {public(value) if '://' in value else value}"

    def _of_torch(self, command: Command, found: Installs) -> Iterator[str]:
        """The index that uv takes packages of PyTorch from, for a backend that an option or a variable names."""
        backend = found.backend or (self._set(command).get("UV_TORCH_BACKEND") if "uv" in command.words else "")
        if backend and any(OF_TORCH.match(text) for text in found.requirements):
            yield f"PyTorch's index for {backend}"

    def _other_pip(self, command: Command, verb: str, arguments: Sequence[str | None]) -> Line:
        """Every subcommand but ``install``."""
        if verb in PIP_QUIET and not command.writes:
            return _line(command, "no-effect", "it changes nothing")
        if verb == "config" and (name := next((one for one in arguments if one and OF_INDEX.fullmatch(one)), "")):
            self.image.indexes[f"pip config {name}"] = arguments[-1] or "…"
            return _line(command, "not-taken", f"{name}: a recipe on an image names no further index", "index")
        if verb in ("wheel", "download"):
            self.left = True
            why = f"pip {verb} makes files for another step: it needs a wheel method"
            return _line(command, "not-taken", why, "wheel")
        if verb != "uninstall":
            return self._in_mod(command, network=verb == "sync")
        removed = {canonicalize_name(word) for word in arguments if word and NAME.fullmatch(word)}
        line = self._removes(command, removed)
        if line.verdict == "mod":
            self.image.removed |= removed
            self.gone.append(len(self.kept) - 1)
        return line

    def _removes(self, command: Command, names: Iterable[str]) -> Line:
        """A command that removes packages or paths, unless an earlier reading found that what takes their place is
        not taken."""
        key = command.first, command.text
        if why := self.image.later.withheld.get(key, ""):
            self.left = True
            return _line(command, "not-taken", why, "lost")
        line = self._in_mod(command)
        if line.verdict == "mod":
            self.image.removals.append(Removal(*key, tuple(names), self.image.count))
        return line

    def _other_python(self, command: Command, arguments: Sequence[str | None]) -> str:
        """The environment of their own that a pip installs into; empty for the base's Python."""
        named = [
            word.partition("=")[2] or after or ""
            for word, after in pairwise((*arguments, None))
            if word and word.partition("=")[0] in ("-p", "--python")
        ]
        programs = [word for word in without_prefix(command.words)[:1] if word] + named
        found = (one for one in self.image.pythons if any(_below(path, one) for path in programs))
        return next(found, self.python or self.image.own_python)

    def _own_environment(self, command: Command, folder: str) -> Line:
        """A Python of their own: neither it nor what is installed there is the base's."""
        self.left = True
        place = posixpath.normpath(posixpath.join(self.folder or "", folder))
        if place.startswith("/"):
            self.image.pythons.append(place)
            self._lose(place, "a Python of its own")
        return _line(command, "not-taken", "a Python of its own: a recipe installs into the base's", "base")

    def _file(self, path: str) -> BuildFile | None:
        return self.mounted.files.get(path) or self.image.file(path)

    def _text(self, path: str, stdin: str | None = None) -> str | None:
        """A file that the build copied or mounts, or the heredoc of the command, as text."""
        if path in ("/dev/stdin", "-"):
            return stdin
        file = self._file(posixpath.normpath(posixpath.join(self.folder or "", path)))
        return file.content.decode("utf-8", "replace") if file else None

    def _compiled(self, command: Command, found: Installs) -> Iterator[Line]:
        for tree in found.trees:
            self.left = True
            self._needs(tree)
            at = f" at {tree.ref}" if tree.ref else ", no commit named"
            yield _line(command, "not-taken", f"{tree.url}{at}: sources, which need a wheel method", "wheel")

    def _places(self, command: Command, found: Installs) -> Iterator[Line]:
        """Folders and wheels of the build's own."""
        for place in found.places:
            path = posixpath.normpath(posixpath.join(self.folder or "", re.sub(r"\[.*\]$", "", place)))
            tree = next(
                (tree for folder, tree in self.image.clones.items() if f"{path}/".startswith(f"{folder}/")), None
            )
            known = (*self.image.overlay, *self.image.added, *self.mounted.files)
            wheels = [name for name in known if _matches(name, path)]
            if path.endswith(".whl") and wheels:
                yield self._in_mod(command, network="--no-deps" not in command.words, why=f"the wheel {place}")
                continue
            self.left = True
            if tree:
                at = f" at {tree.ref}" if tree.ref else ", no commit named"
                yield _line(
                    command, "not-taken", f"{place}: {tree.url}{at} is compiled; it needs a wheel method", "wheel"
                )
            elif why := self._lost_in(f" {path}/ "):
                yield _line(command, "not-taken", f"{place}: {why}", "lost")
            elif path.endswith(".whl"):
                self._lose_wheels([place])
                yield _line(command, "not-taken", f"{place} is not among the files that it copies or mounts", "lost")
            else:
                yield _line(command, "not-taken", f"{place} is a folder of sources: it needs a wheel method", "wheel")

    def _git(self, command: Command) -> Line:
        if found := git_clone(command.words):
            tree, folder = found
            cloned = posixpath.normpath(posixpath.join(self.folder or "", folder))
            if cloned.startswith("/"):
                self.image.clones[cloned] = tree
            self._lose(folder, f"the repository {tree.url}")
            self._needs(tree)
            self.left = True
            return _line(command, "not-taken", f"{tree.url}: sources, which need a wheel method", "wheel")
        if checked := git_checkout(command.words):
            inside = posixpath.normpath(posixpath.join(self.folder or "", checked[0]))
            for known, tree in self.image.clones.items():
                if f"{inside}/".startswith(f"{known}/"):
                    self.image.clones[known] = replace(tree, ref=checked[1])
                    self._needs(self.image.clones[known])
                    return _line(
                        command, "not-taken", f"{tree.url} at {checked[1] or 'a commit of the moment'}", "wheel"
                    )
        if any(word in ("apply", "am") for word in command.words):
            return self._patch(command)
        informational = ("--version", "rev-parse", "log", "status", "describe")
        own = "config" in command.words and not {"--global", "--system"} & {*command.words}
        quiet = own or any(word in informational for word in command.words)
        if quiet and not command.writes:
            return _line(command, "no-effect", "it changes nothing that an image keeps")
        if _git_fetches(command):
            self.left = True
            after = command.words.index("-C") + 1 if "-C" in command.words[:-1] else 0
            words = command.words[command.words.index("init") + 1 :] if "init" in command.words else ()
            named = next((word for word in words if word and not word.startswith("-")), ".")
            self._lose(posixpath.join((command.words[after] if after else "") or "", named), "sources that git fetches")
            return _line(command, "not-taken", "git fetches what no lock has: it needs a wheel method", "wheel")
        return self._in_mod(command)

    def _patch(self, command: Command) -> Line:
        """A diff that is applied: a patch of the recipe when its files and its order allow it, else in the mod."""
        if reason := self._blocked(command):
            self.left = True
            return _line(command, "not-taken", *reason)
        taken = self._as_patches(command)
        if taken is None:
            return self._in_mod(command, why="a diff, applied where it stands in the Dockerfile")
        for name, text in taken.items():
            number = len(self.image.patches) + 1
            self.image.patches[f"{number:04}-{name}"] = text
        return _line(command, "taken", f"patches: {', '.join(taken)}")

    def _as_patches(self, command: Command) -> dict[str, bytes] | None:
        """The diffs of ``git apply`` or ``patch``; None when the order or the options of the command must be kept."""
        words = [word or "" for word in without_prefix(command.words)]
        if self.image.drafts or self._has_commands or "" in words or command.stdin is not None:
            return None
        values = dict[str, str]()
        files = [path for path in command.reads if path]
        left = words[1:]
        while left:
            word = left.pop(0)
            name, equals, value = word.partition("=")
            if name in ("-d", "--directory", "-C", "-i", "--input"):
                value = value if equals else left.pop(0) if left else ""
                (files.append(value) if name in ("-i", "--input") else values.update({"folder": value}))
            elif STRIP.fullmatch(word):
                values["strip"] = word[2:]
            elif word in ("-R", "--reverse", "--reject", "-3", "--3way", "--cached", "--index") or word.startswith(
                "--include"
            ):
                return None
            elif not word.startswith("-") and word not in ("apply", "am"):
                files.append(word)
        folder = posixpath.join(self.folder or "", values.get("folder", ""))
        found = dict[str, bytes]()
        for path in files:
            place = posixpath.normpath(posixpath.join(self.folder or "", path))
            known = {**self.image.overlay, **self.image.added, **self.mounted.files}
            for name in sorted(name for name in known if _matches(name, place)):
                file = self._file(name)
                text = self._for_us(file.content if file else b"", folder, values.get("strip", "1"))
                if text is None:
                    return None
                base = (
                    re.sub(r"[^A-Za-z0-9._-]+", "-", posixpath.basename(name))
                    .removesuffix(".patch")
                    .removesuffix(".diff")
                )
                found[f"{base}.patch"] = text
        return found or None

    def _for_us(self, text: bytes, folder: str, strip: str) -> bytes | None:
        """A diff with the paths that ``--patch`` knows; None for another tree's, and when it meets a copied file."""
        below = SITE.sub("", f"{folder}/").rstrip("/") if SITE.match(f"{folder}/") else ""
        if strip != "1" or len(text) > MOST_BYTES:
            return None
        try:
            if below:
                text = b"".join(
                    part.at(f"{below}/{path}") for path, part in sections(text, "a patch of the Dockerfile").items()
                )
            divided = divide(text, "a patch of the Dockerfile", self.image.releases)
            paths = {diff.path for part in divided.parts for diff in part.diffs}
            parse_diff(text, "a patch of the Dockerfile")
        except (PatchError, UsageError):
            return None
        copied = {SITE.sub("", path) for path in (*self.image.overlay, *self.image.added)}
        return None if paths & copied else text

    def _moved(self, command: Command) -> Line:
        """``mv``: what it moves is not there any more."""
        words = [word for word in without_prefix(command.words)[1:-1] if word and not word.startswith("-")]
        return self._removes(command, (posixpath.normpath(posixpath.join(self.folder or "", word)) for word in words))

    def _removed(self, command: Command) -> Line:
        """``rm``: of what no image of ours gets, or of files that only the build needed, nothing is left to do."""
        words = without_prefix(command.words)[1:]
        if None in words:
            line = self._in_mod(command)
            self.gone += [len(self.kept) - 1] if line.verdict == "mod" else []
            return line
        named = {
            index: posixpath.normpath(posixpath.join(self.folder or "", word))
            for index, word in enumerate(words, len(command.words) - len(words))
            if word and not word.startswith("-")
        }
        scripts = "\n".join(
            [*(one.text for draft in self.image.drafts for one in draft.blocks), *(kept.text for kept in self.kept)]
        )
        made = bool(self.image.drafts) or self._has_commands
        open_ones = dict[int, str]()
        for index, place in named.items():
            known = (*self.image.overlay, *self.image.added)
            copied = [
                path
                for path in known
                if _below(path, place) or (place.endswith("*") and path.startswith(place.rstrip("*")))
            ]
            if self._lost_in(f" {place}/ ") or place in self.image.clones:
                continue
            if copied and not made:
                for path in copied:
                    del self.image.overlay[path]
            elif copied or made or not CACHES.fullmatch(place):  # a command of the mod may have made it
                open_ones[index] = place
        if not open_ones:
            return _line(command, "no-effect", "files that the image does not get")
        work = all(place.startswith(("/tmp/", "/root/.cache")) for place in open_ones.values())  # noqa: S108 - the image's
        if self.left and work and not any(place in scripts or self.image.file(place) for place in open_ones.values()):
            return _line(command, "no-effect", "files of what is not taken")
        left_out = named.keys() - open_ones.keys()
        if left_out and len(command.written) == len(command.words):
            text = " ".join(word for index, word in enumerate(command.written) if index not in left_out)
            kept = tuple(word for index, word in enumerate(command.words) if index not in left_out)
            command = replace(command, text=text, words=kept, seen="")
        return self._removes(command, (WILD.split(place)[0].rstrip("/") for place in open_ones.values()))


def finished(drafts: Sequence[Draft], name: str) -> tuple[ModDraft, ...]:
    """The mods as files."""
    return tuple(
        ModDraft(name=name, blocks=tuple(draft.blocks), network=draft.network, files=dict(draft.files))
        for draft in drafts
    )


def _line(command: Command, verdict: Verdict, why: str, need: Need = "") -> Line:
    return Line(
        first=command.first,
        last=command.last,
        instruction="RUN",
        text=command.text,
        verdict=verdict,
        why=why,
        need=need,
    )


def _names_whole_paths(command: Command) -> bool:
    """Whether a plain command of files, or of users, needs no current directory: all its paths begin at the root."""
    plain = command.program in ("mkdir", "rm", "rmdir", "ln", "touch", "useradd", "groupadd", "ldconfig")
    return plain and all(word and word.startswith(("/", "-")) for word in command.arguments if word != "")


def first_folders(paths: Iterable[str], deepest: int = DEEPEST_OF_BASES) -> dict[str, None]:
    """The paths and the folders above them, as far as folders of a base have others in them."""
    found: dict[str, None] = {}
    for path in paths:
        parts = posixpath.normpath(path).split("/", deepest + 1)[: deepest + 1]
        found |= dict.fromkeys("/".join(parts[: number + 1]) for number in range(1, len(parts)))
    return found


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def environment_made(words: Sequence[str | None]) -> str:
    """The folder of an environment that a command makes for Python; empty for any other command."""
    plain = [word for word in words[1:] if word and not word.startswith("-")]
    program = (words[0] or "").rsplit("/", 1)[-1] if words else ""
    if PYTHON.fullmatch(program) and [*words[1:2]] == ["-m"] and plain[:1] in (["venv"], ["virtualenv"]):
        return plain[1] if len(plain) > 1 else ""
    if program == "virtualenv":
        return plain[0] if plain else ""
    if program == "uv" and plain[:1] == ["venv"]:
        valued = {after for word, after in pairwise(words) if word in ("-p", "--python", "--prompt", "--seed-packages")}
        return next((word for word in plain[1:] if word not in valued), ".venv")
    return ""


def _joined(kept: Sequence[ShellLine], last: int) -> str:
    """The commands as lines that end where they end in Docker: ``&&`` stands where it stood. When the last ones, up to
    the number ``last``, are left out, those before them do not decide whether the step fails."""
    rows = list[str]()
    for one, after in zip(kept, (*kept[1:], None), strict=True):
        joined = after is not None and after.part == one.part
        text = f"{{ {one.text}\n}}" if joined and "\n" in one.text else one.text  # it may end with a heredoc
        rows.append(f"{text} &&" if joined else text)
    return "\n".join([*rows, *([":"] if kept and kept[-1].part != last else [])])


def _started(shell: Sequence[str]) -> str:
    """The shell of SHELL and its options, without ``-c``."""
    program, *options = shell
    shorter = (word.replace("c", "") if word.startswith("-") and word[:2] != "--" else word for word in options)
    return " ".join(_word(word) for word in (program, *shorter) if word != "-")


def _word(text: str) -> str:
    return text if re.fullmatch(r"[\w./=+-]+", text) else quoted(text)


def _compiles(program: str, words: Sequence[str | None]) -> bool:
    """Whether a command compiles or packs."""
    if program in COMPILERS:
        return "--version" not in words and "-V" not in words
    if program == "uv":
        return any(word in ("build", "sync", "run") for word in words)
    python = PYTHON.fullmatch(program) is not None
    script = next((word or "" for word in words[1:] if not (word or "").startswith("-")), "")
    return python and (script.rsplit("/", 1)[-1] == "setup.py" or [*words[1:3]] == ["-m", "build"])


def _products(command: Command, folder: str, settings: Mapping[str, str | None] | None) -> Iterator[str]:
    """The paths that a program makes, as its words name them: where it copies to, and the values of options like
    ``-o``. ``settings``: the variables of a compiler, None for any other program."""
    words = [word or "" for word in without_prefix(command.words)]
    plain = [word for word in words[1:] if word and not word.startswith("-")]
    if command.program in COPIERS and len(plain) > 1:
        *sources, target = plain
        into = target.endswith("/") or OF_BASES.fullmatch(posixpath.normpath(posixpath.join(folder, target)))
        yield from (f"{target}/{posixpath.basename(name)}" for name in sources) if into else (target,)
    options = (word.split("=", 1) if "=" in word else (word, after) for word, after in pairwise((*words, "")))
    attached = (found.groups() for word in words if settings is not None and (found := ATTACHED.fullmatch(word)))
    for name, path in chain((settings or {}).items(), options, attached):
        named = MADE_BY.fullmatch(name) or (name == "-p" and command.program in CONDAS)
        reads = command.program in READERS | GUARDS
        if named and path and path[0] != "-" and (path[0] == "/" or not reads):
            yield path


def _fetches(command: Command) -> bool:
    """Whether a program asks a network for what it works with."""
    plain = without_prefix(command.words)
    words = " ".join(word or "…" for word in plain)
    program = (plain[0] or "").rsplit("/", 1)[-1] if plain else ""
    if MANAGERS.fullmatch(program):
        verb = next((word for word in plain[1:] if word and (not word.startswith("-") or word in LOCAL)), "")
        return verb not in LOCAL
    if PYTHON.fullmatch(program) and CODE_FETCHES.search(f"{words}\n{command.stdin or ''}"):
        return True
    if program not in LOCAL_PROGRAMS and plain[1:2] and DOWNLOADS.match(plain[1] or ""):
        return True
    return ONLINE.fullmatch(program) is not None and FETCHES.search(words) is not None


def _spoken(command: Command) -> Command:
    """A command that gives a text to a shell, ``sh -c TEXT`` or as a heredoc, or words to ``xargs``: with the commands
    of it inside it."""
    if called := tuple(_called(one) for one in (command, *command.inner) if one.program == "xargs"):
        return replace(command, whole=True, inner=(*command.inner, *called))
    words = without_prefix(command.words)
    if command.whole or None in words or words[:1] not in [("eval",), *((shell,) for shell in SHELLS)]:
        return command
    after = next((index for index, word in enumerate(words) if index and word and SPOKEN.fullmatch(word)), len(words))
    text = " ".join(word or "" for word in (words[1:] if words[0] == "eval" else words[after + 1 : after + 2]))
    if words[0] != "eval" and all(word and word.startswith("-") for word in words[1:]):
        text = text or command.stdin or ""
    if not text:
        return command
    found = parse_commands(text, (command.first,), {})
    inner = tuple(inside for one in found for inside in ((*one.inner,) if one.whole else (one, *one.inner)))
    return replace(command, whole=True, inner=(*command.inner, *inner))


def _called(command: Command) -> Command:
    """The program that ``xargs`` runs, as a command of its own."""
    words = command.words[1:]
    valued = {index + 1 for index, word in enumerate(words) if word in ("-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s")}
    plain = (index for index, word in enumerate(words) if index not in valued and not (word or "").startswith("-"))
    return replace(command, words=words[next(plain, len(words)) :], inner=(), stdin=None)


def _outputs(command: Command) -> Iterator[str]:
    """Where a program that fetches puts what it fetches; of a path that is not known whole, the folder above."""
    words = [*command.words]
    if len(command.written) == len(words):
        for index, word in enumerate(words):
            start = command.written[index].strip("\"'").partition("$")[0]
            words[index] = posixpath.dirname(start) if word is None and start.startswith("/") else word
    named = False
    for word, after in pairwise((*words, None)):
        option, equals, value = (word or "").partition("=")
        value = value if equals else after or ""
        if value and OUTPUT.fullmatch(option):
            named = named or "://" not in value
            yield "" if "://" in value else value
    remote = any(word and REMOTE_NAME.fullmatch(word) for word in words)
    if (command.program in NAMED_BY_URL and not named) or (command.program == "curl" and remote):
        yield from (word.partition("?")[0].rpartition("/")[2] for word in words if word and "://" in word)
    plain = [word for word in words[1:] if word and not word.startswith("-")]
    yield from plain[-1:] if command.program in ("scp", "rsync") else ()


def _nameless(command: Command) -> bool:
    """Whether a program fetches files whose names are not known: computed, or listed in a file or by a pipe."""
    if command.program not in FETCHERS:
        return False
    if command.program == "curl" and any(LISTED.match(word or "") for word in command.words):
        return True
    listed = command.program in NAMED_BY_URL or any(word and REMOTE_NAME.fullmatch(word) for word in command.words)
    # Of curl, what is computed is an address, which names no file, where there is no other, and no place to write to.
    plain = command.program != "curl" or any(
        word and ("://" in word or OUTPUT.fullmatch(word)) for word in command.words
    )
    return not any(_outputs(command)) and (listed or (plain and None in command.words))


def _git_fetches(command: Command) -> bool:
    return any(word in ("clone", "fetch", "pull", "submodule", "init", "remote") for word in command.words)


def _matches(name: str, pattern: str) -> bool:
    """Whether a path of a copied file is what a word of a shell means; a star stays within a folder."""
    parts = (re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]") for part in [pattern])
    return re.fullmatch("".join(parts), name) is not None


def _set_here(kept: Sequence[ShellLine]) -> set[str]:
    """Variables that the kept lines set themselves."""
    return {name for one in kept for name in re.findall(r"(?:^|\s)([A-Za-z_]\w*)=", one.text)}


def quoted(text: str) -> str:
    """A word of a shell that means exactly this text."""
    return "'" + text.replace("'", "'\\''") + "'"


def is_shell(words: Sequence[str]) -> bool:
    """Whether SHELL names a shell whose text our grammar reads, and options alone: one of them is ``-c``."""
    named = {index + 1 for index, word in enumerate(words) if SHORT.fullmatch(word) and word[-1] in "oO"}
    options = [word for index, word in enumerate(words) if index and index not in named]
    plain = all(SHORT.fullmatch(word) or word in ("--norc", "--noprofile", "--posix", "--login") for word in options)
    command = any(word[0] == "-" and word[1] != "-" and "c" in word for word in options)
    return plain and command and words[0] in SHELLS and len(words) not in named
