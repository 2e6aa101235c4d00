//! Indexes that git wrote, compared by their entries.

use std::path::PathBuf;
use std::process::Command;

use super::{IndexEntries, same_entries};

/// A repository of git's own making.
struct GitRepository {
    dir: tempfile::TempDir,
}

impl GitRepository {
    /// Makes a repository with three committed files. `None` where git is missing or does not know the object format.
    fn with_files(object_format: &str) -> Option<GitRepository> {
        let dir = tempfile::tempdir().unwrap();
        let repository = GitRepository { dir };
        let format = format!("--object-format={object_format}");
        repository.try_git(&["init", "-q", &format])?;
        repository.write("README", "one\n");
        repository.write("src/main.c", "int main(void);\n");
        repository.write(&format!("src/{}", "long".repeat(60)), "long name\n");
        repository.git(&["add", "-A"]);
        repository.git(&["commit", "-qm", "first"]);
        Some(repository)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn try_git(&self, arguments: &[&str]) -> Option<()> {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.dir.path()).args(arguments);
        let settings = [
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_AUTHOR_NAME", "a"),
            ("GIT_AUTHOR_EMAIL", "a@example.org"),
            ("GIT_COMMITTER_NAME", "a"),
            ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ];
        let output = git.envs(settings).output().ok()?;
        output.status.success().then_some(())
    }

    fn git(&self, arguments: &[&str]) {
        assert!(self.try_git(arguments).is_some(), "git {arguments:?}");
    }

    fn index(&self) -> Vec<u8> {
        std::fs::read(self.path(".git/index")).unwrap()
    }

    /// Gives a file another time, so that git writes the index anew without another entry.
    fn refresh(&self, name: &str) {
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        let file = std::fs::File::options().write(true).open(self.path(name));
        file.unwrap().set_modified(old).unwrap();
        // Fails where paths are not merged yet, and has refreshed the others.
        let _ = self.try_git(&["update-index", "--refresh"]);
    }
}

/// Runs a test with both formats of ids; one that git does not know is left out.
fn for_each_format(test: impl Fn(GitRepository)) {
    for format in ["sha1", "sha256"] {
        match GitRepository::with_files(format) {
            Some(repository) => test(repository),
            None => eprintln!("skipped: git makes no repository with {format}"),
        }
    }
}

#[test]
fn refreshed_index_has_the_same_entries() {
    for_each_format(|repository| {
        let before = repository.index();
        repository.refresh("README");
        let after = repository.index();
        assert_ne!(before, after);
        assert!(same_entries(&before, &after));
    });
}

#[test]
fn version_does_not_count() {
    for_each_format(|repository| {
        let before = repository.index();
        for version in ["4", "3", "2"] {
            repository.git(&["update-index", "--index-version", version]);
            assert!(same_entries(&before, &repository.index()), "{version}");
        }
        assert_eq!(IndexEntries::read(&before).unwrap().0.len(), 3);
    });
}

#[test]
fn another_entry_differs() {
    let change: [(&str, &[&str]); 7] = [
        ("content", &["add", "README"]),
        ("removed", &["rm", "-q", "--cached", "README"]),
        ("mode", &["update-index", "--chmod=+x", "README"]),
        ("skipped", &["update-index", "--skip-worktree", "README"]),
        ("assumed", &["update-index", "--assume-unchanged", "README"]),
        ("new", &["add", "new"]),
        ("intended", &["add", "--intent-to-add", "new"]),
    ];
    for version in ["2", "4"] {
        for (what, arguments) in &change {
            for_each_format(|repository| {
                repository.git(&["update-index", "--index-version", version]);
                let before = repository.index();
                repository.write("README", "two\n");
                repository.write("new", "");
                repository.git(arguments);
                let after = repository.index();
                assert!(!same_entries(&before, &after), "{what}");
                assert!(same_entries(&after, &after), "{what}");
            });
        }
    }
}

#[test]
fn intent_to_add_differs_from_an_added_empty_file() {
    for_each_format(|repository| {
        repository.write("new", "");
        repository.git(&["add", "--intent-to-add", "new"]);
        let intended = repository.index();
        repository.git(&["add", "new"]);
        assert!(!same_entries(&intended, &repository.index()));
    });
}

#[test]
fn stages_of_a_merge_differ_from_its_end() {
    for_each_format(|repository| {
        repository.git(&["switch", "-qc", "side"]);
        repository.write("README", "side\n");
        repository.git(&["commit", "-qam", "side"]);
        repository.git(&["switch", "-q", "-"]);
        repository.write("README", "here\n");
        repository.git(&["commit", "-qam", "here"]);
        assert!(repository.try_git(&["merge", "-q", "side"]).is_none());
        let merging = repository.index();
        repository.refresh("src/main.c");
        assert_ne!(merging, repository.index());
        assert!(same_entries(&merging, &repository.index()));
        repository.git(&["add", "README"]);
        assert!(!same_entries(&merging, &repository.index()));
    });
}

#[test]
fn index_that_ends_in_an_entry_cannot_be_read() {
    for_each_format(|repository| {
        let whole = repository.index();
        let long_name = memchr::memmem::find(&whole, b"src/long").unwrap();
        for length in 0..long_name {
            let cut = whole.get(..length).unwrap();
            assert!(!same_entries(cut, &whole), "{length}");
            assert!(!same_entries(cut, cut), "{length}");
        }
    });
}

#[test]
fn split_index_is_not_compared() {
    for_each_format(|repository| {
        let whole = repository.index();
        repository.git(&["update-index", "--split-index"]);
        let split = repository.index();
        assert!(!same_entries(&split, &split));
        assert!(!same_entries(&whole, &split));
    });
}

#[test]
fn other_bytes_are_no_index() {
    for bytes in [
        &b""[..],
        b"DIRC",
        &[0; 200],
        b"DIRC\0\0\0\x02\xff\xff\xff\xff",
    ] {
        assert!(!same_entries(bytes, bytes));
    }
}
