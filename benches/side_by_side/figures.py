"""What is made of the times: ratios, means, the table, and the file with everything that was measured."""

import json
import math
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path

from candidates import Trumanfs
from workloads import GROUPS


def ratios(seconds, tools, base="native"):
    """Per workload and candidate but the first: the median over the rounds of its time divided by the base's in the same round."""
    table = {}
    for name, by_tool in seconds.items():
        table[name] = {}
        for tool in tools[1:]:
            pairs = zip(by_tool[tool.name], by_tool[base])
            each = [mine / others for mine, others in pairs if mine and others]
            table[name][tool.name] = statistics.median(each) if each else None
    return table


def means(table, tools, workloads):
    """The geometric mean of each group; none where a workload of the group failed."""
    result = {}
    for group in GROUPS:
        names = [w.name for w in workloads if w.group == group]
        if not names:
            continue
        result[group] = {}
        for tool in tools[1:]:
            values = [table[n][tool.name] for n in names]
            result[group][tool.name] = None if None in values else math.exp(statistics.fmean(map(math.log, values)))
    return result


def whole(seconds, tools, workloads, base="native"):
    """Of workloads that are steps of one work: the ratio of what all of them took together, none where a step failed."""
    steps = [w.name for w in workloads if w.group == "work"]
    if not steps:
        return {}
    rounds = {known: list(zip(*(seconds[name][known] for name in steps))) for known in (base, *(t.name for t in tools[1:]))}
    result = {}
    for tool in tools[1:]:
        pairs = zip(rounds[tool.name], rounds[base])
        each = [sum(mine) / sum(others) for mine, others in pairs if None not in mine and None not in others]
        result[tool.name] = statistics.median(each) if each else None
    return {"all steps of work together": result}


def print_against(seconds, tools, workloads):
    """Each trumanfs divided by each of the others, and where it is behind. Returns the ratios."""
    result = {}
    peers = [t for t in tools[1:] if not isinstance(t, Trumanfs)]
    for mine in (t for t in tools if isinstance(t, Trumanfs)):
        others = peers + [t for t in tools if isinstance(t, Trumanfs) and t is not mine]
        if not others:
            continue
        tables = {t.name: ratios(seconds, [t, mine], t.name) for t in others}
        averages = {t.name: means(tables[t.name], [t, mine], workloads) | whole(seconds, [t, mine], workloads, t.name) for t in others}
        print(f"\n| geometric mean: {mine.name} divided by | {' | '.join(tables)} |")
        print(f"| --- | {' | '.join('---:' for _ in tables)} |")
        for group in averages[others[0].name]:
            print(f"| {group} | {' | '.join(cell(averages[name][group][mine.name]) for name in tables)} |")
        for name, table in tables.items():
            behind = [f"{w.name} {cell(value)}" for w in workloads if (value := table[w.name][mine.name]) and value > 1]
            print(f"\n{mine.name} behind {name}: {', '.join(behind) or 'nowhere'}")
        result[mine.name] = tables
    return result


def cell(value):
    return "failed" if value is None else f"{value:.2f}"


def milliseconds(values):
    known = [v for v in values if v]
    return f"{statistics.median(known) * 1e3:.2f} ms" if known else "failed"


def print_table(seconds, table, averages, tools, workloads):
    others = [t.name for t in tools[1:]]
    print(f"| group | workload | native | {' | '.join(others)} |")
    print(f"| --- | --- | ---: | {' | '.join('---:' for _ in others)} |")
    for w in workloads:
        cells = " | ".join(cell(table[w.name][t]) for t in others)
        print(f"| {w.group} | {w.name} | {milliseconds(seconds[w.name]['native'])} | {cells} |")
    print()
    print(f"| geometric mean | {' | '.join(others)} |")
    print(f"| --- | {' | '.join('---:' for _ in others)} |")
    for group, by_tool in averages.items():
        print(f"| {group} | {' | '.join(cell(by_tool[t]) for t in others)} |")


def environment(options, material, tools):
    processor = next((l.partition(":")[2].strip() for l in Path("/proc/cpuinfo").read_text().splitlines() if l.startswith("model name")), platform.machine())
    versions = {}
    for tool in tools:
        if tool.name in ("native", "keeping"):
            continue
        command = [tool.program if isinstance(tool, Trumanfs) else tool.name, "--version"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        versions[tool.name] = {"version": (done.stdout or done.stderr).strip().splitlines()[:2], "flags": tool.flags}
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "kernel": platform.release(), "processor": processor, "processors": os.cpu_count(),
            "file_system": options.base or options.fs, "rounds": options.rounds, "quick": options.quick, "unprivileged": options.unprivileged,
            "tree": {"files": material.files, "bytes": material.bytes}, "candidates": versions}


def save(options, data):
    if options.json:
        Path(options.json).write_text(json.dumps(data, indent=1) + "\n")
