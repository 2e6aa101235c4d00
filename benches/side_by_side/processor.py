"""What the daemons cost: processor time for each kind of operation, in the daemon and in its caller.

Unlike elapsed time it hardly changes while others work on the machine, and it is what counts as soon as all processors are busy.
"""

import os
import statistics
import time
from pathlib import Path

from candidates import Trumanfs, candidates
from figures import environment, save
from ground import Failure, progress
from material import Material
from measuring import Round, prepared, stepped
from workloads import selected

BEHIND = 1.2  # seconds for what a daemon does behind its answers: a part of it waits for as long as a second
TICK = os.sysconf("SC_CLK_TCK")


def processor(options, base):
    tools = candidates(options)
    workloads = selected(options)
    material = Material(base, options)
    used = {w.name: {t.name: [] for t in tools} for w in workloads}
    failures = {}
    for number in range(options.rounds):
        with Round(tools, material, workloads, base / f"round-{number}"):
            for workload in workloads:
                progress(f"round {number + 1} of {options.rounds}: {workload.name}")
                turn = number % len(tools)
                for tool in tools[turn:] + tools[:turn]:
                    try:
                        command = prepared(tool, workload, material, options)
                        used[workload.name][tool.name].append(cost(tool, command, workload.count, options))
                    except (Failure, OSError) as error:
                        failures.setdefault((workload.name, tool.name), str(error))
                        used[workload.name][tool.name].append(None)
    progress("")
    machine = environment(options, material, tools)
    print(f"{machine['date']}, Linux {machine['kernel']}, {machine['processors']} x {machine['processor']}; {machine['file_system']}; "
          f"{options.rounds} rounds{', quick' if options.quick else ''}.\n")
    print_table(used, tools, workloads)
    print_ratios(used, [t for t in tools if isinstance(t, Trumanfs)], workloads)
    for (name, tool), reason in failures.items():
        print(f"\n{tool} failed {name}: {reason}")
    save(options, {"environment": machine, "microseconds": used,
                   "failures": [{"workload": n, "candidate": t, "reason": r} for (n, t), r in failures.items()]})
    return 1 if failures else 0


def cost(tool, command, count, options, rest=True):
    """Microseconds for each operation: elapsed, of the caller, and of the daemon: at once, in all, and of that in user mode.
    Without `rest` nothing is waited for before: where next to nothing was prepared."""
    def before(_):
        if tool.daemon and rest:
            time.sleep(BEHIND)
        return clocks(tool)

    def after(caller):
        at_once = clocks(tool)
        spent = clock(caller)
        if tool.daemon:
            time.sleep(BEHIND)
        return spent, at_once, clocks(tool)

    elapsed, first, (caller, at_once, last) = stepped(tool, command, options, lambda pid: (clock(pid), before(pid)), after)
    start, first = first
    seconds = {"elapsed": elapsed, "caller": caller - start}
    if tool.daemon:
        seconds.update(at_once=at_once[0] - first[0], daemon=last[0] - first[0], user=last[1] - first[1])
    return {name: value * 1e6 / count for name, value in seconds.items()}


def clock(pid):
    """The processor time of a process, exactly, with all threads that it has had: what clock_getcpuclockid(3) names."""
    return time.clock_gettime(~pid << 3 | 2)


def clocks(tool):
    """Processor time of a daemon with its children, and the part of it in user mode (of that the kernel knows hundredths)."""
    if not tool.daemon:
        return 0.0, 0.0
    whole = user = 0.0
    for pid in family(tool.daemon.pid):
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        mine, _, childrens_user, childrens_system = (int(ticks) / TICK for ticks in after_name[11:15])
        whole += clock(pid) + childrens_user + childrens_system
        user += mine + childrens_user
    return whole, user


def family(pid):
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return [pid, *(descendant for child in children for descendant in family(child))]


def middle(rounds, what):
    known = [spent[what] for spent in rounds if spent]
    return statistics.median(known) if known else None


def print_table(used, tools, workloads):
    daemons = [t.name for t in tools if t.name != "native"]
    native = len(daemons) < len(tools)
    print("Processor time of the daemon, µs for each operation, and of that in user mode; medians over the rounds. What it does "
          f"within {BEHIND} s after the last operation counts.{' Native: processor time of the caller.' if native else ''}\n")
    heads = ["operation"] + ["native"] * native + daemons
    print(f"| {' | '.join(heads)} |")
    print(f"| --- | {' | '.join('---:' for _ in heads[1:])} |")
    for w in workloads:
        cells = [w.name]
        if native:
            cells.append(number(middle(used[w.name]["native"], "caller")))
        for name in daemons:
            rounds = used[w.name][name]
            cells.append(f"{number(middle(rounds, 'daemon'))} ({number(middle(rounds, 'user'))})")
        print(f"| {' | '.join(cells)} |")


def print_ratios(used, tools, workloads):
    """Several trumanfs are compared pair by pair: the median of the ratios within a round says more than a ratio of medians."""
    if len(tools) < 2:
        return
    first, *others = (t.name for t in tools)
    print(f"\n| divided by {first} in the same round | {' | '.join(others)} |")
    print(f"| --- | {' | '.join('---:' for _ in others)} |")
    for w in workloads:
        cells = [w.name]
        for name in others:
            pairs = zip(used[w.name][name], used[w.name][first])
            each = [a["daemon"] / b["daemon"] for a, b in pairs if a and b and b["daemon"]]
            cells.append(f"{statistics.median(each):.2f}" if each else "failed")
        print(f"| {' | '.join(cells)} |")


def number(value):
    return "failed" if value is None else f"{value:.1f}"
