"""Copy the sources in archives and at URLs, and count what is no source."""

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath

from tracelab.errors import StoreError
from tracelab.file_urls import is_file_url, parse_file_url
from tracelab.foreign_text import escape_controls, escape_path
from tracelab.ingest import objects
from tracelab.ingest.archives import unpack
from tracelab.ingest.copies import Copies, copy_path
from tracelab.ingest.discovery import (
    MEMBER_MARK,
    Archive,
    Candidate,
    Refused,
    expand_paths,
    is_for_people,
    original_path,
    probe_source,
)


def copy_objects(url: str, folder: Path) -> Iterator[Path | Refused]:
    """Yield the path of a file:// URL, or copies of what another URL names, and why others were not copied.

    Raises UsageError for a URL of another kind.
    """
    if is_file_url(url):
        yield parse_file_url(url)
        return
    objects.check_url(url)
    place = Path(url.replace("://", ":/", 1).partition("?")[0])
    try:
        copied = objects.download(url, folder)
    except FileNotFoundError:
        yield Refused(place, f"{escape_path(place)}: no such object, and none below it; check the address")
        return
    except StoreError as error:
        yield Refused(place, str(error))
        return
    if copied.copies.written:
        yield from copied.paths
    yield from _list_rejected(copied.copies, place, "objects")
    if copied.unnamed:
        sentence = f"{len(copied.unnamed):,} objects have keys that no file can have here, the first: "
        message = f"{escape_path(place)}: {sentence}{escape_controls(copied.unnamed[0])}"
        yield Refused(place, message, files=len(copied.unnamed))
    if copied.ended:
        yield Refused(place, f"{escape_path(place)}: {copied.ended}")


def restore_copies(paths: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """Return a copy below `folder` for each path that is a copy and is not there: it was made on another machine.

    Raises StoreError, FileNotFoundError and OSError where what it was copied from cannot be read here.
    """
    restored: dict[Path, Path] = {}
    members: dict[str, list[Path]] = {}
    for path in paths:
        original = original_path(path)
        if original is path or path.exists():
            continue
        restored[path] = copy_path(folder, original)
        container, mark, _ = escape_path(original).partition(f"{MEMBER_MARK}/")
        if mark:
            members.setdefault(container, []).append(original)
        else:
            objects.download(container, folder)
    for container, names in members.items():
        archive = Path(container)
        if "://" in container:
            archive = objects.download(container, folder).paths[0]
        root = Path(f"{original_path(archive)}{MEMBER_MARK}")
        wanted = [str(name.relative_to(root)) for name in names]
        unpack(archive, original_path(archive), folder, lambda member, wanted=wanted: _is_in(member, wanted))  # type: ignore[misc]
    return restored


def _is_in(member: str, wanted: Sequence[str]) -> bool:
    """Return whether a member is one of these files, or in one of these folders."""
    name = str(PurePosixPath(member))
    return any(name == each or name.startswith(f"{each}/") for each in wanted)


def probe_members(archive: Path, store: Path | str, folder: Path) -> Iterator[Candidate | Refused]:
    """Yield the members of an archive that are sources, and for the others how many there are and why."""
    place = original_path(Path(os.path.abspath(archive)))  # noqa: PTH100 - links keep their names
    label = escape_path(original_path(archive))
    unpacked = unpack(archive, place, folder)
    copies = unpacked.copies
    if copies.written:
        for item in expand_paths([copies.root], store):
            probed = probe_source(item)
            assert not isinstance(probed, Archive)  # noqa: S101 - no archive in an archive is copied
            yield probed
    yield from _list_rejected(copies, original_path(archive), "members")
    for refusal, names in unpacked.refused.items():
        members = "1 member" if len(names) == 1 else f"{len(names):,} members, the first of them"
        sentence = f"{label}: {members} ({escape_controls(names[0])}): {refusal.reason}"
        yield Refused(archive, sentence, readable=not refusal.may_lose_data, files=len(names))
    if unpacked.ended:
        yield Refused(archive, f"{label}: {unpacked.ended}")
    elif not (copies.written or copies.rejected or unpacked.refused):
        yield Refused(archive, f"{label}: an archive without members", readable=True)


def _list_rejected(copies: Copies, place: Path, noun: str) -> Iterator[Refused]:
    """Yield how many members or objects no reader accepts, but for those that `tracelab collect` writes for people."""
    members = copies.written | copies.rejected
    names = [name for name in sorted(copies.rejected) if not _is_for_people(name, members)]
    if not names:
        return
    total = len(copies.written) + len(copies.rejected)
    first = escape_controls(str(names[0]))
    if total == 1:
        sentence = f"its only {noun.removesuffix('s')} holds no profiler data: {first}"
    elif len(names) == total:
        sentence = f"none of its {total:,} {noun} holds profiler data"
    else:
        holds = "holds" if len(names) == 1 else "hold"
        sentence = f"{len(names):,} of its {total:,} {noun} {holds} no profiler data, the first: {first}"
    yield Refused(place, f"{escape_path(place)}: {sentence}", readable=True, files=len(names))


def _is_for_people(name: PurePosixPath, members: Collection[PurePosixPath]) -> bool:
    return is_for_people(name.name, {each.name for each in members if each.parent == name.parent})
