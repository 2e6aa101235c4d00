"""The workloads: what each is called, what it needs, and what of it is timed."""

import os
import sys
from dataclasses import dataclass, field, replace

from ground import HERE, Failure
from packages import installer


@dataclass
class Workload:
    group: str
    name: str
    about: str
    count: int = 0                  # operations of a loop in loops.c or data.c
    megabytes: int = 0              # size of a data workload's file
    prepare: list = field(default_factory=list)   # commands, not timed
    command: list = field(default_factory=list)   # the timed command, instead of a loop
    seeds: list = field(default_factory=list)     # what must lie in the store before it is mounted
    place: str = ""                 # the directory to work in, if several workloads share it
    proof: list = field(default_factory=list)     # a command, not timed, that says the same in all candidates if the work is the same


def command_workload(name, about, command, prepare=(), seeds=()):
    return Workload("trees", name, about, prepare=list(prepare), command=command, seeds=list(seeds))


UNTAR = ["tar", "-xf", "{tar}"]
RG = ["rg", "--threads", "16", "-uuu", "-F", "no-such-word-in-any-file", "{seed}/rg"]
CLONE = ["git", "clone", "-q", "--no-hardlinks", "{origin}", "clone"]

JOBS = max(2, os.cpu_count() or 2)
TRANSACTIONS = [sys.executable, str(HERE / "transactions.py")]
# What configure finds out with the help of symbolic links, which a home hides by default: told, so that all build the same.
SYMLINKS_WORK = ("gl_cv_func_lstat_dereferences_slashed_symlink=yes gl_cv_func_unlink_honors_slashes=yes "
                 "gl_cv_header_working_fcntl_h=yes")


def transactions(mode, about):
    file = f"{{seed}}/{mode}.db"
    return Workload("rewriting", "sqlite-wal" if mode == "wal" else "sqlite-journal", about, 10000, 100,
                    command=[*TRANSACTIONS, mode, file, "{count}"], seeds=[f"{mode}.db"], proof=[*TRANSACTIONS, "check", file])


def work(name, about, command, proof, prepare=()):
    """One step of the work on a real project; each needs the steps before it."""
    shell = ["sh", "-ec"]
    return Workload("work", name, about, prepare=[[*shell, line] for line in prepare], command=[*shell, command],
                    place="project", proof=[*shell, proof])


WORKLOADS = [
    Workload("metadata", "create", "open(O_CREAT|O_EXCL) and close, in one directory", 2000),
    Workload("metadata", "create-unlink", "create, close and unlink the same name", 2000),
    Workload("metadata", "mkdir-rmdir", "mkdir and rmdir the same name", 2000),
    Workload("metadata", "rename", "rename to a free name in the same directory", 2000),
    Workload("metadata", "rename-over", "rename onto an existing file of 1 KiB", 2000),
    Workload("metadata", "chmod-utimens", "chmod and utimensat, 200 files in turn", 2000),
    Workload("metadata", "stat-hit", "stat of 200 files in turn", 20000),
    Workload("metadata", "stat-miss", "stat of 200 names that do not exist", 20000),
    Workload("metadata", "link", "one more hard link to the same file", 2000),
    command_workload("untar", "tar -xf of the source tree", UNTAR),
    command_workload("walk-first", "find -size +0 over a tree nobody has looked at yet",
                     ["find", "{seed}/walk", "-size", "+0"], seeds=["walk"]),
    command_workload("walk-again", "the same find once more",
                     ["find", "{seed}/walk", "-size", "+0"], prepare=[["find", "{seed}/walk", "-size", "+0"]], seeds=["walk"]),
    command_workload("grep-r", "grep -r for a word that is not there, over a tree nobody has read yet",
                     ["grep", "-rF", "no-such-word-in-any-file", "{seed}/grep"], seeds=["grep"]),
    command_workload("cp-r", "cp -r of a tree nobody has read yet", ["cp", "-r", "{seed}/copy", "copy"], seeds=["copy"]),
    command_workload("rm-rf", "rm -rf of a tree just unpacked", ["rm", "-rf", "tree"], prepare=[UNTAR]),
    command_workload("git-clone", "git clone of a packed repository on the native file system", CLONE),
    command_workload("git-status", "git status in a fresh clone", ["git", "-C", "clone", "status", "--porcelain"], prepare=[CLONE]),
    Workload("single calls", "open-read", "open, read 1 KiB, close; 200 files in turn", 5000),
    Workload("single calls", "open-write", "open, write 1 KiB over the old content, close; 200 files in turn", 5000),
    Workload("single calls", "append", "write 100 bytes to a file opened with O_APPEND", 20000),
    Workload("single calls", "truncate-write", "open(O_TRUNC), write 1 KiB, close; 200 files in turn", 3000),
    Workload("single calls", "readdir", "opendir, readdir to the end (200 entries), closedir", 1000),
    Workload("single calls", "write-stat", "write 100 bytes, then stat the file by name", 5000),
    Workload("single calls", "access", "access(R_OK|W_OK) of 200 files in turn", 20000),
    Workload("data", "write", "a new file in chunks of 1 MiB", megabytes=256),
    Workload("data", "read-first", "read() in chunks of 128 KiB; nobody has read the file yet", megabytes=256, seeds=["read"]),
    Workload("data", "read-again", "the same once more", megabytes=256, seeds=["read"]),
    Workload("data", "random-read", "pread of 4 KiB pages at random places", 8192, 64, seeds=["random"]),
    Workload("data", "mmap-read", "mmap and read from start to end", megabytes=64, seeds=["mapped"]),
    Workload("rewriting", "overwrite", "an existing file from start to end in chunks of 1 MiB", megabytes=64),
    Workload("rewriting", "overwrite-middle", "open a big file, write 4 KiB into its middle, close", 200, 256),
    Workload("rewriting", "random-write", "pwrite of 4 KiB pages at random places", 8192, 64),
    transactions("wal", "SQLite: small transactions in an old database of 100 MiB, with a write-ahead log"),
    transactions("delete", "the same with a rollback journal"),
    Workload("threads", "rg-first", "rg with 16 threads for a word that is not there, over a tree nobody has read yet", command=RG, seeds=["rg"]),
    Workload("threads", "rg-again", "the same once more", prepare=[RG], command=RG, seeds=["rg"]),
    Workload("threads", "pnpm-install", "pnpm install of 159 packages from its store, 1,835 files",
             prepare=[["cp", "{packages}/package.json", "{packages}/pnpm-lock.yaml", "."]],
             command=[*installer("{packages}"), "--offline", "--frozen-lockfile"],
             proof=["sh", "-ec", "find node_modules | sort | cksum; "
                    "find node_modules -type f ! -path '*/.bin/*' ! -name '.*' -print0 | sort -z | xargs -0 cat | cksum"]),
    work("clone", "git clone of the project, 500 files", "git clone -q --no-hardlinks --branch 1.12 {project} gzip",
         "git -C gzip status --porcelain; git -C gzip ls-files | cksum"),
    work("configure", "its configure, in a directory of its own",
         f"mkdir gzip/build && cd gzip/build && exec ../configure --quiet --prefix={{work}}/installed {SYMLINKS_WORK}",
         "cksum gzip/build/lib/config.h",
         # All of one age: otherwise make takes generated files of the release for outdated, and asks for autoconf.
         prepare=["cd gzip && git ls-files -z | xargs -0 touch -d @1600000000 && git update-index -q --refresh"]),
    work("build", f"make -j{JOBS}", f"make -C gzip/build -j{JOBS}", "cd gzip && build/gzip -9n <ChangeLog | cksum && find build -name '*.o' | sort"),
    work("test", f"make -j{JOBS} check: 28 tests, shell scripts", f"make -C gzip/build -j{JOBS} check",
         "cd gzip/build/tests && grep '^# ' test-suite.log && grep -h '^:test-result' *.trs | cksum"),
    work("install", "make install", "make -C gzip/build install", "find installed -printf '%P %y %m\\n' | sort"),
    work("checkout", "git checkout of the other release: 500 files differ", "git -C gzip checkout -q 1.13",
         "cd gzip && git status --porcelain --untracked-files=no && git ls-files -z | xargs -0 cat | cksum"),
    work("remove", "rm -rf of project, build and installation", "rm -rf gzip installed", "ls -A"),
]
# Only on demand: what has to be fetched, or installed besides, and the work takes longer than everything else together.
ON_DEMAND = {"threads", "work"}
# What --processor looks at: one kind of operation each, so that the daemon's time is the price of that kind.
OPERATIONS = [
    Workload("processor", "create", "open(O_CREAT|O_EXCL) and close, in one directory", 20000),
    Workload("processor", "unlink", "unlink of empty files just made", 20000),
    Workload("processor", "rename", "rename to a free name in the same directory", 20000),
    Workload("processor", "chmod", "chmod of 200 files in turn, to the other permissions each time", 20000),
    Workload("processor", "mkdir", "mkdir in one directory", 20000),
    Workload("processor", "link", "one more hard link to the same file", 20000),
    Workload("processor", "open-close", "open and close of 200 files in turn", 20000),
    Workload("processor", "access", "access(R_OK|W_OK) of 200 files in turn", 20000),
    Workload("processor", "lookup", "stat of files that lay in the store before it was mounted, each once", 20000, seeds=["names"]),
]
# What --callers looks at. The count is that of all callers together; each has a directory of its own, or all have one.
CALLERS = [
    Workload("callers", "create", "open(O_CREAT|O_EXCL) and close", 8000),
    Workload("callers", "create-unlink", "create, close and unlink the same name", 8000),
    Workload("callers", "create-unlink-shared", "the same, all callers in one directory", 8000),
    Workload("callers", "unlink", "unlink of empty files just made", 8000),
    Workload("callers", "rename", "rename to a free name in the same directory", 8000),
    Workload("callers", "open-close", "open and close of 200 files in turn", 20000),
    Workload("callers", "access", "access(R_OK|W_OK) of 200 files in turn", 20000),
    Workload("callers", "stat-miss", "stat of 200 names that do not exist", 40000),
]
GROUPS = list(dict.fromkeys(w.group for w in WORKLOADS))
TREES = {"walk", "grep", "copy", "rg"}
DATABASES = {"wal.db", "delete.db"}


def selected(options):
    """The workloads that the options name, of those that their mode has."""
    only = options.only
    offered = OPERATIONS if options.processor else CALLERS if options.callers else WORKLOADS
    known = {w.group for w in offered} | {w.name for w in offered}
    unknown = set(only) - known
    if unknown:
        raise Failure(f"no such group or workload: {', '.join(sorted(unknown))} (there are: {', '.join(sorted(known))})")
    chosen = [w for w in offered if w.name in only or w.group in only or not only and w.group not in ON_DEMAND]
    last = max((offered.index(w) for w in chosen if w.group == "work"), default=-1)
    chosen = [w for i, w in enumerate(offered) if w in chosen or w.group == "work" and i < last]
    if options.quick:
        chosen = [replace(w, count=w.count // 4, megabytes=w.megabytes // 8) for w in chosen]
    return chosen
