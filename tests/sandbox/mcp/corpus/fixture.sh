#!/bin/bash
# The Makefiles have expressions of make in single quotes.
# shellcheck disable=SC2016
# Makes a small deterministic project in the current (empty) directory.
set -eu
umask 022
export LC_ALL=C.UTF-8
T='2024-01-15 12:00:00 UTC'

# w FILE: write standard input to FILE without starting a process
w() { local c; IFS= read -rd '' c || :; printf '%s' "$c" > "$1"; }

mkdir -p inventory/sub tests csrc data docs/notes logs scripts config nested/a/b/c templates

# ---- first layer: Python package, readme, config -------------------------
w README.md <<'EOF'
# Inventory

A small inventory tool used for tests.

## Install

    pip install .

## Usage

```sh
python3 -m inventory list data/items.json
```

## Features

- add items
- remove items
- compute totals

See [the guide](docs/guide.md) and [the API](docs/api.md).
EOF

w .gitignore <<'EOF'
__pycache__/
*.pyc
*.o
*.log
/build/
csrc/rpn
EOF

w .env <<'EOF'
APP_ENV=development
APP_PORT=8080
APP_NAME="Inventory Tool"
# comment
DEBUG=true
EOF

w pyproject.toml <<'EOF'
[project]
name = "inventory"
version = "0.2.1"
requires-python = ">=3.8"

[tool.lint]
max-line = 88
exclude = ["build", "dist"]
EOF

w requirements.txt <<'EOF'
requests==2.31.0
click>=8.0
pyyaml==6.0.1
# dev
pytest==7.4.0
black
EOF

w inventory/__init__.py <<'EOF'
"""Inventory package."""
__version__ = "0.2.1"
EOF

w inventory/__main__.py <<'EOF'
import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
EOF

w inventory/models.py <<'EOF'
"""Data models."""


class Item:
    __slots__ = ("name", "qty", "price")

    def __init__(self, name, qty=0, price=0.0):
        self.name = name
        self.qty = qty
        self.price = price

    def __repr__(self):
        return f"Item({self.name!r}, {self.qty}, {self.price})"
EOF

w inventory/utils.py <<'EOF'
"""Helpers."""
import re

_WS = re.compile(r"\s+")


def normalize(name):
    """Lower-case and collapse blanks."""
    return _WS.sub(" ", name.strip()).lower()


def clamp(value, low, high):
    return max(low, min(high, value))


def slugify(text):
    # TODO: handle umlauts
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
EOF

w inventory/core.py <<'EOF'
"""Core inventory logic."""
from .models import Item
from .utils import clamp, normalize

DEFAULT_LIMIT = 100


class Inventory:
    """Holds items by name."""

    def __init__(self, limit=DEFAULT_LIMIT):
        self.limit = limit
        self._items = {}

    def add(self, name, qty=1, price=0.0):
        key = normalize(name)
        if key in self._items:
            self._items[key].qty += qty
        else:
            self._items[key] = Item(key, qty, price)
        return self._items[key]

    def remove(self, name, qty=1):
        # TODO: log removals
        key = normalize(name)
        if key not in self._items:
            raise KeyError(key)
        item = self._items[key]
        item.qty = clamp(item.qty - qty, 0, self.limit)
        if item.qty == 0:
            del self._items[key]

    def total(self):
        return round(sum(i.qty * i.price for i in self._items.values()), 2)

    def names(self):
        return sorted(self._items)

    def old_api(self, name):
        # FIXME: deprecated, use get()
        return self._items.get(normalize(name))
EOF

w inventory/sub/__init__.py <<'EOF'
EOF

w inventory/sub/parse.py <<'EOF'
"""Parsers for the input formats."""
import csv
import json


def parse_csv(text):
    rows = list(csv.reader(text.splitlines()))
    head, body = rows[0], rows[1:]
    return [dict(zip(head, r)) for r in body]


def parse_json(text):
    data = json.loads(text)
    if "items" not in data:
        raise ValueError("no items")
    return data["items"]
EOF

w inventory/cli.py <<'EOF'
"""Command line."""
import sys

from .core import Inventory
from .sub.parse import parse_json


def main(argv):
    if len(argv) != 2 or argv[0] not in ("list", "total"):
        print("usage: inventory list|total FILE", file=sys.stderr)
        return 2
    inv = Inventory()
    with open(argv[1], encoding="utf-8") as fh:
        for it in parse_json(fh.read()):
            inv.add(it["name"], it["qty"], it["price"])
    if argv[0] == "list":
        for name in inv.names():
            print(name)
    else:
        print(f"{inv.total():.2f}")
    return 0
EOF

: > tests/__init__.py

w tests/test_core.py <<'EOF'
import unittest

from inventory.core import Inventory


class CoreTest(unittest.TestCase):
    def test_add(self):
        inv = Inventory()
        inv.add("Blue  Pen", 2, 1.5)
        inv.add("blue pen", 1)
        self.assertEqual(inv.names(), ["blue pen"])
        self.assertEqual(inv.total(), 4.5)

    def test_remove(self):
        inv = Inventory()
        inv.add("cup", 3, 2.0)
        inv.remove("cup", 3)
        self.assertEqual(inv.names(), [])

    def test_remove_missing(self):
        with self.assertRaises(KeyError):
            Inventory().remove("ghost")
EOF

w tests/test_utils.py <<'EOF'
import unittest

from inventory.utils import clamp, normalize, slugify


class UtilsTest(unittest.TestCase):
    def test_normalize(self):
        self.assertEqual(normalize("  A   b "), "a b")

    def test_clamp(self):
        self.assertEqual(clamp(5, 0, 3), 3)
        self.assertEqual(clamp(-1, 0, 3), 0)

    def test_slugify(self):
        self.assertEqual(slugify("Hello, World!"), "hello-world")
EOF

w data/items.json <<'EOF'
{
  "version": 3,
  "owner": {"name": "Zoë", "roles": ["admin", "buyer"]},
  "items": [
    {"name": "Pen", "qty": 10, "price": 1.25, "tags": ["office", "blue"]},
    {"name": "Desk Lamp", "qty": 2, "price": 34.9, "tags": []},
    {"name": "Paper", "qty": 500, "price": 0.02, "tags": ["office"]},
    {"name": "Mug", "qty": 7, "price": 6.5, "tags": ["kitchen", "blue"]}
  ],
  "active": true,
  "note": null
}
EOF

touch -d "$T" README.md .gitignore .env pyproject.toml requirements.txt \
  inventory/*.py inventory/sub/*.py tests/*.py data/items.json

git init -q -b main --template=
git config user.name 'Test User'
git config user.email 'test@example.com'
git config commit.gpgsign false
git add -A
export GIT_AUTHOR_DATE='2024-01-10T09:00:00+0000' GIT_COMMITTER_DATE='2024-01-10T09:00:00+0000'
git commit -q -m 'Initial import of the inventory package'
git tag v0.1.0

# ---- second layer: C program, scripts, data -------------------------------
w csrc/stack.h <<'EOF'
#ifndef STACK_H
#define STACK_H

#define STACK_MAX 64

struct stack {
    long v[STACK_MAX];
    int n;
};

int stack_push(struct stack *s, long x);
int stack_pop(struct stack *s, long *x);

#endif
EOF

w csrc/stack.c <<'EOF'
#include "stack.h"

int stack_push(struct stack *s, long x)
{
    if (s->n >= STACK_MAX)
        return -1;
    s->v[s->n++] = x;
    return 0;
}

int stack_pop(struct stack *s, long *x)
{
    if (s->n == 0)
        return -1;
    *x = s->v[--s->n];
    return 0;
}
EOF

w csrc/main.c <<'EOF'
/* rpn: a tiny reverse-polish calculator */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "stack.h"

static int apply(struct stack *s, char op)
{
    long a, b;

    if (stack_pop(s, &b) || stack_pop(s, &a))
        return -1;
    switch (op) {
    case '+': return stack_push(s, a + b);
    case '-': return stack_push(s, a - b);
    case 'x': return stack_push(s, a * b);
    case '/':
        if (b == 0)
            return -2;
        return stack_push(s, a / b);
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct stack s = { {0}, 0 };
    long r;
    int i, rc;

    for (i = 1; i < argc; i++) {
        if (strlen(argv[i]) == 1 && strchr("+-x/", argv[i][0])) {
            rc = apply(&s, argv[i][0]);
            if (rc == -2) {
                fprintf(stderr, "rpn: division by zero\n");
                return 3;
            }
            if (rc) {
                fprintf(stderr, "rpn: stack underflow\n");
                return 2;
            }
        } else {
            stack_push(&s, strtol(argv[i], NULL, 10));
        }
    }
    while (stack_pop(&s, &r) == 0)
        printf("%ld\n", r);
    return 0;
}
EOF

printf '%s\n' \
  'CC = gcc' \
  'CFLAGS = -O0 -Wall -Wextra' \
  'OBJS = main.o stack.o' \
  '' \
  'rpn: $(OBJS)' \
  '	$(CC) $(CFLAGS) -o $@ $(OBJS)' \
  '' \
  '%.o: %.c stack.h' \
  '	$(CC) $(CFLAGS) -c -o $@ $<' \
  '' \
  'check: rpn' \
  '	@test "$$(./rpn 3 4 +)" = 7 && echo PASS' \
  '' \
  'clean:' \
  '	rm -f rpn *.o' \
  '' \
  '.PHONY: check clean' > csrc/Makefile

printf '%s\n' \
  'PY = python3 -B' \
  'NAME ?= world' \
  '' \
  '.PHONY: all hello count fail test' \
  'all: hello count' \
  '' \
  'hello:' \
  '	@echo "hello $(NAME)"' \
  '' \
  'count:' \
  '	@cat inventory/*.py | wc -l' \
  '' \
  'fail:' \
  '	@echo about to fail' \
  '	@exit 3' \
  '' \
  'test:' \
  '	$(PY) -m unittest -q' \
  '' \
  'out/%.txt: docs/%.md' \
  '	@mkdir -p out' \
  '	sed "s/^#* *//" $< > $@' > Makefile

w scripts/run.sh <<'EOF'
#!/bin/bash
# run.sh [-v] [-n NAME] -- greet
set -e
verbose=0
name=nobody
while getopts ':vn:' o; do
  case $o in
    v) verbose=1 ;;
    n) name=$OPTARG ;;
    :) echo "missing argument for -$OPTARG" >&2; exit 64 ;;
    *) echo "unknown option -$OPTARG" >&2; exit 65 ;;
  esac
done
shift $((OPTIND - 1))
[ "$verbose" = 1 ] && echo "args: $#"
echo "hello $name${*:+ and $*}"
EOF
chmod 755 scripts/run.sh

w scripts/lib.sh <<'EOF'
# shell helpers, to be sourced
GREETING=${GREETING:-Hi}
greet() { printf '%s, %s!\n' "$GREETING" "${1:-you}"; }
die() { echo "fatal: $*" >&2; return "${RC:-1}"; }
EOF

w data/users.csv <<'EOF'
id,name,dept,age,city
1,Alice,eng,34,Berlin
2,Bob,ops,41,Paris
3,Carol,eng,29,Rome
4,Dave,sales,52,Berlin
5,Eve,ops,38,Madrid
6,Frank,eng,45,Paris
7,Grace,sales,27,Rome
8,Heidi,eng,31,Berlin
9,"Ivan, Jr.",ops,36,Oslo
10,Judy,sales,48,Paris
EOF

printf '%s\t%s\t%s\n' \
  u1 math 91 u2 math 78 u3 math 85 u1 art 66 u2 art 95 u3 art 70 \
  u1 bio 88 u2 bio 59 u3 bio 77 > data/scores.tsv

printf '%s\n' banana apple cherry apple date banana apple elderberry fig date \
  Cherry grape 10 9 2 33 > data/words.txt

: > data/empty.txt
printf 'first line\nsecond line\nlast line without newline' > data/no_newline.txt
printf 'alpha\r\nbeta\r\ngamma\r\ndelta\r\n' > data/crlf.txt
printf '\000\001\002\003\177ELF\200\377\376\n\r\t text inside \000\000binary\001\n\033[0m\xc3\x28end' > data/blob.bin

touch -d "$T" csrc/* Makefile scripts/* data/*
git add -A
export GIT_AUTHOR_DATE='2024-01-12T10:30:00+0000' GIT_COMMITTER_DATE='2024-01-12T10:30:00+0000'
git commit -q -m 'Add C calculator, scripts and data'

# ---- third layer: docs, odd names -----------------------------------------
w docs/guide.md <<'EOF'
# Guide

## Getting started

Run `make hello` first.

## Configuration

| key  | default | meaning        |
|------|---------|----------------|
| port | 8080    | TCP port       |
| mode | dev     | run mode       |

## Troubleshooting

1. Check the log.
2. Check the port.
3. Ask for help at <https://example.com/help>.
EOF

w docs/api.md <<'EOF'
# API

## Inventory

### add(name, qty=1, price=0.0)

Adds an item. See [guide](guide.md).

### remove(name, qty=1)

Removes an item; raises `KeyError`.

### total()

Returns the total. See also [missing](nowhere.md).
EOF

w docs/notes/todo.md <<'EOF'
# Todo

- [x] write tests
- [ ] write docs
- [ ] remove old_api
- [x] set up CI
EOF

w 'docs/release notes.md' <<'EOF'
# Release notes

* 0.2.1 - fix totals
* 0.2.0 - add CLI
* 0.1.0 - first release
EOF

w config/app.ini <<'EOF'
[server]
host = localhost
port = 8080

[database]
url = sqlite:///app.db
pool = 5
; end
EOF

w config/dev.ini <<'EOF'
[server]
host = 0.0.0.0
port = 9090
debug = yes
EOF

w templates/email.tmpl <<'EOF'
Dear {{name}},

your order {{order}} of {{count}} items costs ${{price}}.
Use \n for newlines & "quotes" where needed.

Yours,
{{sender}}
EOF

printf 'deep file\nlevel=4\n' > nested/a/b/c/deep.txt
printf 'b1\nb2\nb3\n' > nested/a/b/mid.txt
printf '#!/bin/sh\necho "nested tool: $1"\nexit 7\n' > nested/a/tool
chmod 755 nested/a/tool
printf 'Grüße aus Köln\nnaïve café\nplain ascii\n' > grüße.txt
printf 'I start with a dash\n' > ./-dash.txt
ln -s logs/app.log latest.log
ln -s ../docs nested/docs-link

touch -h -d "$T" docs/*.md docs/notes/*.md config/* templates/* nested/a/b/c/deep.txt \
  nested/a/b/mid.txt nested/a/tool grüße.txt ./-dash.txt latest.log nested/docs-link
git add -A
export GIT_AUTHOR_DATE='2024-01-14T16:45:00+0000' GIT_COMMITTER_DATE='2024-01-14T16:45:00+0000'
git commit -q -m 'Write docs, configs and templates'

# ---- not committed: logs (ignored), untracked and modified files ----------
levels=(INFO INFO DEBUG INFO WARN INFO ERROR DEBUG)
mods=(auth db http cache queue)
msgs=('request done' 'connection reset' 'user login' 'cache miss' 'retry scheduled' 'slow query' 'disk check')
{
  for ((i = 1; i <= 320; i++)); do
    printf '2024-01-%02d %02d:%02d:%02d %-5s [%s] %s id=%d ms=%d\n' \
      $((i / 100 + 10)) $((i / 15 % 24)) $((i * 7 % 60)) $((i * 13 % 60)) \
      "${levels[i * 5 % 8]}" "${mods[i * 3 % 5]}" "${msgs[i * 11 % 7]}" \
      $((1000 + i)) $((i * 37 % 991))
  done
} > logs/app.log
codes=(200 200 304 200 404 200 500 301)
urls=(/ /index.html /api/items /api/users /static/app.js /login)
{
  for ((i = 1; i <= 150; i++)); do
    m=GET; ((i % 9 == 0)) && m=POST
    printf '10.0.%d.%d - - [15/Jan/2024:12:%02d:%02d +0000] "%s %s HTTP/1.1" %d %d\n' \
      $((i % 3)) $((i * 7 % 20)) $((i / 60)) $((i % 60)) "$m" "${urls[i * 5 % 6]}" \
      "${codes[i * 3 % 8]}" $((i * 97 % 5000))
  done
} > logs/access.log

printf 'remember the milk\ncall Bob\n' > 'my notes.txt'
printf 'name: demo\nsteps:\n  - build\n  - test\n' > 'data/two  blanks.yml'
printf -- '- [ ] draft release\n' >> docs/notes/todo.md

find . -name .git -prune -o -exec touch -h -d "$T" {} +
