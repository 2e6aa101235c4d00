//! Root runs programs in a home of another user, as that user.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use super::{LIMIT, POLICY, Store, audit, err, good};
use crate::common::{Home, describe, need_mount, need_root, run_limited, trumanfs};

/// A user without a name.
const USER: u32 = 12345;

#[test]
fn an_unmounted_store_of_another_user() {
    need_mount!();
    need_root!("to give the store away");
    let store = Store::new();
    chown(&store.store, Some(USER), Some(USER)).unwrap();
    let said = good(&store.run(
        &[],
        &[
            "sh",
            "-c",
            "id -u; id -g; id -G; echo x >file; echo y >/tmp/y; cat /tmp/y; pwd",
        ],
    ));
    assert_eq!(
        said,
        format!("{USER}\n{USER}\n{USER}\ny\n{}\n", store.store.display())
    );
    store.is_left_alone();
    let made = fs::metadata(store.store.join("file")).unwrap();
    assert_eq!((made.uid(), made.gid()), (USER, USER));
    assert_eq!(audit(&store.store).len(), 1);
}

#[test]
fn a_mounted_home_of_another_user() {
    need_mount!();
    need_root!("to mount for another user");
    let home = Home::plan()
        .prepare(|store| chown(store, Some(USER), Some(USER)).unwrap())
        .options(&["--owner", &USER.to_string()])
        .mount();
    let policy = home.base().join("policy.yaml");
    fs::write(&policy, POLICY).unwrap();
    let run = |words: &[&str]| run_limited(super::command(home.home(), &policy, &[], words), LIMIT);
    assert_eq!(
        good(&run(&["sh", "-c", "id -u; echo x >file; cat file"])),
        format!("{USER}\nx\n")
    );
    assert_eq!(run(&["sh", "-c", "exit 5"]).status.code(), Some(5));
    // What needs somebody to get in who cannot says who could.
    let output = trumanfs(&["exec", "--root", home.home().to_str().unwrap(), "--", "ls"]);
    if !output.status.success() {
        let said = err(&output);
        assert!(
            said.contains(&USER.to_string()) && said.contains(home.home().to_str().unwrap()),
            "{}",
            describe(&output)
        );
    }
}

#[test]
fn a_home_for_root_over_files_of_others() {
    need_mount!();
    need_root!("to have files of others");
    let store = Store::new();
    fs::write(store.store.join("theirs"), "x\n").unwrap();
    chown(store.store.join("theirs"), Some(USER), Some(USER)).unwrap();
    assert_eq!(
        good(&store.run(&[], &["sh", "-c", "id -u; cat theirs"])),
        "0\nx\n"
    );
}
