"""Which files a list of paths names."""

from __future__ import annotations

import os
import socket

import fsspec
import pytest

from ingest.sources import expand
from schemas.errors import UsageError


@pytest.fixture
def memory():
    """An empty file system behind memory://."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def test_folders_patterns_and_files_name_each_file_once(tmp_path):
    """In order of their paths, hidden files of a folder left out."""
    for name in ("b.log", "a.log", ".hidden", "c[1].log"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "inner").mkdir()
    found = expand([str(tmp_path), str(tmp_path / "*.log"), str(tmp_path / "c[1].log")])
    assert found == tuple(str(tmp_path / name) for name in ("a.log", "b.log", "c[1].log"))


def test_only_two_stars_reach_into_folders(tmp_path):
    """A folder stands for its own files; hidden files and folders are left out either way."""
    for name in ("a", "in/b", "in/deep/c", ".hidden/d", "in/.e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    for pattern, names in (
        ("", ["a"]),
        ("*", ["a", "in/b"]),
        ("**", ["a", "in/b", "in/deep/c"]),
        (".hidden", [".hidden/d"]),
    ):
        assert expand([str(tmp_path / pattern)]) == tuple(str(tmp_path / name) for name in names)


def test_two_names_of_one_file_are_one(tmp_path, monkeypatch):
    """Through links, relative or as a URL."""
    (tmp_path / "log").write_bytes(b"")
    (tmp_path / "link").symlink_to("log")
    (tmp_path / "folder").symlink_to(".")
    monkeypatch.chdir(tmp_path)
    names = ["log", "link", "./log", "folder/link", f"file://{tmp_path}/log", f"file://{tmp_path}/l*"]
    assert expand(names) == (str(tmp_path / "log"),)


def test_a_pattern_that_matches_nothing_is_refused(tmp_path, memory):
    """A mistyped path does not pass for an empty night."""
    for pattern in (str(tmp_path / "*.jsonl"), str(tmp_path / "no"), "memory://no/*.jsonl"):
        with pytest.raises(UsageError, match="matches no file"):
            expand([pattern])


def test_no_pattern_is_no_file():
    """Nothing asked, nothing read."""
    assert expand([]) == ()


def test_a_name_that_is_no_utf8_is_refused(tmp_path):
    """The ledger could not name the file."""
    (tmp_path / "log\udcff").write_bytes(b"")
    with pytest.raises(UsageError, match="rename it"):
        expand([str(tmp_path)])


def test_what_cannot_be_read_is_refused_by_its_name(tmp_path, monkeypatch):
    """A broken link, a pipe, a socket, a loop of links, a file of somebody else."""
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")
        for name, said in (
            ("link", "a link to nothing"),
            ("loop", "Too many levels"),
            ("pipe", "pipe"),
            ("sock", "socket"),
        ):
            with pytest.raises(UsageError, match=said):
                expand([name])
    (tmp_path / "log").write_bytes(b"")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(UsageError, match="may not be read"):
        expand(["log"])


def test_urls_name_files_folders_and_patterns(memory):
    """As paths do."""
    for name in ("/logs/b", "/logs/a", "/logs/.hidden", "/logs/in/c", "/logs/in/d.gz"):
        memory.pipe(name, b"")
    assert expand(["memory://logs"]) == ("memory:///logs/a", "memory:///logs/b")
    assert expand(["memory://logs/", "memory:///logs/a"]) == ("memory:///logs/a", "memory:///logs/b")
    assert expand(["memory://logs/*/*.gz"]) == ("memory:///logs/in/d.gz",)
    assert len(expand(["memory://logs/**"])) == 4


def test_a_scheme_without_its_client_is_refused():
    """The message names what to install."""
    with pytest.raises(UsageError, match="nosuch"):
        expand(["nosuch://bucket/log"])
    if "s3fs" not in fsspec.available_protocols() and not _is_installed("s3fs"):
        with pytest.raises(UsageError, match=r"tracemill\[s3\]"):
            expand(["s3://bucket/log"])


def test_a_password_in_a_url_is_refused_and_not_shown():
    """It would lie in the ledger."""
    with pytest.raises(UsageError, match="a password in a URL") as caught:
        expand(["https://someone:secret@example.com/log"])
    assert "secret" not in str(caught.value)


def _is_installed(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True
