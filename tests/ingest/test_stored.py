"""Files as they are stored, near and far."""

from __future__ import annotations

import gzip
import hashlib

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from ingest.files import open_lines
from ingest.stored import Stored, stored_size
from schemas.errors import InputError

CONTENT = b"".join(b'{"n":%d}\n' % n for n in range(50_000))


class FlakyFile(MemoryFile):
    """Hands over 64 KiB, then fails as its system says."""

    def read(self, size: int = -1) -> bytes:
        """The next bytes, or what befell the connection."""
        if self.tell() < 2**16:
            return super().read(min(size, 2**16))
        if isinstance(self.fs.fault, Exception):
            raise self.fs.fault
        return b""


class FlakySystem(MemoryFileSystem):
    """Keeps files that cannot be read to their end."""

    protocol = "flaky"
    fault: Exception | None = None
    store: dict[str, object] = {}  # noqa: RUF012 - the same for all, as in the class that it refines

    def _open(self, path, *_, **__):
        return FlakyFile(self, path, CONTENT)

    def info(self, path, **_):
        """A whole file, as far as its keeper knows."""
        return {"name": path, "size": len(CONTENT), "type": "file"}


@pytest.fixture
def flaky():
    """A file system whose connections break."""
    fsspec.register_implementation("flaky", FlakySystem, clobber=True)
    yield FlakySystem
    FlakySystem.fault = None


def read(uri: str) -> tuple[list[bytes], str]:
    """All lines and the hash of a file."""
    with open_lines(uri, 2**20) as reader:
        return [line.text for block in reader.blocks() for line in block], reader.content_sha256


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_behind_a_url_is_read_as_one_on_the_disk(tmp_path, pack):
    """Lines, hash and size."""
    (tmp_path / "log").write_bytes(pack(CONTENT))
    fsspec.filesystem("memory").pipe("/log", pack(CONTENT))
    assert read("memory:///log") == read(str(tmp_path / "log"))
    assert read("memory:///log")[1] == hashlib.sha256(CONTENT).hexdigest()
    assert stored_size("memory:///log") == stored_size(str(tmp_path / "log")) == (tmp_path / "log").stat().st_size


def test_a_parquet_file_behind_a_url_is_copied_first(tmp_path):
    """It is read back and forth, and its keeper need not allow that."""
    with fsspec.open("memory:///rows", "wb") as file:
        pq.write_table(pa.table({"n": [1, 2]}), file)
    assert read("memory:///rows")[0] == [b'{"n":1}', b'{"n":2}']


@pytest.mark.parametrize("fault", [None, OSError("connection reset"), TimeoutError("no answer")])
def test_a_connection_that_breaks_never_makes_a_short_file(flaky, fault):
    """The lines before it were read; then it is an error that says so."""
    flaky.fault = fault
    found = []
    with open_lines("flaky://log", 2**20, 2**14) as reader:
        with pytest.raises(InputError, match=r"flaky://log: .* after 655"):
            found.extend(line for block in reader.blocks() for line in block)
        assert reader.bytes_read == found[-1].byte_offset + found[-1].num_bytes + 1


def test_a_file_that_is_gone_is_an_input_error(tmp_path):
    """Near and far, opened or asked for its size."""
    for uri in (str(tmp_path / "gone"), "memory:///gone"):
        with pytest.raises(InputError, match="cannot be read"):
            Stored(uri)
        with pytest.raises(InputError, match="cannot be read"):
            stored_size(uri)


def test_what_is_no_file_is_an_input_error(tmp_path):
    """A folder; a pipe does not keep the reader waiting."""
    with pytest.raises(InputError, match="no regular file"):
        Stored(str(tmp_path))
