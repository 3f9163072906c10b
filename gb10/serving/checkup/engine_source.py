"""The engines' own files, read to explain an error: a folder at hand, or a release's archive, fetched once."""

import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from gb10.core.checked import NotChecked
from gb10.core.files import Artifact
from gb10.core.host import Host
from gb10.errors import Gb10Error, UsageError
from gb10.serving.doctor.diagnosing import Evidence
from gb10.serving.doctor.diagnosis import Diagnosis, Finding
from gb10.serving.doctor.doctor_rule import DoctorRule
from gb10.serving.doctor.engine_statements import statements_of
from gb10.serving.doctor.error_case import ENGINES
from gb10.serving.doctor.explaining import (
    Question,
    best_statement,
    explanation,
    known_statement,
    other_release,
    question_of,
    shown_release,
)
from gb10.serving.doctor.message_index import Known, MessageIndex
from gb10.serving.doctor.printed_statements import CPP, LARGEST, Statement
from gb10.serving.doctor.rule_files import load_messages, load_releases, load_settings
from gb10.sources.web import name_of

MOST: Final = 12
"""Errors that are explained: those that came first."""
FILES: Final = 30_000
"""Files of a folder that are looked at."""
OTHERS: Final = frozenset(("cutlass", "cccl"))
"""Folders of C++ of other projects, thousands of files."""
PLACES: Final = ("", "python", "src", "lib", "Lib/site-packages")
PACKAGES: Final = ("vllm", "sglang", "flashinfer", "tensorrt_llm", "sgl_kernel", "transformers", "compressed_tensors")
NATIVE: Final = ("csrc", "include", "cpp", "sgl-kernel")
"""Folders of a checkout with C++ and CUDA; a wheel has them in its package."""
RAREST: Final = 4
NOTHING: Final = "--explain adds nothing"


def explained(
    host: Host, diagnosis: Diagnosis, shown: Evidence, folder: Path | None, *, fetch: bool
) -> tuple[Diagnosis, tuple[NotChecked, ...]]:
    """The diagnosis with what the engines' statements say of each error of a log that no written rule knows.

    Beside it a row for each log whose engine has no index of statements.

    ``folder`` holds the files of the engine that wrote the logs; ``fetch``: else its release's archive may be fetched.
    Raises UsageError for a folder that has no engine.
    """
    source = _Folder(folder) if folder is not None else None
    asked = [
        one
        for one in diagnosis.seen
        if one.place == "log" and one.level == "error" and not isinstance(one.rule, DoctorRule)
    ]
    if not asked:
        nothing = (f"{NOTHING}: no error of a log without a rule of its own",) if fetch else ()
        return replace(diagnosis, remarks=(*diagnosis.remarks, *nothing)), ()
    indexes = load_messages()
    found: dict[int, Finding] = {}
    remarks: dict[str, None] = {}
    rows: dict[NotChecked, None] = {}
    for one in asked[:MOST]:
        scan = shown.logs[one.where]
        question = question_of(one, scan, load_releases())
        known = known_statement(question, indexes)
        statement, origin = None, ""
        if source is not None:
            statement, origin = source.statement(question), str(folder)
        elif fetch and known is not None:
            try:
                statement, origin = _of_archive(host, indexes, question, known)
            except Gb10Error as error:
                remarks[f"{error.message}: the text of {known.row.file} is not shown"] = None
        if source is None and question.engine and question.engine not in (index.engine for index in indexes):
            name = ENGINES.get(question.engine, question.engine)
            reason = f"there is no index of {name}'s; --source DIR reads its own files"
            rows[NotChecked(what="the engine's own statements", reason=reason, where=one.where)] = None
        judged = one.rule is not None
        lines = explanation(
            question,
            known=known,
            statement=statement,
            scan=scan,
            settings=load_settings(),
            judged=judged,
            origin=origin,
        )
        if source is None and known is not None:
            indexed = next(index for index in indexes if index.engine == known.engine).sources
            lines = (*filter(None, (other_release(question, known, indexed),)), *lines)
        if source is None and fetch and known is None:
            lines = (*lines, f"{NOTHING}: no statement of a release in the index has these words.")
        elif source is None and fetch and origin and statement is None:
            lines = (*lines, f"{NOTHING}: {origin} has no such statement there.")
        found[id(one)] = replace(one, explained=lines)
    seen = tuple(found.get(id(one), one) for one in diagnosis.seen)
    return replace(diagnosis, seen=seen, remarks=(*diagnosis.remarks, *remarks)), tuple(rows)


class _Folder:
    """A site-packages, a venv or a checkout."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError for one without an engine."""
        versions = sorted(folder.glob("lib/python3*/*-packages"))
        roots = [folder / place for place in PLACES] + versions
        self._packages = [root / name for root in roots for name in PACKAGES if (root / name).is_dir()]
        if not self._packages:
            raise UsageError(
                f"{folder} has no package of an engine",
                hint="name a site-packages, a venv, or a checkout of vLLM, SGLang, FlashInfer or TensorRT-LLM",
            )
        self._packages += [folder / name for name in NATIVE if (folder / name).is_dir()]

    def statement(self, asked: Question) -> Statement | None:
        """The statement that printed a message: of the file that the traceback names, else by its rarest words."""
        for package in self._packages:
            if asked.file.startswith(f"{package.name}/"):
                text = _text(package.parent / asked.file)
                found = best_statement(asked, statements_of(text, asked.file)) if text else None
                if found:
                    return found
        words = [word.encode() for word in sorted(asked.words, key=len, reverse=True)[:RAREST]]
        near: list[Statement] = []
        for path, file in self._files():
            text = _text(path)
            lower = text.lower().encode() if text else b""
            if text and words and sum(word in lower for word in words) >= min(3, len(words)):
                near += statements_of(text, file)
        return best_statement(asked, near)

    def _files(self) -> Iterator[tuple[Path, str]]:
        left = FILES
        for package in self._packages:
            for place, folders, names in os.walk(package):
                folders[:] = sorted(set(folders) - OTHERS)
                for name in sorted(names):
                    if name.endswith((".py", *CPP)):
                        left -= 1
                        if left < 0:
                            return
                        path = Path(place) / name
                        yield path, str(path.relative_to(package.parent))


def _text(path: Path) -> str:
    """A plain file's text; empty for another kind of file, a large one, or one that cannot be read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return ""
    with open(number, "rb") as stream:  # noqa: PTH123 - Path has no flags
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return ""
        content = stream.read(LARGEST + 1)
    return content.decode("utf-8", "replace") if len(content) <= LARGEST else ""


def _of_archive(
    host: Host, indexes: Sequence[MessageIndex], asked: Question, known: Known
) -> tuple[Statement | None, str]:
    """The statement in its release's archive, which is fetched once, by its sha256. Raises FetchError."""
    index = next(one for one in indexes if one.engine == known.engine)
    release = shown_release(asked, known)
    source = index.sources[release]
    artifact = Artifact(
        filename=name_of(source.url, f"{known.engine}-{release}"), sha256=source.sha256, size=source.size
    )
    from gb10.core.http_session import download, open_session  # noqa: PLC0415 - for an archive that is fetched

    with open_session(host.env) as session, host.reporter.task(f"fetching {artifact.filename}", source.size) as task:
        done = 0

        def on_bytes(count: int) -> None:
            nonlocal done
            done += count
            host.reporter.update(task, done, source.size)

        path = download(session, host.store, artifact, lambda: source.url, on_bytes)
    text = member_text(path, f"{source.prefix}{known.row.file}")
    return best_statement(asked, statements_of(text, known.row.file)), f"{known.engine} {release}"


def member_text(path: Path, name: str) -> str:
    """The text of one file of an archive; empty where it is not there or too large."""
    if path.name.endswith(".whl"):
        with zipfile.ZipFile(path) as archive:
            info = archive.NameToInfo.get(name)
            return archive.read(info).decode("utf-8", "replace") if info and info.file_size <= LARGEST else ""
    with tarfile.open(path) as tar:
        for member in tar:
            if member.name == name and member.isfile() and member.size <= LARGEST:
                stream = tar.extractfile(member)
                return stream.read().decode("utf-8", "replace") if stream else ""
    return ""
