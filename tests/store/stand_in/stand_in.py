#!/usr/bin/python3
"""A file system in user space that shows a directory as some really existing ones would.

stand_in.py DIR AT OPTION…   with the options
    fold       names that differ in case only are one name
    normalize  names that differ in the form of their letters only (NFC, NFD) are one name
    renumber   inode numbers do not outlast a mount
Times of birth are never told: the protocol of libfuse 3 has none. Ends when AT is unmounted.
"""
import errno
import os
import stat
import sys
import unicodedata

import ctypes
import pyfuse3
import trio

LIBC = ctypes.CDLL(None, use_errno=True)


def call(act, *args, **named):
    try:
        return act(*args, **named)
    except OSError as error:
        raise pyfuse3.FUSEError(error.errno)



class StandIn(pyfuse3.Operations):
    def __init__(self, top, options):
        super().__init__()
        self.foldings = []
        if "fold" in options:
            self.foldings.append(str.casefold)
        if "normalize" in options:
            self.foldings.append(lambda name: unicodedata.normalize("NFD", name))
        self.start = os.getpid() * 1000 if "renumber" in options else 0
        self.paths = {pyfuse3.ROOT_INODE: [os.fsencode(top)]}
        self.numbers = {}
        self.opened = {}

    def folded(self, name):
        name = os.fsdecode(name)
        for fold in self.foldings:
            name = fold(name)
        return name

    def below(self, parent, name):
        path = os.path.join(self.paths[parent][0], name)
        if self.foldings and not os.path.lexists(path):
            for other in call(os.listdir, self.paths[parent][0]):
                if self.folded(other) == self.folded(name):
                    return os.path.join(self.paths[parent][0], other)
        return path

    def shown(self, path, number=None):
        found = call(os.lstat, path)
        if number is None:
            number = self.numbers.setdefault((found.st_dev, found.st_ino), self.start + len(self.numbers) + 2)
            known = self.paths.setdefault(number, [])
            if path in known:
                known.remove(path)
            known.insert(0, path)
        return self.attributes(found, number)

    def attributes(self, found, number):
        entry = pyfuse3.EntryAttributes()
        for name in ("st_mode", "st_nlink", "st_uid", "st_gid", "st_rdev", "st_size",
                     "st_atime_ns", "st_mtime_ns", "st_ctime_ns", "st_blksize", "st_blocks"):
            setattr(entry, name, getattr(found, name))
        entry.st_ino = number
        entry.entry_timeout = entry.attr_timeout = 0
        return entry

    def moved(self, old, new):
        for known in self.paths.values():
            for at, path in enumerate(known):
                if path == old or path.startswith(old + b"/"):
                    known[at] = new + path[len(old):]

    def give(self, path, ctx):
        """What is new belongs to who made it."""
        if os.geteuid() == 0:
            call(os.lchown, path, ctx.uid, ctx.gid)

    async def lookup(self, parent, name, ctx=None):
        return self.shown(self.below(parent, name))

    async def getattr(self, number, ctx=None):
        for fh, (n, _) in self.opened.items():
            if n == number:
                return self.attributes(call(os.fstat, fh), number)
        return self.shown(self.paths[number][0], number)

    async def setattr(self, number, attr, fields, fh, ctx):
        path = self.paths[number][0]
        if fields.update_mode:
            call(os.chmod, path, stat.S_IMODE(attr.st_mode))
        if fields.update_uid or fields.update_gid:
            uid = attr.st_uid if fields.update_uid else -1
            gid = attr.st_gid if fields.update_gid else -1
            call(os.chown, path, uid, gid, follow_symlinks=False)
        if fields.update_size:
            call(os.truncate, path if fh is None else fh, attr.st_size)
        if fields.update_atime or fields.update_mtime:
            was = call(os.lstat, path)
            atime = attr.st_atime_ns if fields.update_atime else was.st_atime_ns
            mtime = attr.st_mtime_ns if fields.update_mtime else was.st_mtime_ns
            call(os.utime, path, ns=(atime, mtime), follow_symlinks=False)
        return await self.getattr(number, ctx)

    async def mknod(self, parent, name, mode, rdev, ctx):
        path = self.below(parent, name)
        call(os.mknod, path, mode=mode & ~ctx.umask, device=rdev)
        self.give(path, ctx)
        return self.shown(path)

    async def mkdir(self, parent, name, mode, ctx):
        path = self.below(parent, name)
        call(os.mkdir, path, mode & ~ctx.umask)
        self.give(path, ctx)
        return self.shown(path)

    async def unlink(self, parent, name, ctx):
        call(os.unlink, self.below(parent, name))

    async def rmdir(self, parent, name, ctx):
        call(os.rmdir, self.below(parent, name))

    async def rename(self, parent, name, new_parent, new_name, flags, ctx):
        old, new = self.below(parent, name), self.below(new_parent, new_name)
        if LIBC.renameat2(-100, old, -100, new, flags):
            raise pyfuse3.FUSEError(ctypes.get_errno())
        aside = b"\0"
        if flags & 2:
            self.moved(new, aside)
        self.moved(old, new)
        if flags & 2:
            self.moved(aside, old)

    async def link(self, number, parent, name, ctx):
        path = self.below(parent, name)
        call(os.link, self.paths[number][0], path)
        return self.shown(path)

    async def open(self, number, flags, ctx):
        fh = call(os.open, self.paths[number][0], flags & ~os.O_CREAT)
        self.opened[fh] = (number, flags)
        return pyfuse3.FileInfo(fh=fh)

    async def create(self, parent, name, mode, flags, ctx):
        path = self.below(parent, name)
        fh = call(os.open, path, flags | os.O_CREAT, mode & ~ctx.umask)
        self.give(path, ctx)
        entry = self.shown(path)
        self.opened[fh] = (entry.st_ino, flags)
        return pyfuse3.FileInfo(fh=fh), entry

    async def read(self, fh, offset, size):
        return call(os.pread, fh, size, offset)

    async def write(self, fh, offset, data):
        if self.opened[fh][1] & os.O_APPEND:
            return call(os.write, fh, data)
        return call(os.pwrite, fh, data, offset)

    async def release(self, fh):
        self.opened.pop(fh, None)
        os.close(fh)

    async def flush(self, fh):
        pass

    async def fsync(self, fh, datasync):
        call(os.fsync, fh)

    async def fsyncdir(self, fh, datasync):
        pass

    async def opendir(self, number, ctx):
        return number

    async def readdir(self, number, offset, token):
        names = sorted(call(os.listdir, self.paths[number][0]))
        for at, name in enumerate(names[offset:], offset + 1):
            try:
                entry = self.shown(os.path.join(self.paths[number][0], name))
            except pyfuse3.FUSEError:
                continue
            if not pyfuse3.readdir_reply(token, name, entry, at):
                return

    async def statfs(self, ctx):
        found, shown = os.statvfs(self.paths[pyfuse3.ROOT_INODE][0]), pyfuse3.StatvfsData()
        for name in ("f_bsize", "f_frsize", "f_blocks", "f_bfree", "f_bavail", "f_files", "f_ffree", "f_favail"):
            setattr(shown, name, getattr(found, name))
        return shown


if __name__ == "__main__":
    top, at, *options = sys.argv[1:]
    named = set(pyfuse3.default_options) | {"fsname=standin", "default_permissions", "allow_other"}
    pyfuse3.init(StandIn(top, options), at, named)
    print("ready", flush=True)
    trio.run(pyfuse3.main)
    pyfuse3.close()
