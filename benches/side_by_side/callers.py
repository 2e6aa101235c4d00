"""Many callers: what an operation takes with one, two and more of them at once, and what the daemon spends on it."""

from candidates import candidates
from figures import environment, save
from ground import Failure, progress
from material import Material
from measuring import Round
from processor import BEHIND, cost, middle, number
from workloads import selected

SHARED = "-shared"
MADE_BEFORE = {"unlink", "rename"}  # what these work on is made right before, and the daemon needs a moment to be done with it


def callers(options, base):
    tools = candidates(options)
    workloads = selected(options)
    material = Material(base, options)
    used = {w.name: {n: {t.name: [] for t in tools} for n in options.callers} for w in workloads}
    failures = {}
    for turn in range(options.rounds):
        with Round(tools, material, workloads, base / f"round-{turn}"):
            for workload in workloads:
                for many in options.callers:
                    progress(f"round {turn + 1} of {options.rounds}: {workload.name}, {many} callers")
                    first = turn % len(tools)
                    for tool in tools[first:] + tools[:first]:
                        try:
                            spent = together(tool, workload, many, material, options)
                        except (Failure, OSError) as error:
                            failures.setdefault((workload.name, many, tool.name), str(error))
                            spent = None
                        used[workload.name][many][tool.name].append(spent)
    progress("")
    machine = environment(options, material, tools)
    print(f"{machine['date']}, Linux {machine['kernel']}, {machine['processors']} x {machine['processor']}; {machine['file_system']}; "
          f"{options.rounds} rounds{', quick' if options.quick else ''}.\n")
    print_table(used, tools, workloads, options)
    for (name, many, tool), reason in failures.items():
        print(f"\n{tool} failed {name} with {many} callers: {reason}")
    save(options, {"environment": machine, "microseconds": used,
                   "failures": [{"workload": n, "callers": m, "candidate": t, "reason": r} for (n, m, t), r in failures.items()]})
    return 1 if failures else 0


def together(tool, workload, many, material, options):
    """Runs a loop with `many` callers; microseconds for each operation of all of them together."""
    work = tool.home / f"{workload.name}-{many}"
    work.mkdir()
    where = "shared" if workload.name.endswith(SHARED) else "own"
    count = workload.count // many * many
    command = [str(material.calls), "many", str(many), where, workload.name.removesuffix(SHARED), str(work), "-", str(count), "0"]
    # The caller's own time is that of the process that waits for the others: it says nothing.
    spent = cost(tool, command, count, options, rest=workload.name in MADE_BEFORE)
    del spent["caller"]
    return spent


def print_table(used, tools, workloads, options):
    names = [t.name for t in tools]
    print("Elapsed µs for each operation, over all callers; in brackets processor time of the daemon for one, with what it does within "
          f"{BEHIND} s after the last. Medians over the rounds.\n")
    print(f"| operation | callers | {' | '.join(names)} |")
    print(f"| --- | ---: | {' | '.join('---:' for _ in names)} |")
    for w in workloads:
        for many in options.callers:
            by_tool = used[w.name][many]
            cells = [said(by_tool[t.name], t.name == "native") for t in tools]
            print(f"| {w.name} | {many} | {' | '.join(cells)} |")


def said(rounds, native):
    elapsed = number(middle(rounds, "elapsed"))
    return elapsed if native else f"{elapsed} ({number(middle(rounds, 'daemon'))})"
