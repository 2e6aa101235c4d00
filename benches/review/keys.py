#!/usr/bin/env python3
"""Measures how long the screen of `trumanfs review` takes to show its first frame, its list, and to answer a key.

Makes stores in which 2,000 and 50,000 paths were changed in a mounted home, in directories of 100 (a quarter new, a half
written to, a quarter removed). Opens the screen at pseudo-terminals of three sizes, and presses each key several times:
the time is that from the key until the terminal gets the first of the new frame, which is written in one go. See
../README.md.

Everything happens in a mount and a pid namespace of our own, as in ../past/past.py.
"""

import os
import select
import sys
import time

from screen import LIMIT, Failure, Screen, changed_home
from past import parser_with, progress, run_in_namespaces

QUIET = 0.25    # seconds without output: the screen is done
FOLDER = 100
SIZES = ((24, 80), (40, 120), (50, 200))
# Each with its name, and the keys that are pressed before and after it and not measured.
KEYS = (("down", b"j", b"", b""), ("to the end", b"G", b"", b"g"), ("unfold a directory", b"\r", b"", b"\r"),
        ("unfold all", b"z", b"", b"z"), ("mark a directory", b"m", b"", b"M"), ("group by run", b"b", b"", b"bbb"),
        ("search", b"\r", b"/99\x7f9", b"g"), ("ask about a directory", b"r", b"", b"n"))


def path_of(top, number):
    return f"{top}/src/dir-{number // FOLDER:04}/file-{number:06}"


class Keys(Screen):
    """The screen, and how long it takes to answer."""

    def calm(self):
        while select.select([self.terminal], [], [], QUIET)[0]:
            os.read(self.terminal, 65536)

    def press(self, keys):
        """Presses keys that are not measured."""
        for key in keys:
            self.types(bytes([key]))
            self.calm()

    def answer(self, key):
        """Presses a key; returns the seconds until something is shown."""
        began = time.monotonic()
        self.types(key)
        if not select.select([self.terminal], [], [], LIMIT)[0]:
            raise Failure(f"{key!r} shows nothing")
        took = time.monotonic() - began
        self.calm()
        return took


def look(options, target, paths, size):
    frames, lists, keys = [], [], {name: [] for name, *_ in KEYS}
    for _ in range(options.rounds):
        screen = Keys(options.program, target, size)
        frames.append(screen.wait(b"[reading"))
        lists.append(screen.wait(b"%d paths" % paths))
        time.sleep(0.5)
        screen.calm()
        for name, key, before, after in KEYS:
            screen.press(before)
            keys[name].append(screen.answer(key))
            if name == "ask about a directory":
                time.sleep(0.4)     # until the question takes an answer
                screen.calm()
            screen.press(after)
        screen.end()
    return frames, lists, keys


def middle(times):
    return sorted(times)[len(times) // 2]


def measure(options, base):
    rows = []
    for paths in options.paths:
        progress(f"changing {paths:,} paths")
        home = changed_home(options.program, base / str(paths), paths, path_of)
        try:
            for size in SIZES:
                progress(f"{paths:,} paths at {size[1]}x{size[0]}")
                rows.append((paths, size, *look(options, home.home, paths, size)))
        finally:
            home.unmount()
            progress("")
    names = [name for name, *_ in KEYS]
    print(f"| paths | size | first frame | list | {' | '.join(names)} |")
    print(f"| ---: | --- | ---: | ---: | {' | '.join('---:' for _ in names)} |")
    for paths, size, frames, lists, keys in rows:
        times = " | ".join(f"{middle(keys[name]) * 1000:.1f} ms" for name in names)
        print(f"| {paths:,} | {size[1]}x{size[0]} | {middle(frames):.2f} s | {middle(lists):.2f} s | {times} |")


def main():
    parser = parser_with("Measure the first list and the keys of the screen of a review.")
    parser.add_argument("--paths", metavar="N", type=int, nargs="+", default=[2_000, 50_000])
    parser.add_argument("--rounds", metavar="N", type=int, default=5)
    return run_in_namespaces(parser, measure)


if __name__ == "__main__":
    sys.exit(main())
