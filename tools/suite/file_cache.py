"""Drops the weights of a checkpoint from the page cache, and times reading them."""
from __future__ import annotations

import ctypes
import mmap
import os
import pathlib
import threading
import time
from dataclasses import dataclass

PIECE = 8 << 20     # of a file, read by one thread
BUFFER = 256 << 10  # of a read: fits the L2 cache

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_MAP_FAILED = ctypes.c_void_p(-1).value


class CacheError(Exception):
    """The files cannot be read, or the cache cannot be put into the requested state."""


@dataclass(frozen=True)
class FileReading:
    """The time of reading every weight file once."""
    bytes: int
    seconds: float


def files_of(folder: pathlib.Path) -> list[pathlib.Path]:
    """The files that loading reads: *.safetensors, or *.bin if there are none (folders often hold both). Raises
    CacheError."""
    for pattern in ("*.safetensors", "*.bin"):
        files = sorted(path for path in folder.glob(pattern) if path.is_file())
        if files:
            return files
    raise CacheError(f"--checkpoint: found no *.safetensors or *.bin in {folder}, expected a Hugging Face directory")


def _read_piece(path: pathlib.Path, begin: int, end: int, buffer: bytearray) -> None:
    """Each call reads much, part by part into the same buffer, so that threads seldom wait for the interpreter's
    lock."""
    handle = os.open(path, os.O_RDONLY)
    try:
        while begin < end:
            whole, rest = divmod(end - begin, BUFFER)
            got = os.preadv(handle, [buffer] * whole + [memoryview(buffer)[:rest]], begin)
            if got == 0:
                raise OSError("it became shorter")
            begin += got
    finally:
        os.close(handle)


def read_files(folder: pathlib.Path, threads: int) -> FileReading:
    """Reads all weight files once with `threads` threads, which share the pieces. Raises CacheError. Blocks."""
    sizes = {path: path.stat().st_size for path in files_of(folder)}
    pieces = iter([(path, begin, min(begin + PIECE, size))
                   for path, size in sizes.items() for begin in range(0, size, PIECE)])
    failures: list[str] = []

    def work() -> None:
        buffer = bytearray(BUFFER)
        for path, begin, end in pieces:  # the shared iterator gives every piece to one thread
            try:
                _read_piece(path, begin, end, buffer)
            except OSError as error:
                failures.append(f"cannot read {path}: {error.strerror or error}; give another folder")
                return

    begin = time.monotonic()
    others = [threading.Thread(target=work) for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    work()
    for thread in others:
        thread.join()
    if failures:
        raise CacheError(failures[0])
    return FileReading(sum(sizes.values()), time.monotonic() - begin)


def cached_bytes(handle: int, size: int) -> int:
    """The bytes of an open file's pages in memory. Raises OSError."""
    if size == 0:
        return 0
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    failed = _libc.mincore(address, size, pages)
    _libc.munmap(address, size)
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return mmap.PAGESIZE * sum(page & 1 for page in pages.raw)


def drop_from_cache(folder: pathlib.Path) -> None:
    """Asks the system to drop the files from the page cache. Raises CacheError if more than a hundredth of them
    remains. Blocks."""
    total = kept = 0
    for path in files_of(folder):
        try:
            handle = os.open(path, os.O_RDONLY)
            try:
                size = os.fstat(handle).st_size
                os.fdatasync(handle)  # only written pages can be dropped
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
                kept += cached_bytes(handle, size)
            finally:
                os.close(handle)
        except OSError as error:
            raise CacheError(f"cannot empty the page cache of {path}: {error.strerror}; give another folder") from error
        total += size
    if kept * 100 > total:
        raise CacheError(f"cannot empty the page cache of {folder}: found {kept} of {total} bytes in memory, expected "
                         "none; use a folder on a disk")
