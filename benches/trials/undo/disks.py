"""The file systems that stores lie on: images on loop devices below a directory, mounted in a namespace of their own."""

import os
import subprocess
import tempfile

KINDS = ["ext4", "xfs", "btrfs", "tmpfs"]
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-I", "256", "-E", "lazy_itable_init=1"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}


def call(*words):
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(words)}: {done.stderr.decode().strip()}")


def let_go_of_others():
    """Takes homes and images that were mounted outside out of this mount namespace, where their ends would not be seen: a daemon
    lives as long as any copy of its mount."""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        lines = [line.split() for line in mounts]
    for words in reversed(lines):
        kind, source = words[words.index("-") + 1 : words.index("-") + 3]
        if kind.startswith("fuse") or source.startswith("/dev/loop"):
            at = words[4].encode().decode("unicode_escape").encode("latin-1")
            if os.fsencode(tempfile.gettempdir()).startswith(at + b"/"):
                continue  # The trial's own files lie there.
            subprocess.run(["umount", "-l", at], check=False, stderr=subprocess.DEVNULL)


class Disk:
    """One file system, made when a store on it is first asked for."""

    def __init__(self, kind, base):
        self.kind = kind
        self.at = os.path.join(base, kind)
        self.image = self.at + ".img"
        self.mounted = False

    def store(self, name):
        if not self.mounted:
            os.makedirs(self.at, exist_ok=True)
            if self.kind == "tmpfs":
                call("mount", "-t", "tmpfs", "-o", "size=1G,mode=755", "none", self.at)
            else:
                with open(self.image, "wb") as image:
                    image.truncate(1 << 30)
                call(*MAKE[self.kind], self.image)
                call("mount", "-o", "loop", self.image, self.at)
            self.mounted = True
        path = os.path.join(self.at, name)
        os.mkdir(path)
        return path

    def unmount(self):
        if self.mounted:
            call("umount", self.at)
            self.mounted = False
        if os.path.exists(self.image):
            os.unlink(self.image)

    def keep(self, store, kept):
        """Keeps a store that differs. On an image it goes with its file system, since records name inodes."""
        os.makedirs(kept, exist_ok=True)
        if self.kind == "tmpfs":
            # Other programs fail at a path that is too long.
            call("tar", "-C", store, "-S", "--xattrs", "-cf", os.path.join(kept, "store.tar"), ".")
            return
        call("umount", self.at)
        self.mounted = False
        call("cp", "--sparse=always", self.image, os.path.join(kept, self.kind + ".img"))
        os.unlink(self.image)
