//! A clock that is set back or was behind decides nothing about deleting for good: the journal has the order.

use std::process::{Command, Output};
use std::time::Duration;

use crate::common::{binary, describe, need_tools, run_limited, trumanfs};

struct Store(tempfile::TempDir);

impl Store {
    fn new() -> Store {
        Store(tempfile::TempDir::with_prefix("trumanfs-").unwrap())
    }

    fn at(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    /// Runs a line, in a process whose clock is off by so much.
    fn exec(&self, off: &str, line: &str) {
        let mut command = Command::new("faketime");
        command.args(["-f", off]).arg(binary());
        command.args(["exec", "--root", self.at(), "--", line]);
        let output = run_limited(command, Duration::from_secs(60));
        assert!(output.status.success(), "{}", describe(&output));
    }

    fn says(&self, words: &[&str], code: i32) -> Output {
        let output = trumanfs(words);
        assert_eq!(output.status.code(), Some(code), "{}", describe(&output));
        output
    }

    /// The names in the trash, in the order of `trash list`.
    fn trash(&self) -> Vec<String> {
        let output = trumanfs(&["trash", "list", self.at(), "--json"]);
        let said = String::from_utf8(output.stdout).unwrap();
        let entry = |line: &str| {
            let listed: serde_json::Value = serde_json::from_str(line).unwrap();
            listed["path"].as_str().unwrap().to_owned()
        };
        said.lines().map(entry).collect()
    }
}

#[test]
fn purge_keeps_the_newest_removal_after_the_clock_went_back() {
    need_tools!("faketime");
    let store = Store::new();
    store.exec("+0", "echo 1 >one; echo 1 >two; rm one");
    store.exec("-90d", "rm two");
    assert_eq!(store.trash(), ["/one", "/two"]);
    store.says(&["trash", "purge", store.at(), "--older-than", "30d"], 1);
    store.says(&["trash", "purge", store.at(), "--keep-last", "1"], 0);
    assert_eq!(store.trash(), ["/two"]);
}

#[test]
fn purge_by_age_spares_what_a_clock_that_was_behind_has_stamped() {
    need_tools!("faketime");
    let store = Store::new();
    store.exec("-7000d", "echo 1 >one; echo 2 >two; rm one; echo 3 >two");
    // This machine has not been up for so long.
    let purge = [
        "trash",
        "purge",
        store.at(),
        "--older-than",
        "3000d",
        "--versions",
    ];
    store.says(&purge, 1);
    assert_eq!(store.trash(), ["/one"]);
}

#[test]
fn point_by_time_names_its_operation_where_the_clock_went_back() {
    need_tools!("faketime");
    let store = Store::new();
    store.exec("-3d", "echo 1 >f");
    store.exec("-2d", "echo 2 >f");
    let cat = ["cat", store.at(), "/f", "--at", "-1d"];
    let output = store.says(&cat, 0);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "2\n");
    assert!(output.stderr.is_empty(), "{}", describe(&output));
    store.exec("+0", "echo 3 >f");
    store.exec("-36h", "echo 4 >f");
    let output = store.says(&cat, 0);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("the clock was set back") && said.contains("after operation "),
        "{said}"
    );
}
