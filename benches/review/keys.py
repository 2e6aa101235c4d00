#!/usr/bin/env python3
"""Measures how long the screen of `trumanfs review` takes to show its first list, and to answer a key.

Makes stores in which 2,000 and 50,000 paths were changed in a mounted home, in directories of 100 (a quarter new, a half
written to, a quarter removed). Opens the screen at pseudo-terminals of three sizes, and presses each key several times:
the time is that from the key until the terminal gets the first of the new frame, which is written in one go. See
../README.md.

Everything happens in a mount and a pid namespace of our own, as in ../past/past.py.
"""

import argparse
import fcntl
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "past"))
from past import Failure, Home, leave_other_homes, progress, put  # noqa: E402

INSIDE = "TRUMANFS_BENCH_INSIDE"
LIMIT = 60      # seconds for anything to be shown
QUIET = 0.25    # seconds without output: the screen is done
FOLDER = 100
TEXT = b"".join(b"line %d\n" % number for number in range(40))
SIZES = ((24, 80), (40, 120), (50, 200))
# Each with its name, and the keys that are pressed before and after it and not measured.
KEYS = (("down", b"j", b"", b""), ("to the end", b"G", b"", b"g"), ("unfold a directory", b"\r", b"", b"\r"),
        ("unfold all", b"z", b"", b"z"), ("mark a directory", b"m", b"", b"M"), ("group by run", b"b", b"", b"bbb"),
        ("search", b"\r", b"/99\x7f9", b"g"), ("ask about a directory", b"r", b"", b"n"))


def place_of(base, number):
    return f"{base}/src/dir-{number // FOLDER:04}/file-{number:06}"


def prepare(store, paths):
    for number in range(paths):
        if number % FOLDER == 0:
            os.makedirs(os.path.dirname(place_of(store, number)))
        if number % 4:
            put(place_of(store, number), TEXT)


def change(home, paths):
    for number in range(paths):
        if number % 4 == 3:
            os.unlink(place_of(home, number))
        else:
            put(place_of(home, number), TEXT + b"one more\n")


class Screen:
    """The screen at a terminal of a size."""

    def __init__(self, program, target, size):
        self.start = time.monotonic()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            os.environ["TERM"] = "xterm-256color"
            os.execv(program, [program, "review", str(target)])
        self.shown = b""

    def wait(self, text):
        while text not in self.shown:
            left = LIMIT - (time.monotonic() - self.start)
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                raise Failure(f"{text!r} was not shown: {self.shown[-400:]!r}")
            self.shown += os.read(self.terminal, 65536)
        return time.monotonic() - self.start

    def calm(self):
        while select.select([self.terminal], [], [], QUIET)[0]:
            os.read(self.terminal, 65536)

    def types(self, keys):
        for key in keys:
            os.write(self.terminal, bytes([key]))
            self.calm()

    def answer(self, key):
        """Presses a key; returns the seconds until something is shown."""
        began = time.monotonic()
        os.write(self.terminal, key)
        if not select.select([self.terminal], [], [], LIMIT)[0]:
            raise Failure(f"{key!r} shows nothing")
        took = time.monotonic() - began
        self.calm()
        return took

    def end(self):
        os.write(self.terminal, b"q")
        try:
            while os.read(self.terminal, 65536):
                pass
        except OSError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


def look(options, target, paths, size):
    lists, keys = [], {name: [] for name, *_ in KEYS}
    for _ in range(options.rounds):
        screen = Screen(options.program, target, size)
        lists.append(screen.wait(b"%d paths" % paths))
        time.sleep(0.5)
        screen.calm()
        for name, key, before, after in KEYS:
            screen.types(before)
            keys[name].append(screen.answer(key))
            if name == "ask about a directory":
                time.sleep(0.4)     # until the question takes an answer
                screen.calm()
            screen.types(after)
        screen.end()
    return lists, keys


def middle(times):
    return sorted(times)[len(times) // 2]


def measure(options, base):
    rows = []
    for paths in options.paths:
        home = Home(options.program, base / str(paths))
        try:
            progress(f"changing {paths:,} paths")
            prepare(home.store, paths)
            home.mount()
            change(str(home.home), paths)
            for size in SIZES:
                progress(f"{paths:,} paths at {size[1]}x{size[0]}")
                rows.append((paths, size, *look(options, home.home, paths, size)))
        finally:
            home.unmount()
            progress("")
    names = [name for name, *_ in KEYS]
    print(f"| paths | size | list | {' | '.join(names)} |")
    print(f"| ---: | --- | ---: | {' | '.join('---:' for _ in names)} |")
    for paths, size, lists, keys in rows:
        times = " | ".join(f"{middle(keys[name]) * 1000:.1f} ms" for name in names)
        print(f"| {paths:,} | {size[1]}x{size[0]} | {middle(lists):.2f} s | {times} |")


def main():
    parser = argparse.ArgumentParser(description="Measure the first list and the keys of the screen of a review.")
    parser.add_argument("--trumanfs", metavar="PATH", default=str(HERE.parent.parent / "target" / "release" / "trumanfs"))
    parser.add_argument("--paths", metavar="N", type=int, nargs="+", default=[2_000, 50_000])
    parser.add_argument("--rounds", metavar="N", type=int, default=5)
    parser.add_argument("--base", metavar="DIR", help="make the stores below this directory")
    options = parser.parse_args()
    options.program = str(Path(options.trumanfs).resolve())
    if os.environ.get(INSIDE) != "1":
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
                   sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
        os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})
    leave_other_homes()
    place = Path(tempfile.mkdtemp(prefix="trumanfs-review-", dir=options.base))
    try:
        measure(options, place)
    except (Failure, subprocess.SubprocessError) as error:
        print(f"review: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
