//! A daemon that hangs, because its disk does or somebody has stopped it: who asks is told, and nothing waits for it without end.

use std::process::Command;
use std::time::Duration;

use crate::common::{Hanging, Home, binary, describe, need_mount, run_limited};

/// More than the longest wait: 10 seconds for whether there is an answer.
const LIMIT: Duration = Duration::from_secs(40);

#[test]
fn a_daemon_that_hangs_is_named_and_nobody_waits_for_it() {
    need_mount!();
    let home = Home::mount();
    home.sh("echo first > a; rm a; echo second > b");
    let other = Home::mount();
    let hanging = Hanging::daemon_of(&home);
    let (at, of) = (
        home.home().to_str().unwrap(),
        other.home().to_str().unwrap(),
    );
    let asked: [&[&str]; 7] = [
        &["status"],
        &["status", at],
        &["log", at],
        &["trash", "list", at],
        &["undo", at, "--path", "/b"],
        &["checkpoint", "create", at, "here"],
        &["review", at],
    ];
    let outputs: Vec<_> = std::thread::scope(|threads| {
        let runs = asked.map(|words| {
            threads.spawn(move || {
                let mut command = Command::new(binary());
                command.args(words);
                run_limited(command, LIMIT)
            })
        });
        runs.map(|run| run.join().unwrap()).into()
    });
    drop(hanging);
    for (words, output) in asked.iter().zip(&outputs) {
        let said = describe(output);
        assert!(
            said.contains("the daemon that serves this store does not answer"),
            "{words:?}: {said}"
        );
    }
    let [all, one, log, trash, changes @ ..] = &outputs[..] else {
        unreachable!()
    };
    for output in &outputs {
        let named = format!("(process {})", home.daemon_pid());
        assert!(describe(output).contains(&named), "{}", describe(output));
    }
    // The others are told of.
    let said = describe(all);
    assert!(all.status.success() && said.contains(of), "{said}");
    assert!(said.contains(at), "{said}");
    assert_eq!(one.status.code(), Some(6), "{}", describe(one));
    // What was recorded is read.
    for output in [log, trash] {
        let said = describe(output);
        assert!(output.status.success() && said.contains("/a"), "{said}");
    }
    for output in changes {
        assert_eq!(output.status.code(), Some(6), "{}", describe(output));
    }
    assert_eq!(home.sh("cat b"), "second\n");
}
