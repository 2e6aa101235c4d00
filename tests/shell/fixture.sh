# shellcheck shell=bash
# Makes the tree in which each line of the differential test runs, in the working directory. Sourced by bash, twice.
umask 022
mkdir -p src/util docs data/deep/er/est empty .hidden 'with space'
printf 'fn main() {\n    println!("hello");\n    // TODO: say more\n}\n' > src/main.rs
printf 'pub fn add(a: i32, b: i32) -> i32 {\n    a + b\n}\n\n#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n' > src/lib.rs
printf 'def load(path):\n    return open(path).read()\n\n\nclass Store:\n    def get(self, key):\n        return self.items[key]\n' > src/util/store.py
printf 'import store\n\ndef main():\n    print(store.Store())  # TODO\n' > src/util/run.py
printf '# Readme\n\nThe quick brown fox\njumps over the lazy dog.\n\nSee docs/guide.md, or ask.\n' > README.md
printf '# Guide\n\n1. Install\n2. Run\n\n\n3. TODO\n' > docs/guide.md
printf 'no newline at the end' > docs/short.txt
printf 'a\tb\r\n\001\177\200\377\n\n\n\nend\n' > docs/odd.txt
: > data/zero
seq 1 250 > data/numbers.txt
seq 1 5 | sed 's/$/,apple,Red/' > data/table.csv
printf 'banana\nApple\ncherry\napple pie\nAPPLE\nbanana split\n' > data/fruit.txt
printf 'GNU\0binary\nfruit apple\n\0\0' > data/blob.bin
printf 'x%.0s' $(seq 1 5000) > data/wide.txt
printf '\nsecond line\n' >> data/wide.txt
printf 'bottom\n' > data/deep/er/est/bottom.txt
printf 'secret = 1\n' > .hidden/config
printf '[user]\n' > .settings
printf 'spaced\n' > 'with space/a file.txt'
printf 'star\n' > 'data/st*r.txt'
printf 'dash\n' > ./-dash.txt
printf '#!/bin/sh\necho hi\n' > run.sh
chmod 755 run.sh
chmod 600 .settings
touch -d '2026-01-02 03:04:05 UTC' README.md src/main.rs docs/guide.md
touch -d '2026-03-04 05:06:07 UTC' src/lib.rs data/fruit.txt run.sh
touch -d '2020-05-06 07:08:09 UTC' data/numbers.txt docs/odd.txt .settings
touch -d '2019-07-08 09:10:11 UTC' src/util/*.py data/*.csv data/*.bin data/zero data/wide.txt docs/short.txt
touch -d '2018-01-01 00:00:00 UTC' data/deep/er/est/bottom.txt .hidden/config 'with space/a file.txt' 'data/st*r.txt' ./-dash.txt
touch -d '2021-01-01 00:00:00 UTC' data/deep/er/est data/deep/er data/deep data src/util src docs empty .hidden 'with space'
