//! Access and ownership: `--owner`, `--allow-other`, and a home mounted by an ordinary user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::common::{Home, describe, need_mount, need_root, need_tools};
use crate::programs::script::{LEAVE_OTHERS, as_user, bash};

const USER: u32 = 12_345;
const OTHER: u32 = 12_346;

fn chown(path: &Path, uid: u32) {
    std::os::unix::fs::chown(path, Some(uid), Some(uid)).expect("chown");
}

fn run_as(home: &Home, uid: u32, script: &str) -> String {
    let output = as_user(uid, home.home(), home.base(), script);
    assert!(output.status.success(), "{script}: {}", describe(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const WORK: &str = r#"
    id -u; mkdir -p a/b; echo 1 >a/b/c; cp -a a copy; diff -r a copy; mv copy moved; ln moved/b/c hard; sed -i s/1/2/ hard; rm -r moved
    chmod 600 a/b/c; touch -d '2001-01-01 UTC' a/b/c; stat -c '%u %g %a %Y' a/b/c
    git init -q -b main repo; cd repo; for n in 1 2 3; do echo $n >f$n; git add -A; git commit -qm $n; done
    git checkout -q -b topic HEAD~1; echo t >t; git add t; git commit -qm t; git rebase -q main; git gc -q; git fsck | grep -v dangling || true; git status --short; git log --oneline | wc -l
"#;

#[test]
fn an_owner_works_with_their_own_rights_and_nobody_else_gets_in() {
    need_mount!();
    need_root!("to be several users");
    need_tools!("setpriv", "git");
    for extra in [&[][..], &["--no-passthrough"]] {
        let home = Home::plan()
            .options(&["--owner", "12345"])
            .options(extra)
            .prepare(|store| {
                chown(store, USER);
                fs::create_dir(store.join("of-root")).unwrap();
                fs::write(store.join("of-root/secret"), "s").unwrap();
                fs::set_permissions(
                    store.join("of-root/secret"),
                    std::os::unix::fs::PermissionsExt::from_mode(0o600),
                )
                .unwrap();
            })
            .mount();
        // The script's own directories would be root's, and root does not get in.
        let output = as_user_in(&home, USER, WORK);
        assert_eq!(output, format!("{USER}\n{USER} {USER} 600 978307200\n4\n"));
        let meta = fs::metadata(home.store().join("a/b/c")).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (USER, USER));
        // Their own rights, no more: what root keeps in the store is root's.
        assert_eq!(
            as_user_in(
                &home,
                USER,
                "cat of-root/secret 2>&1 || true; touch of-root/x 2>&1 || true; rm -f of-root/secret 2>&1 || true; chown 0 a 2>&1 || true"
            )
            .matches("ermi")
            .count(),
            4,
        );
        assert!(home.store().join("of-root/secret").exists());
        // They restore what they removed.
        as_user_in(
            &home,
            USER,
            "rm hard; mv \"$(ls -d .trash/*_hard | tail -n1)\" back; cat back",
        );
        for uid in [0, OTHER] {
            for command in ["ls", "cat a/b/c", "touch x", "stat .", "rm -rf a"] {
                let script = format!("cd /; cd {}; {command}", home.home().display());
                let output = as_user(uid, Path::new("/"), home.base(), &script);
                assert!(
                    !output.status.success(),
                    "{uid}: {command}: {}",
                    describe(&output)
                );
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    said.contains("Permission denied"),
                    "{uid}: {command}: {said}"
                );
            }
        }
        assert!(home.store().join("a/b/c").exists());
    }
}

/// Runs a script as the one user that gets in: it changes into the home itself, since the harness cannot.
fn as_user_in(home: &Home, uid: u32, script: &str) -> String {
    let script = format!("cd {}; {script}", home.home().display());
    let output = as_user(uid, Path::new("/"), home.base(), &script);
    assert!(output.status.success(), "{script}: {}", describe(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn two_users_share_a_home_as_the_modes_say() {
    need_mount!();
    need_root!("to be several users");
    need_tools!("setpriv", "git");
    for extra in [&[][..], &["--no-passthrough"]] {
        let home = Home::plan()
            .options(&["--allow-other"])
            .options(extra)
            .prepare(|store| {
                for (name, uid) in [("one", USER), ("two", OTHER)] {
                    fs::create_dir(store.join(name)).unwrap();
                    chown(&store.join(name), uid);
                }
                fs::create_dir(store.join("tmp")).unwrap();
                fs::set_permissions(
                    store.join("tmp"),
                    std::os::unix::fs::PermissionsExt::from_mode(0o1777),
                )
                .unwrap();
            })
            .mount();
        let expected = |uid: u32| format!("{uid}\n{uid} {uid} 600 978307200\n4\n");
        assert_eq!(
            run_as(&home, USER, &format!("cd one; {WORK}")),
            expected(USER)
        );
        assert_eq!(
            run_as(&home, OTHER, &format!("cd two; {WORK}")),
            expected(OTHER)
        );
        // Each other's private things are private, shared ones are shared, and sticky is sticky.
        let said = run_as(
            &home,
            OTHER,
            r#"
            cat one/a/b/c 2>&1 || true; touch one/x 2>&1 || true; rm -r one/a 2>&1 | tail -1 || true
            cat one/hard; echo mine >tmp/two; chmod 666 tmp/two; ls one | wc -l
            "#,
        );
        assert_eq!(said.matches("Permission denied").count(), 3, "{said}");
        let said = run_as(
            &home,
            USER,
            "echo more >>tmp/two; cat tmp/two; rm -f tmp/two 2>&1 || true; mv tmp/two one 2>&1 || true",
        );
        assert_eq!(said.matches("Operation not permitted").count(), 2, "{said}");
        assert!(said.starts_with("mine\nmore\n"), "{said}");
        // What all of them removed lies in one place, which is the operator's.
        let said = run_as(&home, OTHER, "rm tmp/two; ls .trash 2>&1 || true");
        assert!(said.contains("Permission denied"), "{said}");
        assert_eq!(home.trashed("two").len(), 1);
        // root may do everything, as in any other place.
        bash(
            home.home(),
            home.base(),
            "cat one/a/b/c >/dev/null; rm -r two",
        );
    }
}

#[test]
fn an_ordinary_user_mounts_a_home_of_their_own() {
    need_mount!();
    need_root!("to be several users");
    need_tools!("setpriv", "unshare", "git", "fusermount3");
    let base = tempfile::TempDir::with_prefix("trumanfs-").unwrap();
    fs::set_permissions(
        base.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    // /dev/fuse may be root's alone. In a mount namespace of its own it can be covered by one that is not, without changing the machine.
    let script = format!(
        r#"
        {LEAVE_OTHERS}
        cd "$BASE"; mkdir store home run; chown {USER}:{USER} store home run
        # fusermount3 wants to know a user by name.
        cp /etc/passwd passwd; echo 'occupant:x:{USER}:{USER}::/nonexistent:/bin/false' >>passwd; mount --bind passwd /etc/passwd
        mknod fuse c 10 229; chmod 666 fuse; mount --bind fuse /dev/fuse
        cp '{trumanfs}' trumanfs; chmod 755 trumanfs
        setpriv --reuid={USER} --regid={USER} --clear-groups bash -Eeuo pipefail work
        "#,
        trumanfs = crate::common::binary(),
    );
    let work = format!(
        r#"
        export XDG_RUNTIME_DIR=$PWD/run
        ./trumanfs mount store home
        grep -F " $PWD/home " /proc/self/mountinfo | sed -E 's/.* rw,([a-z,]*) .*- /\1 /' | cut -d' ' -f1-3
        (cd home; {WORK})
        ./trumanfs status home --json | grep -o '"passthrough":[a-z]*'
        ./trumanfs trash list store | grep -c 'was /moved/'
        ./trumanfs mount store home && exit 1 || echo "exit $?"
        ls home | wc -l; ./trumanfs umount home; ls home | wc -l; tail -4 store/.trumanfs/sessions/*/journal.jsonl | grep -o '"op":"end"'
        ./trumanfs mount store home --owner root && exit 1 || echo "exit $?"
        "#
    );
    fs::write(base.path().join("work"), work).unwrap();
    fs::write(base.path().join("script"), script).unwrap();
    let said = bash(
        base.path(),
        base.path(),
        "unshare --mount --propagation private bash -Eeuo pipefail script",
    );
    assert_eq!(
        said,
        format!(
            "nosuid,nodev,relatime fuse.trumanfs trumanfs\n{USER}\n{USER} {USER} 600 978307200\n4\n\"passthrough\":false\n1\nexit 6\n3\n0\n\"op\":\"end\"\nexit 6\n"
        )
    );
}
