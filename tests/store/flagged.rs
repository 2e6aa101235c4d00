//! Changed paths that git acts on outside the home: flagged, and listed first.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::review::{done, run};
use crate::common::{Home, describe, need_mount, trumanfs};

/// Returns the flagged paths of a run's review, in its order, and the number of the others, which come after them.
#[track_caller]
fn flagged(target: &str, run: &str) -> (Vec<String>, usize) {
    let output = trumanfs(&["review", target, "--run", run, "--json"]);
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    let listed: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let is_flagged = |value: &Value| value["flag"] == "runs-on-host";
    let first = listed.iter().take_while(|value| is_flagged(value)).count();
    let (flagged, others) = listed.split_at(first);
    assert!(!others.iter().any(is_flagged), "{}", describe(&output));
    let path = |value: &Value| value["path"].as_str().unwrap().to_owned();
    (flagged.iter().map(path).collect(), others.len())
}

fn repository(store: &Path) {
    for dir in [
        ".git/hooks",
        ".git/modules/lib/hooks",
        ".git/worktrees/other",
        ".git/refs/heads",
        ".git/info",
        ".husky",
        "bare/hooks",
        "src/hooks",
    ] {
        fs::create_dir_all(store.join(dir)).unwrap();
    }
    let config = "[core]\n\tbare = false\n\thooksPath = .husky\n";
    fs::write(store.join(".git/config"), config).unwrap();
    fs::write(store.join("bare/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(store.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
}

#[test]
fn what_git_would_run_is_flagged() {
    need_mount!();
    let home = Home::prepared(repository, &[]);
    let at = home.home().to_str().unwrap();
    let changed = run(
        &home,
        "echo x > .git/hooks/post-checkout; echo x > .git/hooks/pre-push.sample; echo x > .git/modules/lib/config; \
         echo x > .git/worktrees/other/config.worktree; echo x > .git/info/attributes; echo x > .husky/pre-commit; \
         echo x > bare/hooks/update; echo x > bare/config; echo 'gitdir: bare' > src/.git; \
         echo x > .git/refs/heads/config; echo x > .git/index; echo x > src/config; echo x > src/hooks/use.ts",
    );
    let (paths, others) = flagged(at, &changed);
    let wanted = [
        "/.git/hooks/post-checkout",
        "/.git/info/attributes",
        "/.git/modules/lib/config",
        "/.git/worktrees/other/config.worktree",
        "/.husky/pre-commit",
        "/bare/config",
        "/bare/hooks/update",
        "/src/.git",
    ];
    assert_eq!(paths, wanted);
    assert_eq!(others, 5);
    let (lines, _) = done(1, &["review", at, "--run", &changed]);
    assert!(lines.starts_with("A  /.git/hooks/post-checkout"), "{lines}");
    assert_eq!(lines.matches("runs on your machine").count(), wanted.len());
}

#[test]
fn configuration_and_drivers_are_flagged_when_they_change() {
    need_mount!();
    let home = Home::prepared(repository, &[]);
    let at = home.home().to_str().unwrap();
    let text = run(&home, "echo '*.txt text' >> .gitattributes");
    assert_eq!(flagged(at, &text), (Vec::new(), 1));
    let filter = run(&home, "echo '*.txt filter=mine' >> .gitattributes");
    assert_eq!(flagged(at, &filter).0, ["/.gitattributes"]);
    let config = run(&home, "echo '[filter \"mine\"]' >> .git/config");
    assert_eq!(flagged(at, &config).0, ["/.git/config"]);
    let moved = run(
        &home,
        "rm .git/config; mv src/hooks .git/more; mv .git/more .git/hooks/more",
    );
    assert_eq!(flagged(at, &moved).0, ["/.git/hooks/more"]);
    let page = home.home().parent().unwrap().join("page.html");
    let page_path = page.to_str().unwrap();
    done(0, &["report", at, "--run", &filter, "--html", page_path]);
    let html = fs::read_to_string(&page).unwrap();
    let first = html.split("Look at these first").nth(1).unwrap();
    let first = first.split("</ul>").next().unwrap();
    assert!(first.contains("/.gitattributes</bdi>"), "{first}");
    assert!(first.contains("runs on your machine"), "{first}");
}
