//! Interrupted operator commands: the daemon is killed, or the home unmounted, in the middle of an undo, a redo, a
//! restore or a purge; and several commands at once. The report must be true (exit code 5, and how to continue), and
//! continuing must end where an undisturbed command would have.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Home, describe, need_mount, skip, trumanfs};

/// So many that nothing is over before it is noticed.
const MANY: usize = 1500;

/// What a command said and how it ended.
struct Ended {
    code: Option<i32>,
    said: String,
}

fn start(args: &[&OsStr]) -> Child {
    Command::new(crate::common::binary())
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn end(child: Child) -> Ended {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended {
        code: output.status.code(),
        said: text(&output.stdout) + &text(&output.stderr),
    }
}

fn run(code: i32, verb: &str, target: &Path, rest: &[&str]) -> String {
    let mut args: Vec<&OsStr> = verb.split(' ').map(OsStr::new).collect();
    args.push(target.as_os_str());
    args.extend(rest.iter().map(OsStr::new));
    let output = trumanfs(&args);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{args:?}: {}",
        describe(&output)
    );
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The entries of a directory; what the store itself keeps there is hidden.
fn count(dir: &Path) -> usize {
    let shown = |entry: &std::io::Result<fs::DirEntry>| {
        let name = entry.as_ref().unwrap().file_name();
        !name.as_encoded_bytes().starts_with(b".")
    };
    fs::read_dir(dir).map_or(0, |entries| entries.filter(shown).count())
}

/// Waits until something is so; it must come to be.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A home with many files in `d`, all of which are removed.
fn many_removed() -> Home {
    let fill = |store: &Path| {
        fs::create_dir(store.join("d")).unwrap();
        for n in 0..MANY {
            fs::write(store.join(format!("d/{n}")), n.to_string()).unwrap();
        }
    };
    let home = Home::plan()
        .prepare(fill)
        .limit(Duration::from_secs(120))
        .mount();
    home.sh("cd d; ls | xargs rm");
    home
}

fn all_there(store: &Path) -> bool {
    let is =
        |n: usize| fs::read_to_string(store.join(format!("d/{n}"))).ok() == Some(n.to_string());
    (0..MANY).all(is) && count(&store.join("d")) == MANY
}

/// The command in backquotes that goes on.
fn the_way_on(said: &str) -> Vec<String> {
    let command = said.split('`').find(|part| part.starts_with("trumanfs "));
    let command = command.unwrap_or_else(|| panic!("no way to go on: {said}"));
    command.split(' ').skip(1).map(str::to_owned).collect()
}

fn go_on(code: i32, said: &str) -> String {
    let words = the_way_on(said);
    let output = trumanfs(&words);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{words:?}: {}",
        describe(&output)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// It said "refused before anything was done" (6), and "the daemon's answer cannot be understood: EOF".
#[test]
fn a_daemon_killed_in_mid_undo_is_told_as_half_done_and_goes_on() {
    need_mount!();
    let mut home = many_removed();
    let store = home.store().to_owned();
    let target = home.home().to_owned();
    let dir = store.join("d");

    let undo = start(
        &["undo", "TARGET", "--session", "last"].map(|word| match word {
            "TARGET" => target.as_os_str(),
            word => OsStr::new(word),
        }),
    );
    wait_until("some are back", || count(&dir) > 20);
    home.kill_daemon();
    let Ended { code, said } = end(undo);
    if code == Some(0) {
        skip!("chance", "it was done before the daemon was killed");
    }
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("went away in the middle"), "{said}");
    assert!(said.contains("may have been done"), "{said}");
    let back = count(&dir);
    assert!(back < MANY, "{back}");

    // The home does not have to be mounted for it; where it is, `last` would mean another session.
    home.mount_again();
    let again = said.replace(target.to_str().unwrap(), store.to_str().unwrap());
    let undo_again = go_on(0, &again);
    assert!(all_there(&store), "{undo_again}");

    // A redo that is killed: going on takes back the same undo, not the one before it.
    let redo = start(&[OsStr::new("redo"), target.as_os_str()]);
    wait_until("some are gone", || count(&dir) < MANY - 20);
    home.kill_daemon();
    let Ended { code, said } = end(redo);
    if code == Some(0) {
        skip!("chance", "it was done before the daemon was killed");
    }
    assert_eq!(code, Some(5), "{said}");
    let again = said.replace(target.to_str().unwrap(), store.to_str().unwrap());
    go_on(0, &again);
    assert!(!all_there(&store));
    run(0, "fsck", &store, &[]);
}

/// The end of the session was recorded while the undo went on behind it, and the process ended somewhere in the middle.
#[test]
fn an_undo_is_finished_before_an_unmounted_home_lets_its_store_go() {
    need_mount!();
    let mut home = many_removed();
    let store = home.store().to_owned();
    let args = ["undo", "--session", "last"].map(OsStr::new);
    let undo = start(&[args[0], store.as_os_str(), args[1], args[2]]);
    wait_until("some are back", || count(&store.join("d")) > 20);
    home.umount();
    assert!(
        all_there(&store),
        "umount returned before the undo was done"
    );
    let Ended { code, said } = end(undo);
    assert_eq!(code, Some(0), "{said}");
    let journal = home.journal();
    assert_eq!(journal.last().unwrap()["op"], "end");
    run(0, "redo", &store, &[]);
    run(0, "fsck", &store, &[]);
}

/// It said "refused before anything was done" (6), after 1,399 entries were gone.
#[test]
fn a_purge_that_is_interrupted_says_how_much_is_gone() {
    need_mount!();
    for kill in [true, false] {
        // Where this process has to wait for a processor meanwhile, the purge may be done before it is interrupted.
        let interrupted = (0..5).any(|_| interrupt_a_purge(kill));
        assert!(interrupted, "each of five purges was done before its end");
    }
}

/// Interrupts a purge by the end of its daemon. Returns whether it was not done before.
fn interrupt_a_purge(kill: bool) -> bool {
    let mut home = many_removed();
    let store = home.store().to_owned();
    let trash = store.join(".trash");
    let args = ["trash", "purge", "--all"].map(OsStr::new);
    let purge = start(&[args[0], args[1], store.as_os_str(), args[2]]);
    wait_until("some are gone", || count(&trash) < MANY - 200);
    match kill {
        true => home.kill_daemon(),
        false => home.umount(),
    }
    let Ended { code, said } = end(purge);
    let left = count(&trash);
    if code == Some(0) {
        assert_eq!(left, 0, "{said}");
        return false;
    }
    assert_eq!(code, Some(5), "{said}");
    let gone = format!(
        "{} of {MANY} chosen things are gone for good, {left} are",
        MANY - left
    );
    assert!(said.contains(&gone), "{left} left: {said}");
    run(0, "trash purge", &store, &["--all"]);
    assert_eq!(count(&trash), 0);
    assert_eq!(count(&store.join(".trumanfs/purging")), 0);
    run(0, "fsck", &store, &[]);
    true
}

#[test]
fn a_restore_whose_daemon_was_killed_is_taken_back() {
    need_mount!();
    let mut home = many_removed();
    let store = home.store().to_owned();
    let args = ["restore", "d", "--at", "last", "--to", "copy"].map(OsStr::new);
    let restore = start(&[
        args[0],
        store.as_os_str(),
        args[1],
        args[2],
        args[3],
        args[4],
        args[5],
    ]);
    wait_until("some are there", || count(&store.join("copy")) > 20);
    home.kill_daemon();
    let Ended { code, said } = end(restore);
    if code == Some(0) {
        skip!("chance", "it was done before the daemon was killed");
    }
    assert_eq!(code, Some(5), "{said}");
    go_on(0, &said);
    assert!(!store.join("copy").exists());
    run(0, "restore", &store, &["d", "--at", "last", "--to", "copy"]);
    assert_eq!(count(&store.join("copy")), MANY);
    run(0, "fsck", &store, &[]);
}

/// A client that is killed changes nothing of what it asked for.
#[test]
fn what_a_killed_client_asked_for_is_done() {
    need_mount!();
    let mut home = many_removed();
    let store = home.store().to_owned();
    let args = ["undo", "--session", "last"].map(OsStr::new);
    let mut undo = start(&[args[0], store.as_os_str(), args[1], args[2]]);
    wait_until("some are back", || count(&store.join("d")) > 20);
    undo.kill().unwrap();
    undo.wait().unwrap();
    home.umount();
    assert!(all_there(&store));
}

#[test]
fn two_undos_at_once_are_one() {
    need_mount!();
    let home = many_removed();
    let store = home.store().to_owned();
    let args = ["undo", "--session", "last"].map(OsStr::new);
    let both = [0, 1].map(|_| start(&[args[0], store.as_os_str(), args[1], args[2]]));
    let mut codes: Vec<_> = both.into_iter().map(|child| end(child).code).collect();
    codes.sort();
    assert_eq!(codes, [Some(0), Some(1)]);
    assert!(all_there(&store));
    let both = [0, 1].map(|_| start(&[OsStr::new("redo"), store.as_os_str()]));
    for child in both {
        let Ended { code, said } = end(child);
        assert!(matches!(code, Some(0 | 1 | 3)), "{said}");
    }
    assert_eq!(count(&store.join("d")), 0, "taken back once, not twice");
}

fn umount8(home: &Path) {
    let output = Command::new("umount").arg(home).output().unwrap();
    assert!(output.status.success(), "umount: {}", describe(&output));
}

/// `umount` and then `mount` at once said "already being served", once in ten times: the daemon has still to end. Here it has much to
/// finish.
#[test]
fn a_mount_waits_for_the_daemon_of_the_mount_before() {
    need_mount!();
    let mut home = many_removed();
    let store = home.store().to_owned();
    let args = ["undo", "--session", "last"].map(OsStr::new);
    let undo = start(&[args[0], store.as_os_str(), args[1], args[2]]);
    wait_until("some are back", || count(&store.join("d")) > 20);
    umount8(home.home());
    home.mount_again();
    assert!(all_there(&store), "mounted before the undo was done");
    assert_eq!(end(undo).code, Some(0));
    assert!(home.path("d/7").exists());
    // And where nothing else is to be done.
    for _ in 0..10 {
        umount8(home.home());
        home.mount_again();
    }
    home.sh("echo x > there");
    run(0, "log", home.home(), &[]);
    home.umount();
    run(0, "fsck", &store, &[]);
}

/// The kernel gives the number of a device out again at once. A daemon that ended took the hint away that another had left under it, so
/// that the new home was "known only to whoever mounted it"; and it would have unmounted what was mounted after it at the same place.
#[test]
fn a_daemon_that_ends_leaves_the_mounts_after_it_alone() {
    need_mount!();
    let home = many_removed();
    let store = home.store().to_owned();
    let args = ["undo", "--session", "last"].map(OsStr::new);
    let undo = start(&[args[0], store.as_os_str(), args[1], args[2]]);
    wait_until("some are back", || count(&store.join("d")) > 20);
    umount8(home.home());
    // Other stores, at another place and at the same one.
    let other = Home::mount();
    let elsewhere = home.base().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    run(0, "mount", &elsewhere, &[home.home().to_str().unwrap()]);
    assert!(
        all_there(&store),
        "the first daemon has the place until it ends"
    );
    assert_eq!(end(undo).code, Some(0));
    for place in [other.home(), home.home()] {
        run(0, "log", place, &[]);
        fs::write(place.join("f"), "x").unwrap();
    }
    run(0, "umount", home.home(), &[]);
}

/// `umount` said "in use" once in forty with nothing inside. Whoever looks at an ended program's files through /proc holds them for a
/// moment; any other user of a moment is as good.
#[test]
fn a_home_that_is_in_use_for_a_moment_is_unmounted() {
    need_mount!();
    let mut home = Home::mount();
    let mut user = Command::new("sleep")
        .arg("0.4")
        .current_dir(home.home())
        .spawn()
        .unwrap();
    run(0, "umount", home.home(), &[]);
    assert!(user.try_wait().unwrap().is_some() || user.wait().is_ok());
    home.mount_again();
    let both = [0, 1].map(|_| start(&[OsStr::new("umount"), home.home().as_os_str()]));
    let ended = both.map(end);
    assert!(ended.iter().any(|one| one.code == Some(0)));
    for Ended { code, said } in ended {
        assert!(
            code == Some(0) || said.contains("not a mounted home"),
            "{said}"
        );
    }
    home.mount_again();
}
