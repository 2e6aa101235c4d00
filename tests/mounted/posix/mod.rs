//! Every system call on a directory tree and every errno it can return, in the manner of pjdfstest.
//!
//! There is one file for each call or subject, with a table of cases. A case gets a fresh directory and runs in
//! several places: in an ordinary directory first, which proves the case itself, then in homes mounted in different
//! ways. Where a home differs on purpose, the table in `decisions.rs` describes how and why, and proves it.
//!
//! `POSIX_CASE=words cargo test --test mounted posix::` runs only the cases whose file and name contain the words.

pub(crate) mod trial;

/// The files of cases.
macro_rules! files {
    ($($file:ident)*) => {
        $(mod $file;)*

        /// Every case there is, by file.
        const ALL: &[(&str, &[Case])] = &[$((stringify!($file), $file::CASES)),*];
    };
}

files! {
    access chmod chown copy decisions direct fallocate link lock lseek mkdir mknod mmap name open orphan
    permission readdir rename rename_flags rmdir rw setid stat sticky symlink sync times truncate unlink
    utimens xattr
}
mod erofs;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::common::{Home, child, skip};
use trial::{
    CHECKED, Case, DEVICES, HOLES, HOME, LINKS, NATIVE, NOBODY, Needs, PLAIN, ROOT, ROOTS, Trial,
    USERS, XATTR,
};

/// How long the cases of a file may take in one place; a busy machine needs more than other tests are given.
const LIMIT: Duration = Duration::from_secs(180);

/// Where cases run.
struct Place {
    name: &'static str,
    /// Options of `trumanfs mount`, or none for an ordinary directory.
    options: Option<&'static [&'static str]>,
    has: Needs,
}

const PLACES: &[Place] = &[
    Place {
        name: "native",
        options: None,
        has: NATIVE | ROOT | USERS | LINKS | XATTR | DEVICES | HOLES | CHECKED,
    },
    Place {
        name: "native_user",
        options: None,
        has: NATIVE | PLAIN | LINKS | XATTR | HOLES | CHECKED,
    },
    // As it comes: for its owner, root, alone.
    Place {
        name: "home",
        options: Some(&[]),
        has: HOME | ROOT | HOLES,
    },
    // For one ordinary user, who alone gets in.
    Place {
        name: "owner",
        options: Some(&["--owner", "nobody"]),
        has: HOME | PLAIN | ROOTS | HOLES,
    },
    // For everybody: the kernel checks permissions.
    Place {
        name: "shared",
        options: Some(&["--allow-other"]),
        has: HOME | ROOT | USERS | HOLES | CHECKED,
    },
    // Reads and writes go through the daemon and the kernel's writeback cache.
    Place {
        name: "buffered",
        options: Some(&["--allow-other", "--no-passthrough"]),
        has: HOME | ROOT | USERS | CHECKED,
    },
    // With everything that is off by default.
    Place {
        name: "full",
        options: Some(&["--allow-other", "--symlinks", "inside", "--xattr"]),
        has: HOME | ROOT | USERS | LINKS | XATTR | HOLES | CHECKED,
    },
];

/// Makes a test of a file's cases in each place.
macro_rules! in_all_places {
    ($cases:ident) => {
        $crate::posix::in_all_places!($cases: native native_user home owner shared buffered full);
    };
    ($cases:ident: $($place:ident)*) => {$(
        #[test]
        fn $place() {
            $crate::posix::check(stringify!($place), module_path!(), $cases);
        }
    )*};
}
pub(crate) use in_all_places;

/// Runs the cases of one file in one place.
fn check(place: &str, module: &str, cases: &[Case]) {
    let file = module.rsplit("::").next().expect("a module's name");
    let place = PLACES
        .iter()
        .find(|candidate| candidate.name == place)
        .expect("a place");
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && !["native_user", "home"].contains(&place.name) {
        skip!("root", "needs root for {}", place.name);
    }
    // What an ordinary user mounts is without passthrough.
    let for_user = Place {
        has: if place.options.is_none() {
            place.has
        } else {
            HOME | PLAIN
        },
        ..*place
    };
    let place = if is_root { place } else { &for_user };
    let wanted = std::env::var("POSIX_CASE").unwrap_or_default();
    let applies = |case: &&Case| {
        place.has & case.needs == case.needs && format!("{file}: {}", case.name).contains(&wanted)
    };
    let is_one = |(file, cases): &(&str, &[Case])| {
        let mut names = cases.iter().map(|case| format!("{file}: {}", case.name));
        names.any(|name| name.contains(&wanted))
    };
    assert!(
        ALL.iter().any(is_one),
        "POSIX_CASE={wanted}: no case has that in its name"
    );
    let applicable: Vec<&Case> = cases.iter().filter(applies).collect();
    if applicable.is_empty() {
        // A file about something that the place has not: the table of decisions covers it.
        let about = cases
            .iter()
            .map(|case| case.needs)
            .fold(!0, |all, needs| all & needs);
        assert!(
            !wanted.is_empty() || about & !place.has != 0,
            "{file} has no case for {}, and not because all need something that is not there",
            place.name
        );
        return;
    }
    let Some(options) = place.options else {
        let dir =
            tempfile::TempDir::with_prefix("trumanfs-native-").expect("a temporary directory");
        let root = fs::canonicalize(dir.path()).expect("canonicalize");
        return run(place, file, &applicable, &root);
    };
    crate::common::need_mount!();
    let prepare = |store: &Path| {
        if is_root && place.has & PLAIN != 0 {
            std::os::unix::fs::chown(store, Some(NOBODY), Some(NOBODY)).expect("chown");
        }
    };
    let plan = Home::plan().options(options).limit(LIMIT);
    let home = plan.prepare(prepare).mount();
    run(place, file, &applicable, home.home());
}

fn run(place: &Place, file: &str, cases: &[&Case], root: &Path) {
    let plain = place.has & PLAIN != 0;
    if place.options.is_none() {
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).expect("chmod");
        if plain && rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(root, Some(NOBODY), Some(NOBODY)).expect("chown");
        }
    }
    // In a process of their own: what the cases fork inherits no other test's descriptors, which would keep its files open, its locks
    // held and its mount busy.
    let work = child::spawn_alone(|| {
        crate::common::calls::umask(0);
        if plain && rustix::process::geteuid().is_root() {
            child::become_user(NOBODY, NOBODY, &[]);
        }
        let (mut checks, mut failed, mut report) = (0, 0, String::new());
        for (number, case) in cases.iter().enumerate() {
            let dir = root.join(format!("{file}-{number}"));
            let made = fs::create_dir(&dir).map_err(|error| format!("mkdir for the case: {error}"));
            let (done, problems) = match made {
                Ok(()) => Trial::new(root, &dir, place.has).run(case),
                Err(problem) => (0, vec![problem]),
            };
            checks += done;
            if !problems.is_empty() {
                failed += 1;
                report += &format!("\n{file}: {}\n    {}", case.name, problems.join("\n    "));
            }
        }
        let heading = format!(
            "{file} in {}: {} cases, {checks} assertions, {failed} cases fail",
            place.name,
            cases.len()
        );
        if failed == 0 {
            Ok(heading)
        } else {
            Err(format!("{heading}{report}\n"))
        }
    });
    match work.join_within(LIMIT + Duration::from_secs(10)) {
        Ok(heading) => println!("{heading}"),
        Err(report) => panic!("{report}"),
    }
}
