"""Types into a real shell at a terminal, and waits for what its completion makes of it.

    complete.py SHELL DIRECTORY TYPED EXPECTED    `trumanfs` is in PATH; DIRECTORY has the completions where zsh looks for them
"""
import os
import pty
import select
import sys
import time

shell, directory, typed, expected = sys.argv[1:]
begin = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(trumanfs completions bash)"),
    "zsh": (["zsh", "-f", "-i"], f"fpath=({directory} $fpath); autoload -Uz compinit; compinit -u -d {directory}/dump"),
    "fish": (["fish", "--no-config", "-i"], "trumanfs completions fish | source"),
}
words, first = begin[shell]
pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(PS1="> ", TERM="dumb", HOME=directory, TMPDIR=directory, XDG_RUNTIME_DIR=directory)
    os.execvp(words[0], words)


def wait_for(text, limit=20):
    seen = b""
    until = time.time() + limit
    while text.encode() not in seen:
        left = until - time.time()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            sys.exit(f"{shell}: {text!r} did not come: {seen.decode(errors='replace')!r}")
        try:
            seen += os.read(terminal, 4096)
        except OSError:
            sys.exit(f"{shell} has ended: {seen.decode(errors='replace')!r}")


try:
    # What is typed is shown, too: what is waited for must not be in it.
    os.write(terminal, f"{first}; echo re''ady\n".encode())
    wait_for("ready\r\n")
    os.write(terminal, f"{typed}\t".encode())
    wait_for(expected)
finally:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
