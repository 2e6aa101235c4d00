//! Real work through `trumanfs run`, in a mounted home: what developers' tools do all day, without a network.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{command, good};
use crate::common::{Home, need_mount, need_tools, run_limited, tool};

/// The time limit of one piece of work: two processors build, and other tests run beside it.
const LIMIT: Duration = Duration::from_secs(180);

/// A home in which packages' links work, and a policy for shell scripts that see these directories of the host.
struct Work {
    home: Home,
    policy: PathBuf,
}

impl Work {
    fn new(bind_ro: &[&Path]) -> Work {
        let home = Home::with(&["--symlinks", "inside"]);
        let policy = home.base().join("policy.yaml");
        let bound: Vec<String> = bind_ro
            .iter()
            .map(|dir| format!("\"{}\"", dir.display()))
            .collect();
        let text = format!(
            "bash: {{flags: {{-euc: text}}, default_timeout: 170, bind_ro: [{}]}}\n",
            bound.join(", ")
        );
        fs::write(&policy, text).unwrap();
        Work { home, policy }
    }

    /// Returns the output of a script, which must succeed.
    #[track_caller]
    fn sh(&self, script: &str) -> String {
        let run = command(
            self.home.home(),
            &self.policy,
            &[],
            &["bash", "-euc", script],
        );
        good(&run_limited(run, LIMIT))
    }

    /// Takes back all of the last run, and expects that nothing is left of it.
    #[track_caller]
    fn undo(&self, left: &[&str]) {
        let mut undo = std::process::Command::new(crate::common::binary());
        undo.arg("undo")
            .arg(self.home.store())
            .args(["--run", "last"]);
        good(&run_limited(undo, LIMIT));
        let mut names: Vec<String> = fs::read_dir(self.home.home())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, left);
    }
}

#[test]
fn pytest_with_two_workers() {
    need_mount!();
    let has = std::process::Command::new("/usr/bin/python3")
        .args(["-c", "import pytest, xdist"])
        .output();
    if !has.is_ok_and(|output| output.status.success()) {
        crate::need::skip!("system-python", "/usr/bin/python3 has no pytest with xdist");
    }
    let work = Work::new(&[]);
    fs::write(
        work.home.path("test_many.py"),
        "import multiprocessing, os, pytest, subprocess\n\
         @pytest.mark.parametrize('n', range(40))\n\
         def test_number(n, tmp_path):\n    (tmp_path / 'f').write_text(str(n)); assert int((tmp_path / 'f').read_text()) == n\n\
         def test_worker():\n    assert os.environ['PYTEST_XDIST_WORKER'] in ('gw0', 'gw1')\n\
         def test_child():\n    assert subprocess.check_output(['echo', 'x']) == b'x\\n'\n\
         def test_pool():\n    assert multiprocessing.Pool(2).map(abs, [-1, -2]) == [1, 2]\n",
    )
    .unwrap();
    let said = work.sh("/usr/bin/python3 -m pytest -q -n2 -p no:cacheprovider test_many.py");
    assert!(said.contains("43 passed"), "{said}");
    // A failing test is the program's failure, and is told.
    fs::write(
        work.home.path("test_bad.py"),
        "def test_bad():\n    assert 1 == 2\n",
    )
    .unwrap();
    let said = work
        .sh("/usr/bin/python3 -m pytest -q -n2 -p no:cacheprovider test_bad.py || echo ended $?");
    assert!(
        said.contains("1 failed") && said.ends_with("ended 1\n"),
        "{said}"
    );
}

#[test]
fn cargo_builds_and_tests_with_a_vendored_dependency() {
    need_mount!();
    need_tools!("gcc");
    let Some(cargo) = std::env::var_os("CARGO").map(PathBuf::from) else {
        crate::need::skip!("tools", "this was not started by cargo");
    };
    // It may lie in another user's home.
    if fs::metadata(&cargo).is_err() {
        crate::need::skip!("tools", "cargo is not where this user can go");
    }
    let toolchain = cargo.parent().and_then(Path::parent).unwrap();
    let work = Work::new(&[toolchain]);
    let said = work.sh(&format!(
        r#"export PATH={}:$PATH CARGO_HOME=$HOME/.cargo
        mkdir -p app/src app/vendor/dep/src app/.cargo; cd app
        printf '[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\ndep = "1"\n' >Cargo.toml
        printf '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "vendor"\n' >.cargo/config.toml
        printf '[package]\nname = "dep"\nversion = "1.0.0"\nedition = "2021"\nbuild = "build.rs"\n' >vendor/dep/Cargo.toml
        echo '{{"files":{{}},"package":null}}' >vendor/dep/.cargo-checksum.json
        echo 'fn main() {{ println!("cargo:rustc-env=WORD=built"); }}' >vendor/dep/build.rs
        echo 'pub fn word() -> &'"'"'static str {{ env!("WORD") }}' >vendor/dep/src/lib.rs
        printf 'fn main() {{ println!("{{}}", dep::word()); }}\n#[test] fn word() {{ assert_eq!(dep::word(), "built"); }}\n' >src/main.rs
        cargo build -q --offline; ./target/debug/app
        cargo test -q --offline 2>&1 | grep '^test result' | cut -d. -f1
        touch src/main.rs; cargo build -q --offline; cargo clean -q; ls"#,
        toolchain.join("bin").display()
    ));
    assert_eq!(
        said,
        "built\ntest result: ok\nCargo.lock\nCargo.toml\nsrc\nvendor\n"
    );
    work.undo(&[]);
}

#[test]
fn npm_installs_from_its_cache_alone() {
    need_mount!();
    need_tools!("npm", "node");
    let work = Work::new(&[]);
    // A lock file with the digest of a package: npm finds that in its cache, and asks no registry.
    let said = work.sh(r##"
        export npm_config_cache=$HOME/.npm npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
        mkdir -p dep/bin app; cd dep
        echo '{"name":"dep","version":"1.0.0","main":"index.js","bin":{"dep-says":"bin/says.js"},"scripts":{"install":"node index.js >installed"}}' >package.json
        echo 'module.exports = "from dep"; console.log(module.exports)' >index.js
        printf '#!/usr/bin/env node\nrequire("..");\n' >bin/says.js
        npm pack --silent >/dev/null; npm cache add ./dep-1.0.0.tgz
        export SUM=$(node -p '"sha512-" + require("crypto").createHash("sha512").update(require("fs").readFileSync("dep-1.0.0.tgz")).digest("base64")')
        cd ../app
        echo '{"name":"app","version":"1.0.0","dependencies":{"dep":"1.0.0"},"scripts":{"say":"dep-says"}}' >package.json
        node >package-lock.json -e 'console.log(JSON.stringify({name: "app", version: "1.0.0", lockfileVersion: 3, packages: {
            "": {name: "app", version: "1.0.0", dependencies: {dep: "1.0.0"}},
            "node_modules/dep": {version: "1.0.0", resolved: "https://registry.npmjs.org/dep/-/dep-1.0.0.tgz", integrity: process.env.SUM, hasInstallScript: true, bin: {"dep-says": "bin/says.js"}}}}))'
        npm ci --offline --silent; npm run --silent say; cat node_modules/dep/installed
        # What the cache has not is an error, at once.
        sed -i "s/sha512-.\{8\}/sha512-AAAAAAAA/" package-lock.json; rm -r node_modules
        npm ci --offline --silent || echo not there"##);
    assert_eq!(said, "from dep\nfrom dep\nnot there\n");
    work.undo(&[]);
}

#[test]
fn a_server_in_node_and_clients_of_other_tools() {
    need_mount!();
    need_tools!("node", "curl");
    let work = Work::new(&[]);
    let said = work.sh(
        r#"cat >server.js <<'END'
const http = require('http'), fs = require('fs');
let count = 0;
http.createServer((ask, answer) => {
    let text = '';
    ask.on('data', part => text += part).on('end', () => answer.end(ask.method + ' ' + text.length + ' ' + ++count + '\n'));
}).listen(8080, () => fs.writeFileSync('ready', ''));
END
        node server.js & while ! [ -e ready ]; do sleep 0.05; done
        curl -sS http://localhost:8080/; head -c 3000000 /dev/zero >big; curl -sS --data-binary @big http://127.0.0.1:8080/
        curl -sS -g 'http://[::1]:8080/'; node -e 'fetch("http://localhost:8080/").then(a => a.text()).then(t => process.stdout.write(t))'
        ! curl -sS http://localhost:8081/ 2>/dev/null; kill %1; wait %1 || true"#,
    );
    assert_eq!(said, "GET 0 1\nPOST 3000000 2\nGET 0 3\nGET 0 4\n");
}

#[test]
fn a_working_day_of_git() {
    need_mount!();
    need_tools!("git");
    let work = Work::new(&[]);
    let said = work.sh(
        r#"export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q --bare origin.git; git clone -q origin.git work 2>/dev/null; cd work; git checkout -q -b main
        for i in $(seq 30); do mkdir -p d$((i % 5)); seq $i 60 >d$((i % 5))/f$i; done; git add -A; git commit -qm one
        git checkout -q -b topic; sed -i 's/^50$/fifty/' d1/f1; git commit -qam topic; git mv d2 moved; git commit -qm moved
        git checkout -q main; sed -i 's/^50$/FIFTY/' d1/f1; git commit -qam other
        git merge -q topic >/dev/null 2>&1 || echo conflict; git checkout -q --theirs d1/f1; git add -A; git commit -qm merged
        echo wip >>d1/f1; git stash -q; git status --short; git stash pop -q; git status --short; git checkout -q .
        git push -q origin main; git worktree add -q ../tree topic; git -C ../tree log --format=%s | head -1; git worktree remove ../tree
        git rebase -q --onto main topic~1 topic 2>/dev/null || git rebase --abort; git checkout -q main
        git tag v1; git gc -q; git fsck --no-progress --no-dangling; git grep -c fifty -- d1/f1
        git clone -q -b main ../origin.git ../second; git -C ../second log --oneline | wc -l; cd ..; rm -rf work second; ls"#,
    );
    assert_eq!(said, "conflict\n M d1/f1\nmoved\nd1/f1:1\n5\norigin.git\n");
    work.undo(&[]);
}

#[test]
fn java_and_c_are_compiled_and_run() {
    need_mount!();
    need_tools!("gcc", "make");
    let work = Work::new(&[]);
    let said = work.sh(
        r#"printf 'all: app\napp: a.o b.o\n\t$(CC) -o $@ $^\nclean:\n\trm -f *.o app\n' >Makefile
        echo 'int word(void); int puts(const char *); int main(void) { return puts(word() == 7 ? "seven" : "no") < 0; }' >a.c
        echo 'int word(void) { return 7; }' >b.c
        make -s -j2; ./app; touch b.c; make -s; make -s clean; ls | tr '\n' ' '; rm *"#,
    );
    assert_eq!(said, "seven\nMakefile a.c b.c ");
    if tool("javac").is_none() {
        crate::need::skip!("tools", "there is no javac on this machine");
    }
    let said = work.sh(
        r#"mkdir -p p; echo 'package p; public class Dep { public static int seven() { return 7; } }' >p/Dep.java
        echo 'public class Main { public static void main(String[] a) { System.out.println(p.Dep.seven() + a.length); } }' >Main.java
        javac -J-Xint -d out Main.java p/Dep.java; jar cf app.jar -C out .; java -cp app.jar Main x y"#,
    );
    assert_eq!(said, "9\n");
}

#[test]
fn go_builds_and_tests() {
    need_mount!();
    if tool("go").is_none() {
        crate::need::skip!("go", "there is no go on this machine");
    }
    let work = Work::new(&[]);
    let said = work.sh(
        r#"export GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local
        mkdir -p app/dep; cd app; printf 'module example.test/app\n\ngo 1.19\n' >go.mod
        printf 'package dep\n\nfunc Word() string { return "built" }\n' >dep/dep.go
        printf 'package dep\n\nimport "testing"\n\nfunc TestWord(t *testing.T) { t.Parallel(); if Word() != "built" { t.Fatal() } }\n' >dep/dep_test.go
        printf 'package main\n\nimport (\n"example.test/app/dep"\n"fmt"\n"net"\n)\n\nfunc main() { l, e := net.Listen("tcp", "127.0.0.1:0"); fmt.Println(dep.Word(), e, l != nil) }\n' >main.go
        go vet ./...; go build -o app .; ./app; go test ./dep | cut -f1"#,
    );
    assert_eq!(said, "built <nil> true\nok  \n");
}
