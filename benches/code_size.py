#!/usr/bin/env python3
"""Counts what docs/decisions/0066-crates.md tells of a checkout: lines by crate, files, words of docs.

usage: benches/code_size.py [DIRECTORY]

Lines are those of src/ and crates/*/src/ without tests (`tests.rs`, `tests/`, and what follows `#[cfg(test)]`). Code is
what is neither blank nor a comment. Type names and the lengths of functions are counted by tests/architecture.rs.
"""

import collections
import pathlib
import re
import sys

top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
lines, code, files, small = (collections.Counter() for _ in range(4))
for path in sorted([*top.glob("src/**/*.rs"), *top.glob("crates/*/src/**/*.rs"), *top.glob("init/src/**/*.rs")]):
    where = path.relative_to(top)
    if where.name == "tests.rs" or "tests" in where.parts:
        continue
    crate = where.parts[1] if where.parts[0] == "crates" else where.parts[0]
    text = re.split(r"\n#\[cfg\(test\)\]\n", path.read_text())[0].splitlines()
    stripped = [line.strip() for line in text]
    lines[crate] += len(text)
    code[crate] += sum(1 for line in stripped if line and not line.startswith("//"))
    files[crate] += 1
    small[crate] += len(text) < 40
print(f"{'crate':10} {'lines':>8} {'code':>8} {'files':>6} {'< 40':>6}")
for crate in sorted(lines, key=lambda crate: -lines[crate]):
    print(f"{crate:10} {lines[crate]:8} {code[crate]:8} {files[crate]:6} {small[crate]:6}")
print(f"{'all':10} {lines.total():8} {code.total():8} {files.total():6} {small.total():6}")
pages = [top / "README.md", *top.glob("docs/**/*.md")]
print(f"words of README.md and docs: {sum(len(page.read_text().split()) for page in pages)}")
