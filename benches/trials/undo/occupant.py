"""A destructive occupant: does random things to the directory it is started in, as one process. SEED and COUNT are its arguments.

Whatever it tries may fail; that is an occupant's lot. It never leaves the directory. `storms.py` looks whether an
undo makes the directory what it was."""

import ctypes
import os
import random
import shutil
import socket
import stat
import sys

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_EXCHANGE = -100, 2
PUNCH, ZERO, COLLAPSE = 3, 16, 8


def without_waiting(path, flags):
    """Opens a path; a FIFO whose other end nobody has is an error and no wait."""
    return os.open(path, flags | os.O_NONBLOCK)


def paths():
    """All paths below here, those that cannot be read left out."""
    found = []
    for top, dirs, files in os.walk("."):
        found += [os.path.join(top, name) for name in dirs + files]
    return sorted(found)


def main():
    draw = random.Random(int(sys.argv[1]))
    count = int(sys.argv[2])
    root = os.geteuid() == 0

    def old(kind=None):
        """A path that is there, of a kind if there is one."""
        there = paths()
        if kind:
            there = [path for path in there if kind(os.lstat(path).st_mode)] or there
        return draw.choice(there) if there else "nothing"

    def new():
        """A path where something may come to be; it may be taken."""
        dirs = ["."] + [path for path in paths() if os.path.isdir(path) and not os.path.islink(path)]
        names = ["a", "b", "f0", "f1", "up", "x" * 255, "\xe4\n", "-rf", " ", "n%d" % draw.randrange(50)]
        return os.path.join(draw.choice(dirs), draw.choice(names))

    def write():
        with open(old(stat.S_ISREG), draw.choice(["wb", "ab", "r+b"]), opener=without_waiting) as file:
            file.seek(draw.choice([0, 1, 5000, 70000]))
            file.write(b"evil" * draw.choice([1, 3000]))

    def replace():
        temporary = new()
        with open(temporary, "wb", opener=without_waiting) as file:
            file.write(b"replaced")
        os.replace(temporary, old(stat.S_ISREG))

    def swap():
        libc.renameat2(AT_FDCWD, os.fsencode(old()), AT_FDCWD, os.fsencode(old()), RENAME_EXCHANGE)

    def punch():
        fd = without_waiting(old(stat.S_ISREG), os.O_RDWR)
        try:
            how = draw.choice([PUNCH, ZERO, COLLAPSE])
            libc.fallocate(fd, how, ctypes.c_long(4096 * draw.randrange(4)), ctypes.c_long(4096))
        finally:
            os.close(fd)

    def deep():
        here = os.open(draw.choice(["."] + [p for p in paths() if os.path.isdir(p)]), os.O_RDONLY)
        try:
            for _ in range(draw.choice([3, 45])):
                os.mkdir("d" * 150, dir_fd=here)
                inner = os.open("d" * 150, os.O_RDONLY, dir_fd=here)
                os.close(here)
                here = inner
            os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        finally:
            os.close(here)

    def bind():
        name = new()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)

    def turn():
        """A directory where a file was, or the other way round."""
        path = old()
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
            open(path, "w", opener=without_waiting).close()
        else:
            os.unlink(path)
            os.mkdir(path)

    def cycle():
        one, two, three = old(), old(), new()
        os.rename(one, three)
        os.rename(two, one)
        os.rename(three, two)

    def owner():
        ids = draw.choice([0, 1, 12345]) if root else -1
        os.chown(old(), ids, ids, follow_symlinks=False)

    def label():
        path = old(stat.S_ISREG)
        for n in range(draw.choice([1, 30])):
            os.setxattr(path, "user.n%d" % n, b"v" * draw.choice([1, 300]))

    def many():
        path = new()
        os.mkdir(path)
        for n in range(300):
            open(os.path.join(path, "many%d" % n), "w").close()

    acts = [
        write, write, write, replace, replace, swap, punch, deep, bind, turn, cycle, owner, label, many,
        lambda: os.rename(old(), new()),
        lambda: os.rename(old(), new()),
        lambda: os.rename(old(stat.S_ISDIR), new()),
        lambda: os.rename(old(stat.S_ISLNK), new()),
        lambda: os.replace(old(), old()),
        lambda: os.unlink(old(stat.S_ISREG)),
        lambda: os.unlink(old(stat.S_ISLNK)),
        lambda: shutil.rmtree(old(stat.S_ISDIR)),
        lambda: os.link(old(stat.S_ISREG), new()),
        lambda: os.symlink(draw.choice(["f0", "../f1", "../../f2", "gone", "."]), new()),
        lambda: os.truncate(old(stat.S_ISREG), draw.choice([0, 3, 100000])),
        lambda: os.chmod(old(), draw.choice([0, 0o400, 0o777, 0o4755, 0o2711, 0o1777])),
        lambda: os.utime(old(), ns=(1, draw.randrange(10**18)), follow_symlinks=False),
        lambda: os.mkfifo(new()),
        lambda: os.mkdir(new(), draw.choice([0o755, 0o500, 0])),
    ]
    for _ in range(count):
        try:
            draw.choice(acts)()
        except OSError:
            pass


main()
