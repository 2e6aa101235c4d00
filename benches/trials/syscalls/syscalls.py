#!/usr/bin/env python3
"""System calls with arguments at the edges, side by side in an ordinary directory and in a home.

    syscalls.py NATIVE HOME [--seed N] [--count N] [--all]

Each call gets a fresh directory of the same things in both places; what it answers (a number, bytes or an errno) and what it leaves
(modes, sizes, links, contents, which times moved) must be the same. Differences are printed, each kind once, with how often; those that
docs/semantics/home.md decides are left out unless --all is given (with SERVED=1 in the environment also those of a home without passthrough).
Ends with 1 if any is left.
"""

import argparse
import collections
import ctypes
import errno
import itertools
import os
import random
import shutil
import stat
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
NR = dict(lseek=8, ioctl=16, pread=17, pwrite=18, access=21, fallocate=285, preadv2=327, pwritev2=328, copy_file_range=326,
          renameat2=316, linkat=265, mknodat=259, utimensat=280, statx=332, openat=257, unlinkat=263, mkdirat=258, fchmodat2=452,
          fchownat=260, faccessat2=439, splice=275, sendfile=40, readahead=187, fadvise64=221, sync_file_range=277, truncate=76,
          ftruncate=77, symlinkat=266, readlinkat=267, getdents64=217, flock=73, fsync=74, fdatasync=75, openat2=437, statfs=137)
AT_FDCWD = -100
BIG = [0, 1, -1, 2, 3, 4095, 4096, 9999, 10000, 10001, 65536, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) + 5, (1 << 44), (1 << 62),
       (1 << 63) - 1, -(1 << 63), -4096]
SMALL = [0, 1, 7, 4096, 10000, 70000, -1]
FLAGS = [0, 1, 2, 3, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x400, 0x800, 0x1000, 0x2000, 0x4000, 0x8000, 0x80000000, 0xffffffff]
NAMES = ["f", "big", "d", "d/x", "p", "no", "no/x", "f/x", "", ".", "..", "d/..", "d/.", "f/", "d/", "./f", "d//x", "x" * 255, "x" * 256,
         "sg/x", "st", "ro", "suid", "empty"]  # nothing outside: what is tried here is done, as root
OPENS = ["f", "big", "empty", "d", "p", "ro", "suid"]


def call(name, *args):
    """One system call; strings and buffers as pointers."""
    made = []
    for arg in args:
        if isinstance(arg, str):
            made.append(ctypes.c_char_p(os.fsencode(arg)))
        elif isinstance(arg, int):
            made.append(ctypes.c_long(arg if arg < 1 << 63 else arg - (1 << 64)))
        else:
            made.append(arg)
    ctypes.set_errno(0)
    got = libc.syscall(ctypes.c_long(NR[name]), *made)
    return got if got >= 0 else errno.errorcode.get(ctypes.get_errno(), ctypes.get_errno())


def fixture(place):
    os.mkdir(place)
    os.chdir(place)
    data = bytes(range(256)) * 39 + b"tail" * 4
    for name, size in [("f", 10000), ("empty", 0), ("ro", 100), ("suid", 300)]:
        with open(name, "wb") as file:
            file.write(data[:size])
    with open("big", "wb") as file:
        file.write(data)
        file.seek(1 << 20)
        file.write(data)
    os.link("f", "st")
    for name, mode in [("d", 0o755), ("sg", 0o2775), ("sticky", 0o1777)]:
        os.mkdir(name)
        os.chmod(name, mode)
    open("d/x", "w").close()
    open("sg/x", "w").close()
    os.mkfifo("p")
    os.chmod("ro", 0o444)
    os.chmod("suid", 0o6755)
    for top, _, names in os.walk("."):
        for name in [*names, "."]:
            os.utime(os.path.join(top, name), ns=(10**18, 10**18 + 5))


def left():
    """What is there afterwards; of times, whether they are those of the fixture."""
    found = {}
    for top, dirs, names in os.walk("."):
        for name in [*dirs, *names, "."]:
            path = os.path.normpath(os.path.join(top, name))
            was = os.lstat(path)
            kind = stat.S_IFMT(was.st_mode)
            size = was.st_size if kind == stat.S_IFREG else 0
            body = b""
            if kind == stat.S_IFREG and size < 1 << 22:
                fd = os.open(path, os.O_RDONLY | os.O_NOATIME)
                body = os.pread(fd, size, 0)
                os.close(fd)
            times = was.st_mtime_ns == 10**18 + 5
            found[path] = (oct(was.st_mode), was.st_nlink if kind != stat.S_IFDIR else 0, was.st_uid, was.st_gid, size, times, hash(body))
    return found


def opened(name, flags, use):
    try:
        fd = os.open(name, flags | os.O_NONBLOCK)
    except OSError as error:
        return "open", errno.errorcode[error.errno]
    try:
        got = use(fd)
    finally:
        try:
            os.close(fd)
        except OSError as error:
            got = (got, "close", errno.errorcode[error.errno])
    return got


def vector(size):
    buffer = ctypes.create_string_buffer(b"w" * min(size, 1 << 17), max(size, 1))

    class Iovec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    return buffer, Iovec(ctypes.cast(buffer, ctypes.c_void_p), size)


def read_write(name, flags, number, size, offset, rwf):
    buffer, iov = vector(max(size, 0))

    def use(fd):
        low = offset & 0xffffffffffffffff
        got = call(number, fd, ctypes.byref(iov), 1, low, 0, rwf)
        return got, buffer.raw[: got] if number == "preadv2" and isinstance(got, int) else b""

    return opened(name, flags, use)


def at_offset(name, flags, number, size, offset):
    buffer = ctypes.create_string_buffer(b"w" * 100, 1 << 17)

    def use(fd):
        got = call(number, fd, buffer, size, offset)
        return got, buffer.raw[: got] if number == "pread" and isinstance(got, int) else b""

    return opened(name, flags, use)


def two(one, other, act):
    return opened(one, os.O_RDWR if one != "d" else os.O_RDONLY, lambda a: opened(other, os.O_RDWR if other != "d" else os.O_RDONLY, lambda b: act(a, b)))


def pointer(value):
    return None if value is None else ctypes.byref(ctypes.c_longlong(value))


def move(one, other, offsets, size, flags):
    def act(a, b):
        ins, outs = (ctypes.c_longlong(o) for o in offsets)
        got = call("copy_file_range", a, ctypes.byref(ins), b, ctypes.byref(outs), size, flags)
        return got, ins.value, outs.value

    return two(one, other, act)


def through_pipe(name, offset, size, flags, into):
    def use(fd):
        r, w = os.pipe()
        try:
            where = ctypes.c_longlong(offset)
            if into:
                os.write(w, b"piped" * 20)
                got = call("splice", r, None, fd, ctypes.byref(where), size, flags | 2)
            else:
                got = call("splice", fd, ctypes.byref(where), w, None, size, flags | 2)
            return got, where.value
        finally:
            os.close(r)
            os.close(w)

    return opened(name, os.O_RDWR if name != "d" else os.O_RDONLY, use)


def timespecs(*pairs):
    return (ctypes.c_long * 4)(*itertools.chain(*pairs))


def statx(name, flags, mask):
    buffer = ctypes.create_string_buffer(256)
    got = call("statx", AT_FDCWD, name, flags, mask, buffer)
    if got != 0:
        return got
    raw = buffer.raw
    # Mask without the time of birth, links, owner, mode, size.
    fields = [int.from_bytes(raw[a:b], "little") for a, b in [(16, 20), (20, 24), (24, 28), (28, 30), (40, 48)]]
    is_dir = stat.S_ISDIR(fields[3])
    known = int.from_bytes(raw[0:4], "little") & mask & 0x7ff
    return got, known, fields[:-1][0 if not is_dir else 1:], 0 if is_dir else fields[-1]


def bind(function, *args):
    return lambda: function(*args)


def by_path(name, flags, act):
    return opened(name, flags, act)


def generate(rng):
    """One call, as its kind, its words and what does it."""
    p = rng.choice
    name, other = p(NAMES), p(NAMES)
    file, target = p(OPENS), p(OPENS)
    access = p([os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_PATH, os.O_RDWR | os.O_DIRECT])
    kind = p(sorted(KINDS))
    return kind, *KINDS[kind](p, name, other, file, target, access)


def show(fd):
    return call("fsync", fd), call("fdatasync", fd)


KINDS = {
    "lseek": lambda p, n, o, f, t, a: ((f, at := p(BIG), w := p([0, 1, 2, 3, 4, 5, 99, -1])), bind(opened, f, os.O_RDONLY, lambda fd: call("lseek", fd, at, w))),
    "pread": lambda p, n, o, f, t, a: ((f, a, s := p([0, 1, 7, 4096, 70000]), at := p(BIG)), bind(at_offset, f, a, "pread", s, at)),
    "pwrite": lambda p, n, o, f, t, a: ((f, a, s := p([0, 1, 7, 100]), at := p(BIG)), bind(at_offset, f, a, "pwrite", s, at)),
    "preadv2": lambda p, n, o, f, t, a: ((f, a, s := p([0, 1, 5000]), at := p(BIG), r := p(FLAGS)), bind(read_write, f, a, "preadv2", s, at, r)),
    "pwritev2": lambda p, n, o, f, t, a: ((f, a, s := p([0, 1, 5000]), at := p(BIG), r := p(FLAGS)), bind(read_write, f, a, "pwritev2", s, at, r)),
    "fallocate": lambda p, n, o, f, t, a: ((f, a, m := p(FLAGS[:12]), at := p(BIG), s := p(BIG[:12] + BIG[-3:])), bind(opened, f, a, lambda fd: call("fallocate", fd, m, at, s))),
    "truncate": lambda p, n, o, f, t, a: ((n, s := p(BIG)), bind(call, "truncate", n, s)),
    "ftruncate": lambda p, n, o, f, t, a: ((f, a, s := p(BIG)), bind(opened, f, a, lambda fd: call("ftruncate", fd, s))),
    "copy_file_range": lambda p, n, o, f, t, a: ((f, t, at := (p(BIG), p(BIG)), s := p([0, 1, 5000, 1 << 20, (1 << 63) - 1]), g := p([0, 0, 0, 1, 2])), bind(move, f, t, at, s, g)),
    "splice": lambda p, n, o, f, t, a: ((f, at := p(BIG), s := p([0, 1, 100, 5000]), g := p([0, 1, 4, 8, 64]), i := p([True, False])), bind(through_pipe, f, at, s, g, i)),
    "sendfile": lambda p, n, o, f, t, a: ((f, t, at := p([None, *BIG]), s := p([0, 1, 5000])), bind(two, f, t, lambda x, y: call("sendfile", y, x, pointer(at), s))),
    "renameat2": lambda p, n, o, f, t, a: ((n, o, g := p([0, 0, 1, 2, 3, 4, 8, 1 << 31])), bind(call, "renameat2", AT_FDCWD, n, AT_FDCWD, o, g)),
    "linkat": lambda p, n, o, f, t, a: ((n, o, g := p([0, 0, 0x400, 0x1000, 1, 0x100])), bind(call, "linkat", AT_FDCWD, n, AT_FDCWD, o, g)),
    "linkat of a descriptor": lambda p, n, o, f, t, a: ((f, o, a, g := p([0x1000, 0x400])), bind(opened, f, a, lambda fd: call("linkat", fd, "", AT_FDCWD, o, g))),
    "mknodat": lambda p, n, o, f, t, a: ((n, m := p([0, 0o644, 0o100644, 0o107777, 0o010600, 0o140644, 0o040755, 0o120777, 0o170000, 0o050000, 0o110000])), bind(call, "mknodat", AT_FDCWD, n, m, 0)),
    "mkdirat": lambda p, n, o, f, t, a: ((n, m := p([0, 0o755, 0o7777, 0o1777, 0o2755, 0o170755])), bind(call, "mkdirat", AT_FDCWD, n, m)),
    "unlinkat": lambda p, n, o, f, t, a: ((n, g := p([0, 0, 0x200, 0x200, 1, 0x1000, 0x600])), bind(call, "unlinkat", AT_FDCWD, n, g)),
    "openat": lambda p, n, o, f, t, a: ((n, g := p([0, 1, 2, 3, 0o100, 0o300, 0o1001, 0o1002, 0o1000, 0o1003, 0o1101, 0o200000, 0o200100, 0o200002, 0o40001, 0o10000000, 0o12000001, 0o400000 | 2, 0o2000, 0o3002]), m := p([0, 0o644, 0o7777])), bind(lambda: close(call("openat", AT_FDCWD, n, g | 0o4000, m)))),
    "utimensat": lambda p, n, o, f, t, a: ((n, ts := [(p([0, 1, -1, 1 << 33, -(1 << 40), 1 << 62]), p([0, 999999999, 10**9, -1, (1 << 30) - 1, (1 << 30) - 2])) for _ in "am"], g := p([0, 0x100, 0x1000, 1])), bind(call, "utimensat", AT_FDCWD, n, timespecs(*ts), g)),
    "futimens": lambda p, n, o, f, t, a: ((f, a, ts := [(p([0, 5]), p([0, 10**9, (1 << 30) - 1, (1 << 30) - 2])) for _ in "am"]), bind(opened, f, a, lambda fd: call("utimensat", fd, None, timespecs(*ts), 0))),
    "statx": lambda p, n, o, f, t, a: ((n, g := p([0, 0x100, 0x800, 0x1000, 0x2000, 0x4000, 0x6000, 1, 0x1100]), m := p([0, 1, 0x7ff, 0x80000000, 0xfff, 0x40])), bind(statx, n, g, m)),
    "fchmodat2": lambda p, n, o, f, t, a: ((n, m := p([0, 0o777, 0o7777, 0o170644, -1, 0o4711]), g := p([0, 0x100, 0x1000, 1])), bind(call, "fchmodat2", AT_FDCWD, n, m, g)),
    "fchmod of O_PATH": lambda p, n, o, f, t, a: ((f, a, m := p([0o600, 0o7777])), bind(opened, f, a, lambda fd: call("fchmodat2", fd, "", m, 0x1000))),
    "fchownat": lambda p, n, o, f, t, a: ((n, u := p([-1, 0, 7, 1 << 31]), w := p([-1, 0, 8]), g := p([0, 0x100, 0x1000, 1])), bind(call, "fchownat", AT_FDCWD, n, u & 0xffffffff, w & 0xffffffff, g)),
    "faccessat2": lambda p, n, o, f, t, a: ((n, m := p([0, 1, 2, 4, 7, 8, -1]), g := p([0, 0x100, 0x200, 0x1000, 1])), bind(call, "faccessat2", AT_FDCWD, n, m & 0xffffffff, g)),
    "readahead": lambda p, n, o, f, t, a: ((f, a, at := p(BIG), s := p(SMALL[:6])), bind(opened, f, a, lambda fd: call("readahead", fd, at, s))),
    "fadvise64": lambda p, n, o, f, t, a: ((f, a, at := p(BIG), s := p(BIG), v := p([0, 1, 2, 3, 4, 5, 6, 99])), bind(opened, f, a, lambda fd: call("fadvise64", fd, at, s, v))),
    "sync_file_range": lambda p, n, o, f, t, a: ((f, a, at := p(BIG), s := p(BIG), g := p([0, 1, 2, 4, 7, 8])), bind(opened, f, a, lambda fd: call("sync_file_range", fd, at, s, g))),
    "fsync": lambda p, n, o, f, t, a: ((f, a), bind(opened, f, a, show)),
    "readlinkat": lambda p, n, o, f, t, a: ((n, s := p([0, 1, 100, -1])), bind(call, "readlinkat", AT_FDCWD, n, ctypes.create_string_buffer(128), s)),
    "getdents64": lambda p, n, o, f, t, a: ((f, s := p([0, 1, 23, 4096])), bind(opened, f, os.O_RDONLY, lambda fd: short(call("getdents64", fd, ctypes.create_string_buffer(4096), s)))),
    "flock": lambda p, n, o, f, t, a: ((f, a, g := p([1, 2, 4, 5, 6, 8, 0, 99])), bind(opened, f, a, lambda fd: call("flock", fd, g))),
    "openat2": lambda p, n, o, f, t, a: ((n, h := (p([0, 1, 2, 0o100, 0o200000, 1 << 40]), p([0, 0o644, 0o10000]), p([0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x18]))), bind(lambda: close(call("openat2", AT_FDCWD, n, (ctypes.c_ulonglong * 3)(h[0] | 0o4000, h[1], h[2]), 24)))),
}


def close(got):
    if isinstance(got, int):
        os.close(got)
        return "opened"
    return got


def short(got):
    # How much fits depends on the file system's own order.
    return "some" if isinstance(got, int) and got else got


def decided(kind, words, native, home):
    """Why docs/semantics/home.md has a home differ here; nothing where it does not."""
    if kind == "renameat2" and words[2] == 4:
        return "RENAME_WHITEOUT makes a device node"
    if words[0] in ("d",) and kind in ("lseek", "getdents64"):
        return "positions in a directory are the store's own, and the kernel keeps listings"
    if kind == "fallocate" and home == "ENOTSUP":
        return "the kernel hands no shifting to FUSE"
    if kind in ("preadv2", "pwritev2") and words[4] & 0x88 and home[0] in ("ENOTSUP", "EOPNOTSUPP"):
        return "RWF_NOWAIT and RWF_DONTCACHE are not for FUSE"
    if any(isinstance(one, int) and one >= 1 << 44 for word in words for one in (word if isinstance(word, tuple) else (word,))):
        return "where a file ends at the latest is known to the store only"
    if kind in ("pread", "pwrite", "preadv2", "pwritev2") and words[1] & os.O_DIRECT and words[0] == "big":
        return "a file that is kept block by block is not read past the daemon"
    if os.environ.get("SERVED") and kind in ("pread", "pwrite", "preadv2", "pwritev2") and words[1] & os.O_DIRECT:
        return "without passthrough O_DIRECT is served by the daemon"
    if os.environ.get("SERVED") and kind in ("truncate", "ftruncate") and words[-1] in (0, 100, 300, 10000):
        return "without passthrough the kernel leaves the time of a file that is cut to its own length"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("native")
    parser.add_argument("home")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--all", action="store_true")
    args = parser.parse_args()
    os.umask(0o022)
    places = [os.path.realpath(args.native), os.path.realpath(args.home)]
    found = collections.OrderedDict()
    for number in range(args.count):
        outcomes = []
        for place in places:
            rng = random.Random(args.seed * 1_000_003 + number)
            kind, words, act = generate(rng)
            case = os.path.join(place, f"case-{args.seed}-{number}")
            fixture(case)
            got = act()
            os.chdir(case)
            outcomes.append((got, left()))
            os.chdir("/")
            shutil.rmtree(case)
        (native, before), (home, after) = outcomes
        if native == home and before == after:
            continue
        differs = {path: (before.get(path), after.get(path)) for path in {*before, *after} if before.get(path) != after.get(path)}
        if decided(kind, words, native, home) and not args.all:
            continue
        key = (kind, str(native)[:40], str(home)[:40], bool(differs))
        found.setdefault(key, []).append((number, words, differs))
    for (kind, native, home, _), cases in found.items():
        number, words, differs = cases[0]
        print(f"{kind}: {len(cases)} times, first case {number}: {words}\n    natively {native}\n    in a home {home}")
        for path, (one, other) in sorted(differs.items())[:3]:
            print(f"    {path}: {one}\n    {' ' * len(path)}  {other}")
    print(f"{args.count} calls of {len(KINDS)} kinds, seed {args.seed}: {sum(map(len, found.values()))} differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
