//! Homes with `--symlinks inside`: programs that need symlinks within the home.

use crate::common::{need_mount, need_tools};
use crate::programs::script::{PLAIN, in_home, mount, same};

const INSIDE: &[&str] = &["--symlinks", "inside"];

#[test]
fn git_checks_links_out() {
    need_mount!();
    need_tools!("git");
    let home = mount(INSIDE);
    let script = r#"
        git init -q -b main repo; cd repo; mkdir -p a/b; echo 1 >a/file
        ln -s a/file link; ln -s ../file a/b/up; ln -s b a/dir; ln -s missing dangling
        git add -A; git commit -qm links; git rev-parse HEAD; git ls-files -s
        cat link a/b/up a/dir/up; readlink link dangling; cat dangling 2>&1 || true; stat -c '%F %s' link
        rm -r a link; git checkout -q -- .; git status --short; cat a/dir/up
        ln -sfn a/b link; readlink link; git diff --stat; git stash -q; readlink link; git stash pop -q
        git clone -q . ../clone; cat ../clone/link; cp -a ../clone ../copy; diff -r --no-dereference ../clone ../copy
        mv link moved; readlink moved; find . -path ./.git -prune -o -type l -print | sort; ln -P moved hard; stat -c %h hard
        rm moved hard dangling; ls -A; tar c a | tar x -C ../copy; readlink ../copy/a/b/up
    "#;
    same(&home, script);
}

#[test]
fn git_without_links_writes_them_as_files() {
    need_mount!();
    need_tools!("git");
    let home = mount(PLAIN);
    let said = in_home(
        &home,
        r#"
        git init -q -b main "$BASE/origin"; echo 1 >"$BASE/origin/file"; ln -s file "$BASE/origin/link"
        git -C "$BASE/origin" add -A; git -C "$BASE/origin" commit -qm links
        git clone -q "$BASE/origin" repo; cd repo; git config core.symlinks; cat link; echo; git status --short
        ln -s file other 2>&1 | sed 's/.*: //' || true
        "#,
    );
    assert_eq!(said, "false\nfile\nOperation not permitted\n");
}

#[test]
fn a_virtual_environment_of_python_works() {
    need_mount!();
    need_tools!("python3");
    let home = mount(INSIDE);
    let said = in_home(
        &home,
        r#"
        python3 -c 'import ensurepip' && pip= || pip=--without-pip
        python3 -m venv $pip env 2>venv.log || { cat venv.log; exit 1; }
        . env/bin/activate
        python -c 'import sys; print(sys.prefix != sys.base_prefix)'
        python -c 'import os, sys; print(os.path.realpath(sys.prefix) == os.path.realpath("env"))'
        if [ -z "$pip" ]; then
            mkdir -p package/greet; echo 'def hello(): print("hello")' >package/greet/__init__.py
            site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
            pip --version >/dev/null; pip list --disable-pip-version-check 2>/dev/null | grep -c '^pip '
            echo "$PWD/package" >"$site/greet.pth"
            python -c 'import greet; greet.hello()'
        else
            printf '1\nhello\n'
        fi
        [ "$(readlink env/lib64)" = lib ]
        "#,
    );
    assert_eq!(said, "True\nTrue\n1\nhello\n");
}

#[test]
fn npm_installs_a_local_package_and_runs_it() {
    need_mount!();
    need_tools!("npm", "node");
    let home = mount(INSIDE);
    let said = in_home(
        &home,
        r##"
        mkdir -p dep/bin app; cd app
        echo '{"name":"dep","version":"1.0.0","main":"index.js","bin":{"dep-says":"bin/says.js"}}' >../dep/package.json
        echo 'module.exports = () => "from dep";' >../dep/index.js
        printf '#!/usr/bin/env node\nconsole.log(require("..")());\n' >../dep/bin/says.js
        echo '{"name":"app","version":"1.0.0","scripts":{"say":"dep-says"}}' >package.json
        npm install --offline --no-audit --no-fund --silent ../dep
        [ "$(readlink node_modules/dep)" = ../../dep ]
        ./node_modules/.bin/dep-says; node -e 'console.log(require("dep")())'
        npm run --silent say; npm ls --silent >/dev/null; npm uninstall --offline --silent dep; ls node_modules
        "##,
    );
    assert_eq!(said, "from dep\nfrom dep\nfrom dep\n");
}
