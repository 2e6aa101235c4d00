#!/usr/bin/env python3
"""Measures how long the screen of `trumanfs review` takes to show its first list, and the memory that it has needed.

Makes a store in which 100,000 paths were changed in a mounted home: a quarter of them new, a half of them written to, a
quarter removed. Then opens the screen at a pseudo-terminal, mounted and not. See ../README.md.

Everything happens in a mount and a pid namespace of our own, as in ../past/past.py.
"""

import os
import sys
import time
from pathlib import Path

from screen import Screen, changed_home
from past import FOLDER, memory_of, parser_with, progress, put, run_in_namespaces

SIZE = (40, 140)


def path_of(top, number):
    return f"{top}/{number // FOLDER:05}/{number:07}"


def spent(screen):
    """The processor seconds of the screen so far."""
    fields = Path(f"/proc/{screen.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def look(options, home, target):
    """Opens the screen; returns when the list was there, what that took, and the memory after some work with it."""
    screen = Screen(options.program, target, SIZE)
    try:
        # ratatui writes only what changes, so this stands there in one piece.
        listed = screen.wait(b"%d paths" % options.paths)
        needed = spent(screen)
        # By run, by program, by time, by path; to the end.
        screen.types(b"bbbbG")
        time.sleep(2)
        memory = memory_of(screen.pid)
        idle = spent(screen)
        time.sleep(5)
        idle = (spent(screen) - idle) / 5
        if home.daemon:
            # Somebody works: the list is read anew.
            end = time.monotonic() + 15
            busy, began = spent(screen), time.monotonic()
            while time.monotonic() < end:
                put(f"{home.home}/00000/working", b"x")
                time.sleep(0.05)
            busy = (spent(screen) - busy) / (time.monotonic() - began)
            os.unlink(f"{home.home}/00000/working")
            memory = max(memory, memory_of(screen.pid))
        else:
            busy = None
    finally:
        screen.end()
    return listed, needed, memory, idle, busy


def measure(options, base):
    rows = []
    progress(f"changing {options.paths:,} paths")
    home = changed_home(options.program, base / "review", options.paths, path_of)
    try:
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
    print("| store | list | processor | memory | idle | while somebody works |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, (listed, needed, memory, idle, busy) in rows:
        busy = "" if busy is None else f"{busy:.1%}"
        print(f"| {name} | {listed:.2f} s | {needed:.2f} s | {memory:.0f} MB | {idle:.1%} | {busy} |")


def main():
    parser = parser_with("Measure the screen of a review.")
    parser.add_argument("--paths", metavar="N", type=int, default=100_000)
    parser.add_argument("--rounds", metavar="N", type=int, default=3)
    return run_in_namespaces(parser, measure)


if __name__ == "__main__":
    sys.exit(main())
