"""A small file system of the test's own, so that it can be full. It takes the right to mount.

`tmpfs` refuses at once what does not fit; `ext4`, in a file behind a loop device, has blocks, a journal and a real fsync.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

FILE_SYSTEMS: Final = ("tmpfs", "ext4")
BLOCK_BYTES: Final = 4096


@contextlib.contextmanager
def mounted(path: Path, *, kind: str, size_bytes: int) -> Iterator[Path]:
    path.mkdir()
    try:
        _mount(path, kind, size_bytes)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(f"a full disk needs a file system of its own, and mounting {kind} is not possible here: {error}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def _mount(path: Path, kind: str, size_bytes: int) -> None:
    if kind == "tmpfs":
        _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path))
        return
    image = path.with_suffix(".image")
    with image.open("wb") as file:
        file.truncate(size_bytes)
    # No blocks set aside for root, who may be the one that runs the tests.
    _run("mkfs.ext4", "-q", "-F", "-b", str(BLOCK_BYTES), "-m", "0", str(image))
    _run("mount", "-o", "loop", str(image), str(path))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
