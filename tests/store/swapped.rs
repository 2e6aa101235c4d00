//! The path of a store below another user's directory, given to another directory while root works on the store.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use trumanfs::client::{Client, PinnedDir};
use trumanfs::daemon::MountOptions;

use crate::common::{Home, binary, describe, need_mount, need_root, run_limited, trumanfs};

fn is_store(dir: &Path) -> bool {
    dir.join(".trumanfs").exists()
}

/// Makes a store of a directory, with one record.
fn begin(store: &Path) {
    fs::create_dir(store).unwrap();
    let done = trumanfs(&["exec", "--root", store.to_str().unwrap(), "--", "touch a"]);
    assert!(done.status.success(), "{}", describe(&done));
}

#[test]
fn change_reaches_the_store_that_was_opened() {
    let base = tempfile::tempdir().unwrap();
    let (store, moved) = (base.path().join("s"), base.path().join("moved"));
    begin(&store);
    let client = Client::open(&store).unwrap();
    fs::rename(&store, &moved).unwrap();
    begin(&store);
    client.checkpoint("here").unwrap();
    client.repair(false, &mut |_| {}).unwrap();
    let checkpoints = |store: &Path| {
        let listed = trumanfs(&["checkpoint", "list", store.to_str().unwrap()]);
        String::from_utf8(listed.stdout).unwrap()
    };
    assert!(checkpoints(&moved).contains("here"));
    assert!(!checkpoints(&store).contains("here"));
}

#[test]
fn daemon_refuses_a_store_that_took_the_place_of_another() {
    need_mount!();
    let base = tempfile::tempdir().unwrap();
    let (store, home) = (base.path().join("s"), base.path().join("h"));
    let meta = |path: &Path| fs::metadata(path).unwrap();
    for dir in [&store, &home] {
        fs::create_dir(dir).unwrap();
    }
    let before = (meta(&store).dev(), meta(&store).ino());
    fs::rename(&store, base.path().join("moved")).unwrap();
    fs::create_dir(&store).unwrap();
    let wanted = MountOptions {
        store: store.clone(),
        store_id: Some(before),
        home: home.clone(),
        while_held: true,
        ..MountOptions::default()
    };
    let mut daemon = Command::new(binary());
    daemon
        .arg("__daemon")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut daemon = daemon.spawn().unwrap();
    let text = serde_json::to_vec(&wanted).unwrap();
    daemon.stdin.take().unwrap().write_all(&text).unwrap();
    let output = daemon.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("was replaced by another directory"), "{said}");
    assert!(
        !is_store(&store),
        "something was made in the other directory"
    );
}

#[test]
fn pinned_directory_is_forgotten_and_not_its_successor() {
    let base = tempfile::tempdir().unwrap();
    let (store, moved) = (base.path().join("s"), base.path().join("moved"));
    fs::create_dir(&store).unwrap();
    let pinned = PinnedDir::open(&store).unwrap();
    assert!(!pinned.is_store().unwrap());
    fs::rename(&store, &moved).unwrap();
    begin(&store);
    assert!(!pinned.is_store().unwrap());
    pinned.unmake_store().unwrap();
    assert!(is_store(&store));
}

/// Answers, as an ordinary user's daemon, that the home is another directory and for root.
fn lie(state: &Path, home: &Path) {
    let user = (Uid::from_raw(65534), Gid::from_raw(65534));
    set_thread_groups(&[]).unwrap();
    set_thread_res_gid(user.1, user.1, user.1).unwrap();
    set_thread_res_uid(user.0, user.0, user.0).unwrap();
    let server = UnixListener::bind(state.join("control.sock")).unwrap();
    let held = serde_json::json!({ "home": home, "uid": 0, "gid": 0, "read_only": false });
    let answer = serde_json::json!({ "held": held }).to_string() + "\n";
    std::thread::spawn(move || {
        for connection in server.incoming() {
            let connection = connection.unwrap();
            BufReader::new(&connection)
                .read_line(&mut String::new())
                .unwrap();
            let _ = (&connection).write_all(answer.as_bytes());
        }
    });
}

#[test]
fn root_does_not_believe_a_daemon_of_another_user() {
    need_mount!();
    need_root!("to be asked by a daemon of another user");
    let mut home = Home::mount();
    fs::write(home.path("a"), "a").unwrap();
    home.umount();
    let base = tempfile::tempdir().unwrap();
    for dir in [home.store().parent().unwrap(), base.path()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let state = home.store().join(".trumanfs");
    let _ = fs::remove_file(state.join("control.sock"));
    let _ = fs::create_dir(state.join("scratch"));
    chown(&state, Some(65534), Some(65534)).unwrap();
    let text = fs::read(state.join("lock")).unwrap();
    let mut holder: serde_json::Value = serde_json::from_slice(&text).unwrap();
    holder["pid"] = std::process::id().into();
    fs::write(state.join("lock"), holder.to_string()).unwrap();
    let lock = fs::File::open(state.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    std::thread::scope(|scope| scope.spawn(|| lie(&state, base.path())).join().unwrap());
    let mut agent = Command::new(binary());
    agent.arg("agent").arg("--store").arg(home.store());
    agent.args(["--", "sh", "-c", "echo >written"]);
    let output = run_limited(agent, Duration::from_secs(60));
    assert_eq!(output.status.code(), Some(123), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("runs as user 65534"), "{said}");
    assert!(!base.path().join("written").exists());
}
