"""Reads a directory of `entry-NNNNNN` while its entries are removed and others are made. usage: listing.py DIR"""

import os
import sys

directory = sys.argv[1]
expected = set(os.listdir(directory))
removed = set()
seen = []
with os.scandir(directory) as listing:
    for number, entry in enumerate(listing):
        seen.append(entry.name)
        if number % 50 == 0:
            # One that was just seen, one that may be anywhere, and a new one.
            for name in (entry.name, f"entry-{(number * 7919) % 100000:06}"):
                if name not in removed:
                    os.unlink(os.path.join(directory, name))
                    removed.add(name)
            open(os.path.join(directory, f"new-{number}"), "w").close()
counts = {}
for name in seen:
    counts[name] = counts.get(name, 0) + 1
twice = [name for name, count in counts.items() if count > 1]
missing = [name for name in expected - removed if name not in counts]
assert not twice, f"{len(twice)} listed twice, {twice[:3]}"
assert not missing, f"{len(missing)} not listed, {missing[:3]}"
after = set(os.listdir(directory))
assert expected - removed <= after and not removed & after
print("ok")
