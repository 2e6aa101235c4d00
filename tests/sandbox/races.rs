//! What is bound is swapped for a link to something else while sandboxes are launched: the true one is shown, or none.

use std::fs;
use std::io::{Read, Seek};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use trumanfs::exec::program::sandbox::{KillCondition, LaunchError, ProgramEnd, SandboxPlan, Step};

use crate::room::{LIMIT, Room, start};

/// How many sandboxes are launched in each race.
const LAUNCHES: usize = 200;

/// Swaps two names for each other, again and again until it is dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u32>>,
}

impl Swapper {
    fn of(one: &Path, other: &Path) -> Swapper {
        let stop = Arc::new(AtomicBool::new(false));
        let (one, other) = (one.to_owned(), other.to_owned());
        let led = fs::read_link(&other).unwrap();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                match renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE) {
                    // A sandbox has removed a link from a place of its own, or the room is gone.
                    Err(Errno::NOENT) => {
                        let _ = symlink(&led, &one);
                        let _ = symlink(&led, &other);
                    }
                    swapped => swapped.unwrap(),
                }
                count += 1;
                // Each sandbox is made within some swaps; without a pause these would hold it up, directories being locked.
                std::thread::sleep(Duration::from_micros(u64::from(count % 7) * 40));
            }
            count
        });
        Swapper {
            stop,
            thread: Some(thread),
        }
    }

    /// Stops; returns how often it has swapped.
    fn end(mut self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Launches a plan. Returns what its program printed, and what was shown of the host for it; or why it did not begin.
fn attempt(mut plan: SandboxPlan) -> Result<(String, Vec<PathBuf>), LaunchError> {
    let mut out = tempfile::tempfile().unwrap();
    plan.stdout = out.try_clone().unwrap().into();
    let mut running = start(plan)?;
    let shown = running.shown().to_vec();
    let ended = running.wait(KillCondition {
        deadline: Some(Instant::now() + LIMIT),
        cancel: None,
    });
    match ended.end {
        ProgramEnd::Exited(_) => {}
        ProgramEnd::NotStarted(error) => return Err(error),
        other => panic!("{other:?}"),
    }
    let mut said = String::new();
    out.rewind().unwrap();
    out.read_to_string(&mut said).unwrap();
    Ok((said, shown))
}

/// Makes a directory with a marker in it.
fn marked(dir: &Path, text: &str) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join("marker"), text).unwrap();
}

#[test]
fn the_home_is_the_one_that_was_opened() {
    let room = Room::new();
    let secret = room.outside().join("secret");
    marked(&room.home, "true");
    marked(&secret, "SECRET");
    let link = room.outside().join("link");
    symlink(&secret, &link).unwrap();
    let home = fs::File::open(&room.home).unwrap();
    let swapper = Swapper::of(&room.home, &link);
    let mut shown = 0;
    for _ in 0..LAUNCHES {
        // (Where the home is a link at this moment, a plan of the room's own would have opened the secret.)
        let plan = SandboxPlan {
            home: home.try_clone().unwrap().into(),
            ..room.plan(&["cat", "marker"])
        };
        match attempt(plan) {
            Ok((said, _)) => {
                assert_eq!(said, "true");
                shown += 1;
            }
            Err(error) => assert!(!error.to_string().contains("SECRET"), "{error}"),
        }
    }
    let swapped = swapper.end();
    assert!(
        swapped > 1000 && shown > 0,
        "{swapped} swaps, shown {shown} times"
    );
}

#[test]
fn what_bind_ro_lists_is_what_is_said_to_be_shown() {
    let room = Room::new();
    let top = fs::canonicalize(room.outside()).unwrap();
    let (tools, secret, link) = (top.join("tools"), top.join("secret"), top.join("link"));
    marked(&tools, "true");
    marked(&secret, "SECRET");
    symlink(&secret, &link).unwrap();
    let swapper = Swapper::of(&tools, &link);
    let mut seen = 0;
    for _ in 0..LAUNCHES {
        let marker = tools.join("marker");
        let mut plan = room.plan(&["cat".as_ref(), marker.as_os_str()]);
        plan.bind_ro = vec![tools.clone()];
        let Ok((said, shown)) = attempt(plan) else {
            continue;
        };
        // A link that an operator lists is followed, and where it leads is said. What is not said is not seen.
        let wanted = match shown.contains(&secret) {
            true => "SECRET",
            false => "true",
        };
        assert_eq!(said, wanted, "{shown:?}");
        seen += 1;
    }
    let swapped = swapper.end();
    assert!(
        swapped > 1000 && seen > 0,
        "{swapped} swaps, seen {seen} times"
    );
}

#[test]
fn an_occupant_s_link_does_not_move_the_home() {
    let room = Room::new();
    let Ok(below) = room.home.strip_prefix("/tmp") else {
        crate::need::skip!("chance", "the temporary directory does not lie in /tmp");
    };
    // The home's place lies below /tmp, which is the scratch directory.
    let first = room.scratch().join(below.iter().next().unwrap());
    let secret = room.outside().join("secret");
    marked(&room.home, "true");
    fs::create_dir_all(secret.join("home")).unwrap();
    fs::create_dir(&first).unwrap();
    std::os::unix::fs::chown(&first, Some(room.uid), None).unwrap();
    let link = room.scratch().join("link");
    symlink(&secret, &link).unwrap();
    let swapper = Swapper::of(&first, &link);
    let mut made = 0;
    for _ in 0..LAUNCHES {
        // By the working directory, which is the home wherever it is.
        match attempt(room.plan(&["cat", "marker"])) {
            Ok((said, _)) => {
                assert_eq!(said, "true");
                made += 1;
            }
            Err(error) => assert!(
                [Step::Mount, Step::Directory].contains(&error.step),
                "{error}"
            ),
        }
    }
    let swapped = swapper.end();
    assert!(
        swapped > 1000 && made > 0,
        "{swapped} swaps, made {made} times"
    );
    // Nothing was put where the link led.
    assert_eq!(fs::read_dir(secret.join("home")).unwrap().count(), 0);
}

#[test]
fn a_working_directory_that_is_swapped_leads_nowhere_else() {
    let room = Room::new();
    let secret = room.outside().join("secret");
    marked(&secret, "SECRET");
    let (work, link) = (room.home.join("work"), room.home.join("link"));
    marked(&work, "true");
    symlink(&secret, &link).unwrap();
    let swapper = Swapper::of(&work, &link);
    let mut begun = 0;
    for _ in 0..LAUNCHES {
        let mut plan = room.plan(&["cat", "marker"]);
        plan.cwd = work.clone();
        match attempt(plan) {
            Ok((said, _)) => {
                assert_eq!(said, "true");
                begun += 1;
            }
            Err(error) => assert_eq!(error.step, Step::Directory, "{error}"),
        }
    }
    let swapped = swapper.end();
    assert!(
        swapped > 1000 && begun > 0,
        "{swapped} swaps, begun {begun} times"
    );
}
