#!/usr/bin/env python3
"""Measures how long the screen of `trumanfs review` takes to show its first list, and the memory that it has needed.

Makes a store in which 100,000 paths were changed in a mounted home: a quarter of them new, a half of them written to, a
quarter removed. Then opens the screen at a pseudo-terminal, mounted and not. See ../README.md.

Everything happens in a mount and a pid namespace of our own, as in ../past/past.py.
"""

import argparse
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "past"))
from past import FOLDER, Failure, Home, leave_other_homes, memory_of, progress, put  # noqa: E402

INSIDE = "TRUMANFS_BENCH_INSIDE"
LIMIT = 120     # seconds for anything to be shown
TEXT = b"".join(b"line %d\n" % number for number in range(40))


def prepare(store, paths):
    for file in range(paths):
        folder = f"{store}/{file // FOLDER:05}"
        if file % FOLDER == 0:
            os.mkdir(folder)
        if file % 4:
            put(f"{folder}/{file:07}", TEXT)


def change(home, paths):
    for file in range(paths):
        path = f"{home}/{file // FOLDER:05}/{file:07}"
        if file % 4 == 3:
            os.unlink(path)
        else:
            put(path, TEXT + b"one more\n")


class Screen:
    """The screen at a terminal."""

    def __init__(self, program, target):
        self.start = time.monotonic()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm-256color"
            os.execv(program, [program, "review", str(target)])
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
        self.shown = b""

    def wait(self, text):
        """Waits for a text; returns the seconds since the program began."""
        while text not in self.shown:
            left = LIMIT - (time.monotonic() - self.start)
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                raise Failure(f"{text!r} was not shown: {self.shown[-400:]!r}")
            self.shown += os.read(self.terminal, 65536)
        return time.monotonic() - self.start

    def types(self, text):
        os.write(self.terminal, text)

    def spent(self):
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.types(b"q")
        while True:
            try:
                if not os.read(self.terminal, 65536):
                    break
            except OSError:
                break
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


def look(options, home, target):
    """Opens the screen; returns until when the list was there, and a difference, and the memory after some work with it."""
    screen = Screen(options.program, target)
    try:
        # ratatui writes only what changes, so this stands there in one piece.
        listed = screen.wait(b"%d paths" % options.paths)
        shown = screen.wait(b"last changed")
        spent = screen.spent()
        # By run, by program, by time, by path; to the end.
        screen.types(b"bbbbG")
        time.sleep(2)
        memory = memory_of(screen.pid)
        idle = screen.spent()
        time.sleep(5)
        idle = (screen.spent() - idle) / 5
        if home.daemon:
            # Somebody works: the list is read anew.
            end = time.monotonic() + 15
            busy, began = screen.spent(), time.monotonic()
            while time.monotonic() < end:
                put(f"{home.home}/00000/working", b"x")
                time.sleep(0.05)
            busy = (screen.spent() - busy) / (time.monotonic() - began)
            os.unlink(f"{home.home}/00000/working")
            memory = max(memory, memory_of(screen.pid))
        else:
            busy = None
    finally:
        screen.end()
    return listed, shown, spent, memory, idle, busy


def measure(options, base):
    home = Home(options.program, base / "review")
    rows = []
    try:
        progress(f"changing {options.paths:,} paths")
        prepare(home.store, options.paths)
        home.mount()
        change(str(home.home), options.paths)
        for name in ("mounted", "not mounted"):
            if name == "not mounted":
                home.unmount()
            for _ in range(options.rounds):
                progress(f"looking ({name})")
                rows.append((name, look(options, home, home.home if home.daemon else home.store)))
    finally:
        home.unmount()
        progress("")
    print(f"{options.paths:,} changed paths")
    print()
    print("| store | list | first difference | processor | memory | idle | while somebody works |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, (listed, shown, spent, memory, idle, busy) in rows:
        busy = "" if busy is None else f"{busy:.1%}"
        print(f"| {name} | {listed:.2f} s | {shown:.2f} s | {spent:.2f} s | {memory:.0f} MB | {idle:.1%} | {busy} |")


def main():
    parser = argparse.ArgumentParser(description="Measure the screen of a review.")
    parser.add_argument("--trumanfs", metavar="PATH", default=str(HERE.parent.parent / "target" / "release" / "trumanfs"))
    parser.add_argument("--paths", metavar="N", type=int, default=100_000)
    parser.add_argument("--rounds", metavar="N", type=int, default=3)
    parser.add_argument("--base", metavar="DIR", help="make the store below this directory")
    options = parser.parse_args()
    options.program = str(Path(options.trumanfs).resolve())
    if os.environ.get(INSIDE) != "1":
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
                   sys.executable, str(Path(__file__).resolve()), *sys.argv[1:]]
        os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})
    leave_other_homes()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
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
