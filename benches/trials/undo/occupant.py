"""A destructive occupant: makes random calls of the operations in docs/semantics/home.md, as one process, in its directory.

Whatever it tries may fail; that is an occupant's lot. It never leaves the directory. `storms.py` runs three at once and
checks that an undo makes the directory what it was."""

import ctypes
import errno
import fcntl
import mmap
import os
import random
import shutil
import socket
import stat

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_NOREPLACE, RENAME_EXCHANGE = -100, 1, 2
KEEP_SIZE, PUNCH, COLLAPSE, ZERO, INSERT = 1, 2, 8, 16, 32
MODES = [0, 0o200, 0o400, 0o600, 0o602, 0o644, 0o711, 0o777, 0o4755, 0o2711, 0o1777]
OFFSETS = [0, 1, 3, 4095, 5000, 65536, 70000, 300000, 1 << 20]
SIZES = [1, 12, 4096, 5000, 70000, 200000]
GONE = (errno.ENOTCONN, errno.ECONNABORTED)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "call")


def renameat2(old, new, flags):
    check(libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags))


def fallocate(fd, mode, offset, length):
    check(libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)))


def open_without_waiting(path, flags):
    """Opens a path; a FIFO whose other end nobody has is an error and no wait."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW, 0o644)


class Occupant:
    """What one process tries. `seed` decides each choice of its own; what it finds depends on the others."""

    def __init__(self, seed, leave_out=()):
        self.draw = random.Random(seed)
        self.leave_out = leave_out
        self.root = os.geteuid() == 0
        self.seen, self.age = [], 0
        self.descriptors, self.maps = [], []
        self.acts = self.table()

    # Paths

    def paths(self):
        """Up to 500 paths below here, those that cannot be read left out; a list may be a few calls old."""
        if self.age == 0:
            self.seen = []
            for top, dirs, files in os.walk("."):
                self.seen += [os.path.join(top, name) for name in sorted(dirs + files)[:80]]
                dirs.sort()
                if len(self.seen) > 500:
                    break
            self.age = 4
        self.age -= 1
        return self.seen

    def old(self, kind=None):
        """A path that is there, of a kind if there is one."""
        there = self.paths()
        if kind:
            there = [path for path in there if self.is_kind(path, kind)] or there
        return self.draw.choice(there) if there else "nothing"

    @staticmethod
    def is_kind(path, kind):
        try:
            return kind(os.lstat(path).st_mode)
        except OSError:
            return False

    def file(self):
        return self.old(stat.S_ISREG)

    def directory(self):
        return self.draw.choice([".", self.old(stat.S_ISDIR), self.old(stat.S_ISDIR)])

    def new(self):
        """A path where something may come to be; it may be taken."""
        names = ["a", "b", "f0", "f1", "up", "x" * 255, "\xe4\n", "-rf", " ", "n%d" % self.draw.randrange(50)]
        return os.path.join(self.directory(), self.draw.choice(names))

    def removed(self):
        """A path in the trash, or below an entry of it."""
        path = os.path.join(".trash", self.draw.choice(sorted(os.listdir(".trash"))))
        if self.draw.random() < 0.3 and os.path.isdir(path):
            path = os.path.join(path, self.draw.choice(sorted(os.listdir(path))))
        return path

    # Open files

    def opened(self, flags):
        """A descriptor of a file, which stays open for a while or until the end of the act."""
        fd = open_without_waiting(self.file(), flags)
        self.descriptors.append(fd)
        if len(self.descriptors) > 6:
            os.close(self.descriptors.pop(0))
        return fd

    def held(self):
        """A descriptor that an earlier act left open, or a new one."""
        if self.descriptors and self.draw.random() < 0.7:
            return self.draw.choice(self.descriptors)
        return self.opened(self.draw.choice([os.O_RDWR, os.O_WRONLY, os.O_WRONLY | os.O_APPEND]))

    def done(self, fd):
        if self.draw.random() < 0.6 and fd in self.descriptors:
            self.descriptors.remove(fd)
            os.close(fd)

    def evil(self):
        return b"evil" * (self.draw.choice(SIZES) // 4 + 1)

    # Acts

    def write(self):
        flags = self.draw.choice([os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_TRUNC])
        fd = self.opened(flags)
        os.pwrite(fd, self.evil(), self.draw.choice(OFFSETS))
        self.done(fd)

    def write_held(self):
        fd = self.held()
        os.pwrite(fd, self.evil(), self.draw.choice(OFFSETS))
        if self.draw.random() < 0.3:
            os.fsync(fd)
        self.done(fd)

    def write_direct(self):
        fd = self.opened(os.O_RDWR | os.O_DIRECT)
        with mmap.mmap(-1, 8192) as page:
            page.write(b"direct.." * 1024)
            os.pwritev(fd, [page], 4096 * self.draw.randrange(20))
        self.done(fd)

    def append(self):
        fd = self.opened(os.O_WRONLY | os.O_APPEND)
        for _ in range(self.draw.choice([1, 3])):
            os.write(fd, self.evil())
        self.done(fd)

    def append_cleared(self):
        """Clears O_APPEND and writes over what is there."""
        fd = self.opened(os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"appended")
        fcntl.fcntl(fd, fcntl.F_SETFL, 0)
        where, text = self.draw.choice(OFFSETS), self.evil()
        if "append-cleared" not in self.leave_out:
            os.pwrite(fd, text, where)
        self.done(fd)

    def empty(self):
        fd = open_without_waiting(self.draw.choice([self.file(), self.new()]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(fd, "wb") as file:
            file.write(self.draw.choice([b"", b"anew", self.evil()]))

    def create(self):
        fd = os.open(self.new(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, self.readable(self.draw.choice(MODES)))
        os.write(fd, self.draw.choice([b"", b"made", self.evil()]))
        self.descriptors.append(fd)
        self.done(fd)

    def cut(self):
        size = self.draw.choice([0, 3, 4096, 100000, 1 << 20, 2500000])
        if self.draw.random() < 0.5:
            os.truncate(self.file(), size)
        else:
            fd = self.held()
            os.ftruncate(fd, size)
            self.done(fd)

    def allocate(self):
        fd = self.opened(self.draw.choice([os.O_RDWR, os.O_WRONLY]))
        mode = self.draw.choice([PUNCH | KEEP_SIZE, ZERO, ZERO | KEEP_SIZE, COLLAPSE, INSERT, 0, KEEP_SIZE])
        offset = self.draw.choice([0, 4096, 8192, 5000, 65536, 1 << 20])
        fallocate(fd, mode, offset, self.draw.choice([4096, 100, 65536]))
        self.done(fd)

    def map_shared(self):
        fd = self.opened(os.O_RDWR)
        size = min(os.fstat(fd).st_size, 1 << 21)
        if not size:
            return
        page = mmap.mmap(fd, size)
        where = self.draw.randrange(size)
        page[where : where + 5] = b"store"[: size - where]
        if self.draw.random() < 0.5:
            page.flush()
        # Half of the maps outlive their descriptors.
        if self.draw.random() < 0.5:
            self.maps.append(page)
        else:
            page.close()
        self.done(fd)

    def write_mapped(self):
        """Writes through a map that an earlier act left. Others may have cut the file, so the process may end here."""
        page = self.draw.choice(self.maps)
        if page.size() >= len(page):
            page[0:4] = b"late"

    def copy_range(self):
        source, target = open_without_waiting(self.file(), os.O_RDONLY), self.opened(os.O_RDWR)
        try:
            length = self.draw.choice([10, 4096, 100000])
            os.copy_file_range(source, target, length, self.draw.choice([0, 1, 4096]), self.draw.choice(OFFSETS))
        finally:
            os.close(source)
        self.done(target)

    def replace(self):
        temporary = self.new()
        with open(temporary, "wb", opener=open_without_waiting) as file:
            file.write(b"replaced")
        os.replace(temporary, self.file())

    def link_and_replace(self):
        """A link that something replaces at once."""
        name = self.new()
        os.link(self.file(), name)
        if self.draw.random() < 0.5:
            os.replace(self.file(), name)
        else:
            os.unlink(name)

    def swap(self):
        renameat2(self.old(), self.old(), RENAME_EXCHANGE)

    def swap_directories(self):
        renameat2(self.old(stat.S_ISDIR), self.old(stat.S_ISDIR), RENAME_EXCHANGE)

    def over_empty_directory(self):
        """A directory replaces an empty one in another directory."""
        target = os.path.join(self.directory(), "void%d" % self.draw.randrange(9))
        os.mkdir(target)
        os.rename(self.old(stat.S_ISDIR), target)

    def deep(self):
        here = os.open(self.directory(), os.O_RDONLY)
        try:
            for _ in range(self.draw.choice([3, 3, 3, 30])):
                os.mkdir("d" * 150, dir_fd=here)
                inner = os.open("d" * 150, os.O_RDONLY, dir_fd=here)
                os.close(here)
                here = inner
            os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        finally:
            os.close(here)

    def bind(self):
        name = self.new()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)

    def node(self):
        kind = self.draw.choice([stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFREG, stat.S_IFCHR])
        os.mknod(self.new(), kind | self.readable(self.draw.choice(MODES)), os.makedev(1, 3))

    def turn(self):
        """A directory where a file was, or the other way round."""
        path = self.old()
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
            open(path, "w", opener=open_without_waiting).close()
        else:
            os.unlink(path)
            os.mkdir(path)

    def cycle(self):
        one, two, three = self.old(), self.old(), self.new()
        os.rename(one, three)
        os.rename(two, one)
        os.rename(three, two)

    def readable(self, mode):
        return mode | 0o400 if "unreadable" in self.leave_out else mode

    def modes(self):
        mode = self.draw.choice(MODES)
        if self.draw.random() < 0.3:
            os.fchmod(self.held(), self.readable(mode))
        else:
            path = self.old()
            os.chmod(path, mode if self.is_kind(path, stat.S_ISDIR) else self.readable(mode))

    def owner(self):
        ids = self.draw.choice([0, 1, 12345]) if self.root else self.draw.choice([-1, os.geteuid()])
        os.chown(self.old(), ids, ids, follow_symlinks=False)

    def times(self):
        times = (1, self.draw.randrange(10**18))
        if self.draw.random() < 0.3:
            os.utime(self.held(), ns=times)
        else:
            os.utime(self.old(), ns=times, follow_symlinks=False)

    def label(self):
        path = self.draw.choice([self.file(), self.file(), self.old(stat.S_ISDIR)])
        if self.draw.random() < 0.3:
            for name in os.listxattr(path):
                os.removexattr(path, name)
        else:
            for n in range(self.draw.choice([1, 1, 30])):
                os.setxattr(path, "user.n%d" % n, b"v" * self.draw.choice([1, 50]))

    def many(self):
        path = self.new()
        os.mkdir(path)
        for n in range(40):
            open(os.path.join(path, "many%d" % n), "w").close()

    def take_back(self):
        os.rename(self.removed(), self.new())

    def take_back_over(self):
        os.rename(self.removed(), self.file())

    def look(self):
        path = self.old()
        os.access(path, os.W_OK)
        os.lstat(path)
        if self.is_kind(path, stat.S_ISREG):
            with open(path, "rb", opener=open_without_waiting) as file:
                file.read(100)
                os.lseek(file.fileno(), 0, os.SEEK_HOLE)
            with open(self.directory(), opener=lambda path, _: os.open(path, os.O_TMPFILE | os.O_RDWR)):
                pass

    def table(self):
        draw = self.draw
        return [
            self.write, self.write, self.write, self.write_held, self.write_held, self.write_direct, self.append,
            self.append, self.append_cleared, self.empty, self.empty, self.create, self.cut, self.cut, self.allocate,
            self.allocate, self.map_shared, self.map_shared, self.write_mapped, self.copy_range, self.replace,
            self.replace, self.link_and_replace, self.swap, self.swap_directories, self.over_empty_directory, self.deep,
            self.bind, self.node, self.turn, self.cycle, self.modes, self.modes, self.owner, self.times, self.times,
            self.label, self.many, self.take_back, self.take_back_over, self.look,
            lambda: os.rename(self.old(), self.new()),
            lambda: os.rename(self.old(), self.new()),
            lambda: os.rename(self.old(stat.S_ISDIR), self.new()),
            lambda: os.rename(self.old(stat.S_ISLNK), self.new()),
            lambda: os.replace(self.old(), self.old()),
            lambda: renameat2(self.old(), self.new(), RENAME_NOREPLACE),
            lambda: os.unlink(self.file()),
            lambda: os.unlink(self.file()),
            lambda: os.unlink(self.old(stat.S_ISLNK)),
            lambda: os.rmdir(self.old(stat.S_ISDIR)),
            lambda: shutil.rmtree(self.old(stat.S_ISDIR)),
            lambda: os.link(self.file(), self.new()),
            lambda: os.link(self.old(), self.new(), follow_symlinks=False),
            lambda: os.symlink(draw.choice(["f0", "../f1", "../../f2", "gone", "."]), self.new()),
            lambda: os.mkdir(self.new(), draw.choice([0o755, 0o755, 0o500, 0o300, 0])),
        ]

    def act(self):
        """Does one random thing. Returns false where the home is gone."""
        try:
            self.draw.choice(self.acts)()
        except OSError as error:
            return error.errno not in GONE
        except (IndexError, ValueError):
            pass
        return True
