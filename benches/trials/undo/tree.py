"""The tree that every storm begins with, and what a store holds as far as an undo restores it."""

import ctypes
import fcntl
import hashlib
import os
import stat
import struct

libc = ctypes.CDLL(None, use_errno=True)
BLOCK = 4096
# A hole becomes one again, except the block in which an append began. So many bytes more may be allocated afterwards:
# a block for each append that began in a hole, and what the file system itself needs for a longer list of extents.
MORE_BLOCKS = 5 * BLOCK
FIELDS = ["kind and mode", "user", "group", "mtime", "name of its inode", "content", "labels"]


def build(store, user, leave_out):
    """`user` is an ordinary user who works in the store, or None. Things of others are among theirs."""
    os.chmod(store, 0o755)
    for name in ["a/deep/er", "a/other/g", "p/q", "empty", "closed", "sticky", "wide"]:
        os.makedirs(os.path.join(store, name))
    sizes = {"f0": 20, "f1": 40000, "f2": 80000, "a/x": 11, "a/deep/y": 300000, "a/deep/er/z": 70000, "p/script": 700}
    sizes.update({"p/q/" + "n" * 255: 5000, "big": 1500000, "none": 0, "closed/in": 10, "sticky/s": 9000})
    sizes.update({f"wide/w{n}": 1 + n * 97 for n in range(20)})
    for n, (name, size) in enumerate(sizes.items()):
        with open(os.path.join(store, name), "wb") as file:
            file.write((b"%d original\n" % n * (size // 10 + 1))[:size])
    for name, size, data in [("sparse", 1 << 20, "end"), ("tail", 5000, "front"), ("both", 300000, "middle")]:
        with open(os.path.join(store, name), "wb") as file:
            if data != "front":
                file.seek(size)
            file.write(data.encode() * (1 if data == "end" else 1000))
            if data != "end":
                file.truncate(2 << 20)
    for mode in [0, 0o200, 0o400, 0o444, 0o600, 0o602, 0o606, 0o666]:
        for whose in ["own", "others"]:
            name = os.path.join(store, f"{whose}{mode:03o}")
            with open(name, "wb") as file:
                file.write(b"mode %o\n" % mode * 2000)
    for name, other in [("f2", "a/hard"), ("f2", "p/q/hard"), ("a/x", "wide/x"), ("tail", "a/tail")]:
        os.link(os.path.join(store, name), os.path.join(store, other))
    for target, name in [("../f0", "a/up"), ("../../f1", "a/deep/up"), ("f0", "plain"), ("/etc/passwd", "out")]:
        os.symlink(target, os.path.join(store, name))
    os.mkfifo(os.path.join(store, "p/fifo"))
    os.mknod(os.path.join(store, "p/socket"), stat.S_IFSOCK | 0o600)
    for name in ["f1", "a/deep/y", "wide", "own600"]:
        os.setxattr(os.path.join(store, name), "user.first", name.encode())
    adorn(store, user, leave_out)


def adorn(store, user, leave_out):
    """Gives everything its owner, mode and time."""
    modes = {"p/script": 0o4755, "empty": 0o500, "closed": 0o300, "sticky": 0o1777}
    for n, (top, dirs, files) in enumerate(os.walk(store, topdown=False)):
        for name in files + dirs:
            path = os.path.join(top, name)
            if user is not None and not name.startswith("others"):
                os.chown(path, user, user, follow_symlinks=False)
            if name[-3:].isdigit() and name.startswith("o"):
                mode = int(name[-3:], 8)
                readable = 0o400 if name.startswith("own") else 0o404
                os.chmod(path, mode | readable if "unreadable" in leave_out else mode)
            if (known := os.path.relpath(path, store)) in modes:
                os.chmod(path, modes[known])
            os.utime(path, ns=(0, 10**18 + n * 1001), follow_symlinks=False)
    if user is not None:
        os.chown(store, user, user)
    os.utime(store, ns=(0, 10**18))


class Entry:
    """What a store holds at a path: the FIELDS, and for a file its data, what is no hole, and the allocated bytes."""

    def __init__(self, fields, data=(), filled=(), allocated=0):
        self.fields, self.data, self.filled, self.allocated = fields, data, filled, allocated


def settle_space(fd):
    """Writes everything to the disk. xfs reserves blocks beyond an end and for copies of shared ones for some minutes."""
    libc.syncfs(fd)
    free_eofblocks, version, wait = 0x8080583A, 1, 1
    try:
        fcntl.ioctl(fd, free_eofblocks, struct.pack("128s", struct.pack("II", version, wait)))
    except OSError:  # Another file system.
        pass


def extents(fd):
    """The extents of a file on the disk (FIEMAP): start, end, and whether it has no data; None on tmpfs."""
    fs_ioc_fiemap, unwritten, most = 0xC020660B, 0x800, 2000
    ask = bytearray(struct.pack("QQIIII", 0, (1 << 64) - 1, 0, 0, most, 0) + bytes(56 * most))
    try:
        fcntl.ioctl(fd, fs_ioc_fiemap, ask)
    except OSError:
        return None
    found = []
    for n in range(struct.unpack_from("I", ask, 20)[0]):
        start, _, length, _, _, flags = struct.unpack_from("QQQQQI", ask, 32 + 56 * n)
        found.append((start, start + length, bool(flags & unwritten)))
    return found


def data_of(fd, size):
    """The parts of a file that are data, and those that are no hole: they may be reserved (fallocate). To lseek, reserved
    space is data from the first time that somebody read it."""
    known = extents(fd)
    if known is not None:
        known = [(start, min(end, size), unwritten) for start, end, unwritten in known if start < size]
        return [part[:2] for part in known if not part[2]], [part[:2] for part in known]
    found, at = [], 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            break
        at = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        found.append((start, at))
    return found, found


def read_file(fd, meta):
    digest, (segments, whole) = hashlib.sha256(), data_of(fd, meta.st_size)
    # Zeros in a hole and zeros on the disk are one content.
    for start, end in segments:
        data = os.pread(fd, end - start, start)
        for at in range(start, end, BLOCK):
            block = data[at - start : at - start + BLOCK]
            if block.strip(b"\0"):
                digest.update(b"%d " % at + block)
    return f"{meta.st_size} bytes {digest.hexdigest()[:12]}", segments, whole


def labels_of(fd):
    return {name: os.getxattr(fd, name) for name in sorted(os.listxattr(fd)) if name.startswith("user.")}


def look(store):
    """All entries of a store by path. Directories are opened one below the other: no path is too long."""
    seen, inodes = {}, {}

    def add(dir_fd, name, at):
        meta = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        same = inodes.setdefault(meta.st_ino, at)
        content, labels, data, whole, inner = None, {}, [], [], None
        if stat.S_ISLNK(meta.st_mode):
            content = os.readlink(name, dir_fd=dir_fd)
        elif stat.S_ISREG(meta.st_mode):
            fd = os.open(name, os.O_RDONLY, dir_fd=dir_fd)
            content, data, whole = read_file(fd, meta)
            labels = labels_of(fd)
            os.close(fd)
        elif stat.S_ISDIR(meta.st_mode):
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=dir_fd)
            labels = labels_of(inner)
        fields = [oct(meta.st_mode), meta.st_uid, meta.st_gid, meta.st_mtime_ns, same, content, labels]
        seen[at] = Entry(fields, data, whole, meta.st_blocks * 512)
        return inner

    def walk(fd, path):
        for name in sorted(os.listdir(fd)):
            at = f"{path}/{name}"
            if at in ("/.trumanfs", "/.trash"):
                continue
            inner = add(fd, name, at)
            if inner is not None:
                try:
                    walk(inner, at)
                finally:
                    os.close(inner)

    fd = os.open(store, os.O_RDONLY)
    try:
        settle_space(fd)
        walk(fd, "")
        seen["/"] = Entry([None, None, None, os.fstat(fd).st_mtime_ns, None, None, labels_of(fd)])
    finally:
        os.close(fd)
    return seen


def blocks(segments):
    return {block for start, end in segments for block in range(start // BLOCK, (end - 1) // BLOCK + 1)}


def filled(before, after):
    """What is allocated of a file beyond what the rule of holes allows, if anything is."""
    more = len(blocks(after.data) - blocks(before.filled)) * BLOCK
    if more > MORE_BLOCKS:
        return f"{more} bytes of holes are data"
    if after.allocated > before.allocated + MORE_BLOCKS:
        return f"{before.allocated} bytes allocated became {after.allocated}"
    return None


def differences(before, after):
    """A pair of path and text for each difference."""
    found = []
    for path in sorted(set(before) | set(after)):
        one, two = before.get(path), after.get(path)
        if one is None or two is None:
            found.append((path, "is missing" if two is None else f"is extra: {two.fields}"))
            continue
        for field, old, new in zip(FIELDS, one.fields, two.fields):
            if old != new:
                found.append((path, f"{field}: {old} became {new}"))
        if text := filled(one, two):
            found.append((path, text))
    return found
