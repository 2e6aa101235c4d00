"""What everything here stands on: the failure that a person reads, a command run quietly, the namespaces of our own, and
the file system in memory."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
INSIDE = "TRUMANFS_BENCH_INSIDE"
MIB = 1 << 20


class Failure(Exception):
    """What went wrong, in words for the person who runs the benchmark."""


def quiet(command, **more):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        raise Failure(f"{shlex.join(command)}: exit {done.returncode}: {done.stdout.strip()[-400:]}")
    return done.stdout


def mounted(path):
    wanted = str(path).encode()
    with open("/proc/self/mountinfo", "rb") as table:
        return any(line.split()[4] == wanted for line in table)


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def enter_namespaces(options):
    """Starts this program again in a mount and a pid namespace of its own, and waits for it."""
    if os.geteuid() != 0 and not options.unprivileged:
        raise Failure("run it as root (it mounts), or with --unprivileged in a user namespace")
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
    if options.unprivileged:
        command += ["--user", "--map-root-user"]
    # Python as PID 1 of the namespace: when it ends, the kernel kills whatever is left in there.
    command += [sys.executable, str(HERE / "side_by_side.py"), *sys.argv[1:]]
    os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})


def leave_other_homes():
    """Homes that others have mounted came along with the namespace, and would not end as long as it lasts."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " fuse.trumanfs " in line:
            subprocess.run(["umount", "--lazy", line.split()[4]], check=False)


def inside(options, work):
    """Calls `work` with the options and the directory that everything lies in, and leaves nothing of it behind."""
    def interrupted(number, _frame):
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    os.umask(0o022)
    leave_other_homes()
    # The same git everywhere, whatever the user has configured.
    os.environ.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_TERMINAL_PROMPT="0", LC_ALL="C")
    place = Path(tempfile.mkdtemp(prefix="trumanfs-bench-", dir=options.base))
    mounts = []
    try:
        base = place if options.base else file_system(options, place, mounts)
        return work(options, base)
    finally:
        for mount in reversed(mounts):
            subprocess.run(["umount", "-l", str(mount)], check=False)
        if options.base:
            shutil.rmtree(place, ignore_errors=True)
        else:
            os.rmdir(place)


def file_system(options, place, mounts):
    """Mounts the file system that all candidates share, in memory either way."""
    # The size is a bound, not a reservation; a million inodes need more than the default number of them.
    quiet(["mount", "-t", "tmpfs", "-o", "size=80%,nr_inodes=0,mode=0755", "tmpfs", str(place)])
    mounts.append(place)
    if options.fs == "tmpfs":
        return place
    image, base = place / "image", place / options.fs
    base.mkdir()
    image.touch()
    os.truncate(image, os.statvfs(place).f_blocks * os.statvfs(place).f_frsize * 7 // 8)
    # Everything is laid out at once, so that no background thread of ext4 works while we measure.
    quiet(["mkfs.ext4", "-q", "-F", "-i", "8192", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image)] if options.fs == "ext4"
          else ["mkfs.xfs", "-q", str(image)])
    quiet(["mount", "-o", "loop", str(image), str(base)])
    mounts.append(base)
    return base
