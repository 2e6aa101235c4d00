"""What a person or an agent does to files, as their programs do it. Paths are those below the working directory.

The agent's program is this very file: it reads deeds as lines of JSON and answers each when it is done."""

import json
import mmap
import os
import shutil
import subprocess
import sys


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode=0o644):
    fd = os.open(path, flags, mode)
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)


def in_place(path, data):
    """Over the old content, and cut or grown to the new length at the end."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def truncate_write(path, data):
    write(path, data)


def create(path, data):
    write(path, data, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def atomic(path, data):
    mode = os.stat(path).st_mode & 0o7777
    write(path + ".tmp", data)
    os.chmod(path + ".tmp", mode)
    os.rename(path + ".tmp", path)


def vim(path, data, keep=False):
    """The old file is moved aside, a new one is written, and the old one removed: `backupcopy=no`."""
    mode = os.stat(path).st_mode & 0o7777
    os.rename(path, path + "~")
    write(path, data, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    if not keep:
        os.unlink(path + "~")


def emacs(path, data):
    """As vim does, but the backup stays."""
    vim(path, data, keep=True)


def backup_copy(path, data):
    """vim with `backupcopy=yes`: a copy beside, then the file itself is written anew."""
    shutil.copy2(path, path + "~")
    write(path, data, os.O_WRONLY | os.O_TRUNC)
    os.unlink(path + "~")


def append(path, data):
    write(path, data, os.O_WRONLY | os.O_APPEND)


def patch(path, data, at):
    fd = os.open(path, os.O_RDWR)
    try:
        os.pwrite(fd, data, at)
    finally:
        os.close(fd)


def mapped(path, data, at):
    fd = os.open(path, os.O_RDWR)
    try:
        with mmap.mmap(fd, 0) as memory:
            memory[at : at + len(data)] = data
            memory.flush()
    finally:
        os.close(fd)


def sed(path, old, new):
    call("sed", "-i", f"s/{old}/{new}/", path)


def call(*words):
    done = subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=20)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.decode(errors='replace').strip()}")


HELD = []
DEEDS = {
    "in_place": in_place,
    "truncate_write": truncate_write,
    "create": create,
    "atomic": atomic,
    "vim": vim,
    "emacs": emacs,
    "backup_copy": backup_copy,
    "append": append,
    "patch": patch,
    "mapped": mapped,
    "sed": sed,
    "cut": os.truncate,
    "chmod": os.chmod,
    "utimes": lambda path, when: os.utime(path, (when, when)),
    "xattr": lambda path, value: os.setxattr(path, "user.two", value),
    "link": os.link,
    "mv": os.rename,
    "rm": os.unlink,
    "rmtree": lambda path: call("rm", "-rf", path),
    "mkdir": os.mkdir,
    "cp": lambda path, to: call("cp", "-p", path, to),
    "reflink": lambda path, to: call("cp", "--reflink=auto", path, to),
    "hold": lambda path, flags: HELD.append(os.open(path, flags)),
    "held_write": lambda path, data: os.write(HELD[-1], data),
    "held_close": lambda path: os.close(HELD.pop()),
}


def do(deed):
    """Returns what went wrong, or nothing."""
    name, *words = deed
    if name in BYTES:
        words[1] = words[1].encode("latin-1")
    try:
        DEEDS[name](*words)
    except (OSError, IndexError, ValueError) as error:
        return str(error) or repr(error)
    return ""


# Deeds whose second word is a content, which JSON has as Latin-1.
SAVES = ["in_place", "truncate_write", "atomic", "vim", "emacs", "backup_copy"]
BYTES = {*SAVES, "create", "append", "patch", "mapped", "xattr", "held_write"}


def serve():
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(do(json.loads(line))), flush=True)
