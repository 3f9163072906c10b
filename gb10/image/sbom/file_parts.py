"""Locked files as parts: Debian packages, wheels, source archives and commits, by the names of their files. Pure."""

from packaging.utils import parse_sdist_filename, parse_wheel_filename

from gb10.image.plan.recorded import RecordedFile
from gb10.image.sbom.part import Part


def deb_part(file: RecordedFile, suite: str, layer: str) -> Part:
    """A Debian package by the name of its file; of an epoch there, the archive writes ``%3a``."""
    name, _, rest = file.filename.removesuffix(".deb").partition("_")
    version, _, architecture = rest.replace("%3a", ":").rpartition("_")
    distro = f"&distro={suite}" if suite else ""
    return Part(
        id=f"deb-{name}",
        kind="deb",
        name=name,
        version=version,
        filename=file.filename,
        sha256=file.sha256,
        size=file.size,
        purl=f"pkg:deb/debian/{name}@{quoted(version)}?arch={architecture}{distro}",
        layer=layer,
    )


def wheel_part(file: RecordedFile, layer: str) -> Part:
    """A locked wheel by its file name; a name that is none is the part's own name."""
    try:
        name, version, _, _ = parse_wheel_filename(file.filename)
    except ValueError:
        return Part(id=f"wheel-{file.filename}", kind="wheel", name=file.filename, sha256=file.sha256, layer=layer)
    return Part(
        id=f"wheel-{name}",
        kind="wheel",
        name=name,
        version=str(version),
        filename=file.filename,
        sha256=file.sha256,
        size=file.size,
        purl=f"pkg:pypi/{name}@{quoted(str(version))}?file_name={quoted(file.filename)}",
        layer=layer,
    )


def source_part(file: RecordedFile) -> Part:
    """A source archive of the package index, or a commit of git."""
    name, version, purl, git = _origin(file)
    return Part(
        id=f"source-{name}",
        kind="source",
        name=name,
        version=version,
        filename=file.filename,
        sha256=file.sha256,
        size=file.size,
        purl=purl,
        git=git,
    )


def _origin(file: RecordedFile) -> tuple[str, str, str, str]:
    """Name, version, purl and repository of a source."""
    if file.checkout:
        pin = file.checkout.tag or file.checkout.commit
        purl = github_purl(file.checkout.git, file.checkout.commit)
        return file.filename.rpartition("-")[0], pin, purl, f"git+{file.checkout.git}@{pin}"
    try:
        name, release = parse_sdist_filename(file.filename)
    except ValueError:
        return file.filename, "", "", ""
    purl = f"pkg:pypi/{name}@{quoted(str(release))}?file_name={quoted(file.filename)}"
    return str(name), str(release), purl, ""


def github_purl(url: str, version: str) -> str:
    """The purl of a repository of GitHub, nothing for another host."""
    _, found, path = url.removesuffix(".git").partition("://github.com/")
    return f"pkg:github/{path.lower()}@{quoted(version)}" if found else ""


def quoted(text: str) -> str:
    """A version or file name in a purl: what is not a plain character is percent-encoded."""
    return "".join(one if one.isascii() and (one.isalnum() or one in "-._~") else f"%{ord(one):02X}" for one in text)
