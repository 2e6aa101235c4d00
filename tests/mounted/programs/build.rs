//! Compilers, make and cargo, and running what they built.

use std::path::PathBuf;

use crate::common::{need_mount, need_tools, skip};
use crate::programs::script::{NO_PASSTHROUGH, PLAIN, in_home, mount, same};

const C: &str = r##"
    mkdir -p src; cd src
    cat >main.c <<'END'
#include <stdio.h>
#include "lib.h"
int main(void) { printf("%d\n", twice(21)); return 0; }
END
    echo 'int twice(int);' >lib.h
    printf '#include "lib.h"\nint twice(int n) { return 2 * n; }\n' >lib.c
    printf 'prog: main.o lib.o\n\tgcc -o $@ $^\n%%.o: %%.c lib.h\n\tgcc -O1 -g -c -o $@ $<\nclean:\n\trm -f *.o prog\n' >Makefile
    make -s; ./prog; make | grep -c 'up to date'
    touch -d '+2 seconds' lib.c; make -n | wc -l; make -s -j4; ./prog
    sed -i 's/2 \*/3 */' lib.c; touch -d '+4 seconds' lib.c; make -s; ./prog; make -s clean; ls
    gcc -c -o lib.o lib.c; ar rcs libtwice.a lib.o; ranlib libtwice.a; gcc -o static main.c -L. -ltwice; ./static
    gcc -shared -fPIC -o libtwice.so lib.c; gcc -o dynamic main.c ./libtwice.so; ./dynamic
    strip dynamic; ./dynamic; objdump -h dynamic | wc -l; cp dynamic moved; rm dynamic; ./moved
    gcc -O2 -flto -o lto main.c lib.c; ./lto; gcc -pipe -save-temps -o temps main.c lib.c; ./temps; ls *.i *.s | wc -l
"##;

#[test]
fn gcc_make_and_ar() {
    need_mount!();
    need_tools!("gcc", "make");
    same(&mount(PLAIN), C);
}

#[test]
fn gcc_make_and_ar_without_passthrough() {
    need_mount!();
    need_tools!("gcc", "make");
    same(&mount(NO_PASSTHROUGH), C);
}

#[test]
fn what_runs_cannot_be_written_and_what_is_written_cannot_run() {
    need_mount!();
    // The kernel decides, and kernels differ; so an ordinary directory says what is right.
    for options in [PLAIN, NO_PASSTHROUGH] {
        same(
            &mount(options),
            r#"
            cp "$(type -P sleep)" program; ./program 30 & running=$!
            until [ "$(readlink /proc/$running/exe | sed 's/.*work/work/')" = work/program ]; do sleep 0.02; done
            { echo x >>program; } 2>&1 | sed 's/.*: //' || true
            { echo x >program; } 2>&1 | sed 's/.*: //' || true
            cp --remove-destination "$(type -P true)" program; ./program && echo replaced
            kill $running; wait $running || true
            cp "$(type -P true)" writing; exec 7>>writing; ./writing 2>&1 | sed 's/.*: //' || true
            exec 7>&-; ./writing && echo runs
            printf '#!/bin/sh\necho script "$@"\n' >script; chmod +x script; ./script a b
            printf '#!/usr/bin/env python3\nprint(6 * 7)\n' >py; chmod 755 py; ./py
            chmod -x script; ./script 2>&1 | sed 's/.*: //' || true
            printf '#!/no/such\n' >bad; chmod +x bad; ./bad 2>/dev/null || echo $?
            "#,
        );
    }
}

#[test]
fn cargo_builds_tests_and_builds_nothing_twice() {
    need_mount!();
    let Some(cargo) = std::env::var_os("CARGO").map(PathBuf::from) else {
        skip!("tools", "cargo does not say where it is");
    };
    let Some(rustc) = cargo
        .parent()
        .map(|dir| dir.join("rustc"))
        .filter(|rustc| rustc.exists())
    else {
        skip!("tools", "there is no rustc beside cargo");
    };
    let home = mount(PLAIN);
    let script = format!(
        r#"
        export CARGO_HOME="$BASE/cargo" RUSTC='{}' CARGO_NET_OFFLINE=true
        cargo() {{ '{}' "$@"; }}
        cargo new -q --vcs none --lib one; cargo new -q --vcs none two; rm -f */Cargo.lock
        printf '[workspace]\nmembers = ["one", "two"]\nresolver = "2"\n' >Cargo.toml
        echo 'one = {{ path = "../one" }}' >>two/Cargo.toml
        echo 'fn main() {{ println!("{{}}", one::add(40, 2)); }}' >two/src/main.rs
        cargo build -q; ./target/debug/two
        cargo build -v 2>&1 | grep -c Fresh
        touch -d '+3 seconds' one/src/lib.rs; cargo build -v 2>&1 | grep -c Dirty
        cargo test -q --workspace --lib 2>&1 | grep -c 'test result: ok. 1 passed'
        cargo clean -q; [ ! -e target ]
        "#,
        rustc.display(),
        cargo.display()
    );
    assert_eq!(in_home(&home, &script), "42\n2\n2\n1\n");
}
