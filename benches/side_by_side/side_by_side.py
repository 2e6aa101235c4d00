#!/usr/bin/env python3
"""Compares trumanfs with the native file system, bindfs and fuse-overlayfs, side by side.

All candidates lie on one file system in memory and run the same workloads in turn, round after round. What counts is the
ratio to native within a round; the table shows the median over the rounds. See ../README.md.

Everything happens in a mount and a pid namespace of our own: whatever ends this program, by whatever means, takes the
mounts and the daemons with it.
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True  # root may run this in somebody's work tree

from callers import callers
from candidates import Keeping, candidates
from ground import INSIDE, REPOSITORY, Failure, enter_namespaces, inside
from modes import compare, floor, memory, requests
from processor import processor
from workloads import GROUPS, WORKLOADS, selected


def arguments():
    parser = argparse.ArgumentParser(description="Compare trumanfs with native, bindfs and fuse-overlayfs on one file system in memory.",
                                     epilog="Groups: " + ", ".join(GROUPS) + ". Workloads: " + ", ".join(w.name for w in WORKLOADS) + ".")
    parser.add_argument("--trumanfs", metavar="PATH", default=str(REPOSITORY / "target" / "release" / "trumanfs"), help="the binary (default: target/release/trumanfs)")
    parser.add_argument("--trumanfs-flags", metavar="FLAGS", default="", help="more arguments of trumanfs mount, as in --trumanfs-flags='--no-follow'")
    parser.add_argument("--variant", metavar="NAME=FLAGS", action="append", default=[], help="trumanfs once more, with other flags; repeatable")
    parser.add_argument("--trumanfs-binary", metavar="NAME=PATH", action="append", default=[], help="trumanfs once more, another binary of it with the same flags; repeatable")
    parser.add_argument("--bindfs-flags", metavar="FLAGS", default="")
    parser.add_argument("--overlay-flags", metavar="FLAGS", default="")
    parser.add_argument("--candidates", metavar="LIST", default="native,bindfs,fuse-overlayfs,trumanfs", help="default: %(default)s")
    parser.add_argument("--only", metavar="GROUP|WORKLOAD", action="append", default=[], help="repeatable")
    parser.add_argument("--rounds", metavar="N", type=int, help="default: 9, with --quick 3")
    parser.add_argument("--quick", action="store_true", help="a quarter of the operations, an eighth of the data: a look, not a result")
    parser.add_argument("--requests", action="store_true", help="count FUSE requests for each workload instead of time")
    parser.add_argument("--floor", action="store_true", help="what one empty request costs here, and what that makes of each workload at best; with --candidates native,trumanfs")
    parser.add_argument("--processor", action="store_true", help="processor time of the daemon for each kind of operation, instead of elapsed time; default: 3 rounds")
    parser.add_argument("--callers", metavar="LIST", type=numbers, nargs="?", const=[1, 2, 4, 8], help="elapsed time and the daemon's processor time with so many callers at once (default 1,2,4,8); default: 3 rounds")
    parser.add_argument("--memory", metavar="N", type=int, nargs="?", const=1_000_000, help="the daemons' memory with N known files (default 1,000,000)")
    parser.add_argument("--tree", metavar="DIR", help="the source tree to work with (default: one found on this machine)")
    parser.add_argument("--material", metavar="DIR", default=str(REPOSITORY / "target" / "side_by_side"), help="where what had to be fetched for the group work is kept (default: target/side_by_side)")
    parser.add_argument("--timeout", metavar="SECONDS", type=int, default=120, help="for one run of one workload (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="also write everything that was measured")
    parser.add_argument("--fs", choices=("tmpfs", "ext4", "xfs"), default="tmpfs", help="the file system in memory that all share; ext4 and xfs lie in a file on a tmpfs (default: %(default)s)")
    parser.add_argument("--base", metavar="DIR", help="work below this directory, on whatever file system it has, instead")
    parser.add_argument("--unprivileged", action="store_true", help="in a user namespace: without kernel passthrough")
    options = parser.parse_args()
    options.rounds = options.rounds or (3 if options.quick or options.processor or options.callers else 9)
    return options


def numbers(text):
    """The list of --callers."""
    found = [int(word) for word in text.split(",")]
    if min(found) < 1:
        raise ValueError(text)
    return found


def mode(options):
    if options.processor:
        return processor
    if options.callers:
        return callers
    if options.memory:
        return memory
    if options.requests:
        return requests
    return floor if options.floor else compare


def main():
    options = arguments()
    try:
        if os.environ.get(INSIDE) != "1":
            selected(options)
            if mode(options) is not compare and any(isinstance(c, Keeping) for c in candidates(options)):
                raise Failure("the candidate keeping is only for the table: leave it out, or the other mode")
            enter_namespaces(options)
        return inside(options, mode(options))
    except Failure as error:
        print(f"side_by_side: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nside_by_side: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
