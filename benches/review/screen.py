"""The screen of `trumanfs review` at a pseudo-terminal, and stores with changes to be reviewed, for the two benchmarks here."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "past"))
from past import Failure, Home, put  # noqa: E402

LIMIT = 120     # seconds for anything to be shown
TEXT = b"".join(b"line %d\n" % number for number in range(40))


def changed_home(program, place, paths, path_of):
    """Mounts a home in which so many paths are changed: a quarter new, a half written to, a quarter removed."""
    home = Home(program, place)
    for number in range(paths):
        at = path_of(home.store, number)
        os.makedirs(os.path.dirname(at), exist_ok=True)
        if number % 4:
            put(at, TEXT)
    home.mount()
    for number in range(paths):
        at = path_of(home.home, number)
        if number % 4 == 3:
            os.unlink(at)
        else:
            put(at, TEXT + b"one more\n")
    return home


class Screen:
    """The screen at a terminal of so many rows and columns."""

    def __init__(self, program, target, size):
        self.start = time.monotonic()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            os.environ["TERM"] = "xterm-256color"
            os.execv(program, [program, "review", str(target)])
        self.shown = b""

    def wait(self, text):
        """Waits for a text, in one piece; returns the seconds since the program began."""
        while text not in self.shown:
            left = LIMIT - (time.monotonic() - self.start)
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                raise Failure(f"{text!r} was not shown: {self.shown[-400:]!r}")
            self.shown += os.read(self.terminal, 65536)
        return time.monotonic() - self.start

    def types(self, keys):
        os.write(self.terminal, keys)

    def end(self):
        self.types(b"q")
        try:
            while os.read(self.terminal, 65536):
                pass
        except OSError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.terminal)
