"""Four of the things to do: compare, count requests, find the floor, and look at the daemons' memory."""

import math
import os
import shutil
import statistics
import subprocess
from pathlib import Path

from candidates import Floor, Trumanfs, candidates
from figures import cell, environment, means, print_against, print_table, ratios, save, whole
from ground import MIB, Failure, quiet
from material import Material
from measuring import Round, measure, run
from workloads import selected


def compare(options, base):
    tools = candidates(options)
    if tools[0].name != "native":
        raise Failure("--candidates must start with native: all figures are ratios to it")
    workloads = selected(options)
    material = Material(base, options)
    workloads = material.make(workloads)
    seconds, failures = measure(tools, workloads, material, options)
    table = ratios(seconds, tools)
    averages = means(table, tools, workloads) | whole(seconds, tools, workloads)
    machine = environment(options, material, tools)
    print(f"{machine['date']}, Linux {machine['kernel']}, {machine['processors']} x {machine['processor']}; {machine['file_system']}; "
          f"{options.rounds} rounds{', quick' if options.quick else ''}; tree: {material.files} files, {material.bytes // MIB} MiB. "
          "Times divided by native's, median over the rounds: less is better.\n")
    print_table(seconds, table, averages, tools, workloads)
    against = print_against(seconds, tools, workloads)
    for (name, tool), reason in failures.items():
        print(f"\n{tool} failed {name}: {reason}")
    for name, reason in material.left_out.items():
        print(f"\nLEFT OUT, {name}: {reason}")
    save(options, {"environment": machine, "seconds": seconds, "ratios": table, "means": averages, "against": against,
                   "left_out": material.left_out,
                   "failures": [{"workload": n, "candidate": t, "reason": r} for (n, t), r in failures.items()]})
    return 1 if failures or material.left_out else 0


def requests(options, base):
    workloads = selected(options)
    material = Material(base, options)
    workloads = material.make(workloads)
    tools = [t for t in candidates(options) if isinstance(t, Trumanfs)]
    if not tools:
        raise Failure("--requests needs trumanfs among the candidates")
    result, failed = {}, 0
    for tool in tools:
        print(f"Requests to {tool.name}, timed part of each workload\n")
        print("| group | workload | operations | requests | per operation | by kind |")
        print("| --- | --- | ---: | ---: | ---: | --- |")
        with Round([tool], material, workloads, base / "requests"):
            for w in workloads:
                try:
                    kinds = run(tool, w, material, options, count_requests=True)
                except (Failure, OSError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
                    print(f"| {w.group} | {w.name} | | failed: {error} | | |")
                    failed = 1
                    continue
                total = sum(kinds.values())
                most = sorted(kinds.items(), key=lambda item: -item[1])[:6]
                each = f"{total / w.count:.2f}" if w.count else ""
                print(f"| {w.group} | {w.name} | {w.count or ''} | {total} | {each} | {', '.join(f'{k} {v}' for k, v in most)} |")
                result.setdefault(tool.name, {})[w.name] = kinds
        print()
    save(options, {"requests": result})
    return failed


def floor(options, base):
    """For each workload: native time + requests that are waited for × the cost of an empty request, beside what is reached."""
    workloads = [w for w in selected(options) if w.count and w.group != "data"]
    tools = candidates(options)
    if [t.name for t in tools][:1] != ["native"] or not isinstance(tools[-1], Trumanfs) or len(tools) != 2:
        raise Failure("--floor needs --candidates native,trumanfs")
    material = Material(base, options)
    workloads = material.make(workloads)
    empty = {"on one processor": [], "anywhere": []}
    for number in range(options.rounds):
        with Round([server := Floor(material)], material, [], material.base / f"floor-{number}"):
            empty["anywhere"].append(ask(material, server, options))
            # The server, and the client that inherits it from us.
            allowed = os.sched_getaffinity(0)
            try:
                for pid in (0, server.daemon.pid):
                    os.sched_setaffinity(pid, {min(allowed)})
                empty["on one processor"].append(ask(material, server, options))
            finally:
                os.sched_setaffinity(0, allowed)
    seconds, failures = measure(tools, workloads, material, options)
    table = ratios(seconds, tools)
    least = statistics.median(empty["on one processor"])
    print(f"One request that is answered at once: {least * 1e6:.1f} µs on one processor, "
          f"{statistics.median(empty['anywhere']) * 1e6:.1f} µs where the kernel likes ({options.rounds} rounds).\n")
    print("| group | workload | native per operation | requests waited for | at best | reached |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    best = {}
    with Round([tools[-1]], material, workloads, base / "requests"):
        for w in workloads:
            kinds = run(tools[-1], w, material, options, count_requests=True)
            waited = sum(n for kind, n in kinds.items() if kind not in ("release", "forget")) / w.count
            native = statistics.median(v for v in seconds[w.name]["native"] if v) / w.count
            best[w.name] = (native + waited * least) / native
            print(f"| {w.group} | {w.name} | {native * 1e6:.1f} µs | {waited:.2f} | {best[w.name]:.2f} | {cell(table[w.name][tools[-1].name])} |")
    print("\n| geometric mean | at best | reached |")
    print("| --- | ---: | ---: |")
    reached = means(table, tools, workloads)
    for group in reached:
        lowest = math.exp(statistics.fmean(math.log(best[w.name]) for w in workloads if w.group == group))
        print(f"| {group} | {lowest:.2f} | {cell(reached[group][tools[-1].name])} |")
    save(options, {"empty_request": empty, "seconds": seconds, "ratios": table, "at_best": best})
    return 1 if failures else 0


def ask(material, server, options, times=20000):
    """Seconds that one empty request takes."""
    command = [str(material.calls), "ask", str(server.home), "-", str(times), "0"]
    return int(quiet(command, timeout=options.timeout)) / 1e9 / times


def memory(options, base):
    material = Material(base, options)
    print(f"{options.memory} empty files in directories of 1000, made on the store, then all looked at through the home\n")
    print("| candidate | made in s | looked at in s | VmRSS MiB | VmHWM MiB | descriptors | threads |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    result, failed = {}, 0
    for tool in candidates(options):
        if tool.name == "native":
            continue
        directory = base / "memory"
        try:
            seed = tool.prepare(directory / tool.name) / "many"
            seed.mkdir()
            made = calls(material, "fill", seed, options)
            tool.mount()
            looked = calls(material, "stat-all", tool.home / "many", options)
            state = process_state(tool.daemon.pid)
            print(f"| {tool.name} | {made:.1f} | {looked:.1f} | {state['VmRSS'] / 1024:.0f} | {state['VmHWM'] / 1024:.0f} "
                  f"| {state['descriptors']} | {state['Threads']} |", flush=True)
            result[tool.name] = {"files": options.memory, "seconds": looked, **state}
        except (Failure, OSError, subprocess.TimeoutExpired) as error:
            failed = 1
            print(f"| {tool.name} | failed: {error} | | | | | |", flush=True)
        finally:
            tool.unmount()
            shutil.rmtree(directory, ignore_errors=True)
    save(options, {"memory": result})
    return failed


def calls(material, loop, directory, options):
    patience = max(options.timeout, options.memory / 1000)
    return int(quiet([str(material.calls), loop, str(directory), "-", str(options.memory), "0"], timeout=patience)) / 1e9


def process_state(pid):
    state = {"descriptors": len(os.listdir(f"/proc/{pid}/fd"))}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key in ("VmRSS", "VmHWM", "Threads"):
            state[key] = int(value.split()[0])
    return state
