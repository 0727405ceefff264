"""The bytes of one file as stored, on a disk or behind a URL, read once from front to back."""

from __future__ import annotations

import os
import re
import stat
import sys
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

from schemas.errors import InputError, UsageError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_S3 = ("s3", "s3a")
_FOREIGN_ERRORS = (
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("aiohttp", "ClientError"),
    ("google.auth.exceptions", "GoogleAuthError"),
    ("azure.core.exceptions", "AzureError"),
)
"""What the clients raise that is no `OSError`: module and name, looked up once the client has been imported."""


def is_remote(uri: str) -> bool:
    """Whether it is a URL rather than a path."""
    return _SCHEME.match(uri) is not None


def read_errors() -> tuple[type[Exception], ...]:
    """What reading a file can raise, whoever keeps it."""
    loaded = (getattr(sys.modules[module], name) for module, name in _FOREIGN_ERRORS if module in sys.modules)
    return (OSError, *loaded)


def file_system(uri: str) -> tuple[AbstractFileSystem, str]:
    """The file system of a URL and the name of the file in it; `UsageError` where its client is not installed."""
    scheme = uri.partition("://")[0]
    if re.match(r"[^/?]*:[^/?]*@", uri.partition("://")[2]):
        raise UsageError(
            f"{scheme}://...@{uri.rpartition('@')[2]}: a password in a URL, and the ledger keeps URLs; expected none: "
            "give it to the client by its own settings or environment variables"
        )
    try:
        found: tuple[AbstractFileSystem, str] = import_module("fsspec.core").url_to_fs(uri)
    except ImportError as error:
        fix = "pip install 'tracemill[s3]'" if scheme in _S3 else "install that package"
        raise UsageError(
            f"{uri}: the client of {scheme}:// is missing; expected it installed ({error}): {fix}"
        ) from error
    except ValueError as error:
        raise UsageError(f"{uri}: {error}; expected a path or a URL such as s3://bucket/folder/*.jsonl") from error
    return found


def stored_size(uri: str) -> int:
    """How many bytes the file has as stored, 0 where its keeper does not say; `InputError` when it is gone."""
    if not is_remote(uri):
        try:
            return Path(uri).stat().st_size
        except OSError as error:
            raise InputError(_cannot_be_read(uri, error)) from error
    system, name = file_system(uri)
    try:
        return int(system.info(name).get("size") or 0)
    except read_errors() as error:
        raise InputError(_cannot_be_read(uri, error)) from error


def size_if_there(uri: str) -> int:
    """Bytes of a file as stored, for progress; 0 where it is gone or its keeper does not say."""
    try:
        return stored_size(uri)
    except InputError:
        return 0


class Stored:
    """One file, read from front to back; `size` and `num_taken` are bytes as stored.

    A connection that breaks, or a remote file that ends before its size, is refused (`InputError`): a part never
    passes for the whole. A local file that was cut while it was read sets `was_cut`.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.num_taken = 0
        self.was_cut = False
        self._ahead = b""
        self._is_remote = is_remote(uri)
        try:
            self._file: BinaryIO
            self._file, self.size = self._remote() if self._is_remote else self._local()
        except read_errors() as error:
            raise InputError(_cannot_be_read(uri, error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def peek(self, num_bytes: int) -> bytes:
        """The bytes that come next, without taking them."""
        while len(self._ahead) < num_bytes and (piece := self._take(num_bytes - len(self._ahead))):
            self._ahead += piece
        return self._ahead[:num_bytes]

    def read(self, num_bytes: int) -> bytes:
        """The next bytes, so many at most; none at the end."""
        piece, self._ahead = self._ahead[:num_bytes], self._ahead[num_bytes:]
        piece = piece or self._take(num_bytes)
        self.num_taken += len(piece)
        if not piece and self.num_taken < self.size:
            if self._is_remote:
                raise InputError(
                    f"{self.uri}: ended after {self.num_taken} of {self.size} bytes; expected all of them: the "
                    "connection was cut, read it again"
                )
            self.was_cut = True
        return piece

    def again(self) -> Stored:
        """The same file from its beginning."""
        return Stored(self.uri)

    def local_file(self, temporary: BinaryIO) -> BinaryIO:
        """The file where one can move back and forth in it: itself, or its bytes in `temporary`, from the beginning."""
        if not self._is_remote:
            return self._file
        while piece := self.read(2**20):
            temporary.write(piece)
        return temporary

    def _take(self, num_bytes: int) -> bytes:
        try:
            return self._file.read(num_bytes)
        except read_errors() as error:
            raise InputError(
                f"{self.uri}: reading failed after {self.num_taken} bytes ({error}); expected the whole file: what "
                "was read is kept, read it again"
            ) from error

    def _local(self) -> tuple[BinaryIO, int]:
        # Not waiting at a pipe that nobody writes to.
        descriptor = os.open(self.uri, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise OSError("it is no regular file")
        return os.fdopen(descriptor, "rb"), status.st_size

    def _remote(self) -> tuple[BinaryIO, int]:
        system, name = file_system(self.uri)
        size = int(system.info(name).get("size") or 0)
        # A web server need not hand over parts of a file: it is asked for the whole, piece by piece.
        options = {"block_size": 0} if self.uri.startswith(("http://", "https://")) else {"cache_type": "readahead"}
        file: BinaryIO = system.open(name, "rb", **options)
        return file, size


def _cannot_be_read(uri: str, error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{uri}: cannot be read ({reason}); expected a file that may be read: mend the path or its rights"
