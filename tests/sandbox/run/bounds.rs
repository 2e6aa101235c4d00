//! Bounds that no slip of the operator's opens to a program: the store's state, and more of a home than
//! the root that its caller has.

use serde_json::json;

use super::*;
use crate::common::{need_mount, need_root};

/// Shows a directory of the host to `sh`.
fn show(place: &Place, dirs: &[&Path]) {
    let dirs: Vec<_> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    let policy = format!(
        "sh: {{flags: {{-ec: text}}, bind_ro: [{}]}}\n",
        dirs.join(", ")
    );
    fs::write(place.policy(), policy).unwrap();
}

/// Over the socket there, a program could empty the trash for good.
#[test]
fn the_state_of_a_store_is_shown_to_no_program() {
    need_mount!();
    let place = Place::mounted();
    let other = crate::common::Home::mount();
    let state = place.home.store().join(".trumanfs");
    for dir in [
        place.home.base(),
        place.home.store(),
        &state,
        other.base(),
        other.store(),
    ] {
        show(&place, &[dir]);
        let output = place.run(&[], &["sh", "-ec", "true"]);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(125), "{}: {said}", dir.display());
        assert!(said.contains("it would show"), "{}: {said}", dir.display());
    }
    // What lies in the store beside that is a plain directory, and so is one beside the store.
    let beside = place.home.base().join("beside");
    fs::create_dir(&beside).unwrap();
    fs::create_dir(place.home.path("inside")).unwrap();
    show(&place, &[&beside, &place.home.store().join("inside")]);
    place.sh("true");
}

/// A read-only mount closes no socket, and the state of a store has what was removed there.
#[test]
fn bind_ro_warns_of_services_and_hides_the_state_of_stores() {
    need_mount!();
    let place = Place::mounted();
    let shown = place.home.base().join("shown");
    for dir in [&shown.join("store/.trumanfs"), &shown.join(".trumanfs")] {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("secret"), "removed").unwrap();
    }
    fs::write(shown.join("file"), "content").unwrap();
    let _service = std::os::unix::net::UnixListener::bind(shown.join("service.sock")).unwrap();
    show(&place, &[&shown]);
    let script = format!(
        "cd {}; cat file; find . -name secret; ls -A .trumanfs store/.trumanfs",
        shown.display()
    );
    let outcome = place.json(&[], &["sh", "-ec", &script]);
    assert_eq!(
        outcome["stdout"], "content.trumanfs:\n\nstore/.trumanfs:\n",
        "{outcome:#}"
    );
    let warnings = outcome["warnings"].to_string();
    for part in [
        "/service.sock: a service of this machine listens there",
        "/shown/.trumanfs: the state of a store",
        "/shown/store/.trumanfs: the state of a store",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    show(&place, &[&shown.join("store/.trumanfs")]);
    let output = place.run(&[], &["sh", "-ec", "true"]);
    assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
    assert!(
        err(&output).contains("state of a store"),
        "{}",
        describe(&output)
    );
}

/// The state of another store is state under whatever path somebody has mounted it.
#[test]
fn state_of_a_store_that_is_mounted_elsewhere_is_hidden() {
    need_mount!();
    need_root!("to mount a directory a second time");
    let place = Place::mounted();
    let mut other = crate::common::Home::mount();
    other.sh("echo precious > keep; rm keep");
    other.umount();
    let shown = place.home.base().join("shown");
    let view = shown.join("deep/er/a view");
    fs::create_dir_all(&view).unwrap();
    let state = other.store().join(".trumanfs");
    let mount = |words: &[&OsStr]| {
        let done = Command::new(words[0]).args(&words[1..]).status();
        assert!(done.unwrap().success(), "{words:?}");
    };
    mount(&[
        "mount".as_ref(),
        "--bind".as_ref(),
        state.as_os_str(),
        view.as_os_str(),
    ]);
    show(&place, &[&shown]);
    let script = format!("ls -A '{}'", view.display());
    let above = place.run(&["--json"], &["sh", "-ec", &script]);
    let refused = [&view, &view.join("sessions")].map(|dir| {
        show(&place, &[dir]);
        place.run(&[], &["sh", "-ec", "true"])
    });
    mount(&["umount".as_ref(), "-l".as_ref(), view.as_os_str()]);
    let outcome: serde_json::Value = serde_json::from_slice(&above.stdout).unwrap();
    assert_eq!(outcome["stdout"], "", "{outcome:#}");
    let warnings = outcome["warnings"].to_string();
    assert!(
        warnings.contains("a view: the state of a store"),
        "{warnings}"
    );
    for output in refused {
        assert_eq!(output.status.code(), Some(125), "{}", describe(&output));
        assert!(
            err(&output).contains("state of a store"),
            "{}",
            describe(&output)
        );
    }
}

/// A mount that shows the store elsewhere has no path that says so.
#[test]
fn a_program_that_reaches_the_socket_all_the_same_is_refused() {
    need_mount!();
    need_root!("to mount a directory a second time");
    let place = Place::mounted();
    place.home.sh("echo precious > keep; rm keep");
    // Deeper than where state is looked for.
    let shown = place.home.base().join("shown");
    let view = shown.join("deep/view");
    fs::create_dir_all(&view).unwrap();
    let mount = |words: &[&OsStr]| {
        let done = Command::new(words[0]).args(&words[1..]).status();
        assert!(done.unwrap().success(), "{words:?}");
    };
    let store = place.home.store().as_os_str();
    mount(&["mount".as_ref(), "--bind".as_ref(), store, view.as_os_str()]);
    let binary = Path::new(binary());
    show(&place, &[&shown, binary.parent().unwrap()]);
    let [at, view_at] = [binary, &view].map(|path| path.display());
    let outputs = ["trash purge --all", "undo --session last", "status"].map(|verb| {
        let (verb, rest) = verb.split_at(verb.rfind(" --").unwrap_or(verb.len()));
        place.run(
            &[],
            &["sh", "-ec", &format!("{at} {verb} {view_at} {rest}")],
        )
    });
    mount(&["umount".as_ref(), "-l".as_ref(), view.as_os_str()]);
    for output in outputs {
        let said = describe(&output);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("a program in the home may not ask"), "{said}");
    }
    assert_eq!(place.home.trashed("keep").len(), 1);
}

/// The bundled commands of such a line end at the root; the programs saw, and changed, what lies above it.
#[test]
fn a_directory_in_a_home_is_no_root_for_programs() {
    need_mount!();
    let place = Place::mounted();
    place
        .home
        .sh("mkdir proj; echo in > proj/in; echo secret > outer");
    let (root, policy) = (place.home.path("proj"), place.policy());
    fs::write(&policy, "sort: {arguments: path}\n").unwrap();
    let [root, policy] = [&root, &policy].map(|path| path.to_str().unwrap());
    let verbs: [&[&str]; 4] = [
        &[
            "run", "--root", root, "--policy", policy, "--", "sort", "in",
        ],
        &[
            "exec",
            "--root",
            root,
            "--policy",
            policy,
            "--",
            "sort ../outer",
        ],
        &["agent", "--store", root, "--", "true"],
        &["serve", "mcp", "--root", root, "--policy", policy],
    ];
    for words in verbs {
        let mut command = Command::new(binary());
        command.args(words).stdin(Stdio::null());
        let output = run_limited(command, LIMIT);
        let said = describe(&output);
        assert!(!output.status.success(), "{words:?}: {said}");
        assert!(output.stdout.is_empty(), "{words:?}: {said}");
        assert!(said.contains("is proj there"), "{words:?}: {said}");
    }
    // A hook says so before the agent makes the call.
    let event = json!({
        "hook_event_name": "PreToolUse", "cwd": root, "tool_name": "Bash", "permission_mode": "default",
        "tool_input": {"command": "sort in"},
    });
    let mut hook = Command::new(binary())
        .args(["hook", "claude-code", "--root", root, "--policy", policy])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(
        &mut hook.stdin.take().unwrap(),
        event.to_string().as_bytes(),
    )
    .unwrap();
    let said = describe(&hook.wait_with_output().unwrap());
    assert!(
        said.contains("deny") && said.contains("is proj there"),
        "{said}"
    );
    assert_eq!(fs::read(place.home.path("outer")).unwrap(), b"secret\n");
}
