//! Limits: the program ends within them, the outcome names the one that was hit, and the machine stays well.
//!
//! Each is tried with cgroups, where this process may make any, and without.

use std::time::{Duration, Instant};

use trumanfs::exec::program::sandbox::{
    End, Ended, InForce, Limit, Limits, Mechanism, Until, launch,
};

use crate::common::need_tools;
use crate::room::{LIMIT, Room, launcher};

const MIB: u64 = 1 << 20;

/// Runs a subject of probe.c within limits, with and without cgroups.
fn within(limits: &Limits, argv: &[&str], check: impl Fn(&Ended, &[InForce], &str)) {
    for cgroups in [true, false] {
        let room = Room::new();
        let probe = room.probe();
        let mut words = vec![probe.to_str().unwrap()];
        words.extend(argv);
        let mut plan = room.plan(&words);
        plan.limits = limits.clone();
        let out = tempfile::tempfile().unwrap();
        plan.stdout = out.try_clone().unwrap().into();
        let launcher = if cgroups {
            launcher()
        } else {
            launcher().without_cgroups()
        };
        let mut running = launch(plan, &launcher).unwrap();
        let in_force = running.in_force().to_vec();
        assert!(
            cgroups || in_force.iter().all(|one| !is_cgroup(one.mechanism)),
            "{in_force:?}"
        );
        let ended = running.wait(Until {
            deadline: Some(Instant::now() + LIMIT),
            cancel: None,
        });
        assert!(ended.all_gone, "{ended:?}");
        let said = std::io::read_to_string({
            use std::io::Seek;
            let mut out = out;
            out.rewind().unwrap();
            out
        });
        check(&ended, &in_force, &said.unwrap());
    }
}

fn is_cgroup(mechanism: Mechanism) -> bool {
    matches!(mechanism, Mechanism::CgroupV1 | Mechanism::CgroupV2)
}

fn mechanism(in_force: &[InForce], limit: Limit) -> Mechanism {
    in_force
        .iter()
        .find(|one| one.limit == limit)
        .unwrap()
        .mechanism
}

#[test]
fn memory_of_one_process() {
    need_tools!("gcc");
    let limits = Limits {
        memory: Some(64 * MIB),
        ..Limits::default()
    };
    within(&limits, &["memory", "400", "0"], |ended, in_force, said| {
        assert_eq!(ended.end, End::Limit(Limit::Memory), "{in_force:?}");
        assert!(ended.hit.contains(&Limit::Memory));
        assert_eq!(said, "");
        assert_eq!(in_force.len(), 1);
    });
    within(&limits, &["memory", "20", "0"], |ended, _, said| {
        assert_eq!(
            (&ended.end, ended.hit.len(), said),
            (&End::Exited(0), 0, "touched\n")
        );
    });
}

#[test]
fn memory_of_several_processes() {
    need_tools!("gcc");
    let limits = Limits {
        memory: Some(64 * MIB),
        ..Limits::default()
    };
    within(&limits, &["memory", "200", "1"], |ended, in_force, _| {
        // With a cgroup of version 1 one of the four is killed, and the others wait until they are as well.
        assert!(ended.hit.contains(&Limit::Memory), "{ended:?} {in_force:?}");
    });
}

#[test]
fn memory_that_is_shared_counts_once() {
    // 40 MiB before ten forks.
    let limits = Limits {
        memory: Some(120 * MIB),
        ..Limits::default()
    };
    let room = Room::new();
    for cgroups in [true, false] {
        let script = "data = bytearray(40 << 20)\nimport os, time\nfor _ in range(10):\n  if os.fork() == 0: time.sleep(1); os._exit(0)\nfor _ in range(10): os.wait()";
        let mut plan = room.plan(&["python3", "-c", script]);
        if !std::path::Path::new("/usr/bin/python3").exists() {
            crate::need::skip!("system-python", "there is no /usr/bin/python3");
        }
        plan.limits = limits.clone();
        let launcher = if cgroups {
            launcher()
        } else {
            launcher().without_cgroups()
        };
        let ended = launch(plan, &launcher).unwrap().wait(Until::default());
        assert_eq!(ended.end, End::Exited(0), "{ended:?}");
    }
}

#[test]
fn files_in_shared_memory_count() {
    let room = Room::new();
    let mut plan = room.plan(&["sh", "-c", "head -c 100000000 /dev/zero >/dev/shm/x"]);
    plan.limits.memory = Some(32 * MIB);
    let outcome = room.run(plan);
    assert_ne!(outcome.ended.end, End::Exited(0), "{outcome:?}");
}

#[test]
fn processes() {
    need_tools!("gcc");
    let limits = Limits {
        processes: Some(20),
        ..Limits::default()
    };
    within(
        &limits,
        &["forks"],
        |ended, in_force, said| match mechanism(in_force, Limit::Processes) {
            Mechanism::Watched => assert_eq!(ended.end, End::Limit(Limit::Processes)),
            mechanism => {
                assert_eq!(said, "19 EAGAIN\n", "{mechanism:?}");
                assert_eq!(ended.hit.contains(&Limit::Processes), is_cgroup(mechanism));
            }
        },
    );
}

#[test]
fn a_fork_bomb_ends_with_its_time() {
    need_tools!("gcc");
    for cgroups in [true, false] {
        let room = Room::new();
        let probe = room.probe();
        let mut plan = room.plan(&[probe.as_os_str(), "bomb".as_ref()]);
        plan.limits.processes = Some(100);
        let launcher = if cgroups {
            launcher()
        } else {
            launcher().without_cgroups()
        };
        let mut running = launch(plan, &launcher).unwrap();
        let deadline = Some(Instant::now() + Duration::from_millis(400));
        let ended = running.wait(Until {
            deadline,
            cancel: None,
        });
        assert_eq!(ended.end, End::Deadline);
        assert!(ended.all_gone);
    }
}

#[test]
fn processor_time() {
    need_tools!("gcc");
    let limits = Limits {
        cpu: Some(Duration::from_millis(300)),
        ..Limits::default()
    };
    within(&limits, &["spin"], |ended, _, _| {
        assert_eq!(ended.end, End::Limit(Limit::Cpu));
        assert!(ended.cpu >= Duration::from_millis(290), "{ended:?}");
    });
}

#[test]
fn open_files() {
    need_tools!("gcc");
    let limits = Limits {
        open_files: Some(64),
        ..Limits::default()
    };
    within(&limits, &["descriptors"], |ended, in_force, said| {
        assert_eq!((&ended.end, said), (&End::Exited(0), "64 EMFILE\n"));
        assert_eq!(mechanism(in_force, Limit::OpenFiles), Mechanism::Rlimit);
    });
}

#[test]
fn the_size_of_a_file() {
    let room = Room::new();
    let mut plan = room.plan(&["sh", "-c", "exec head -c 3000000 /dev/zero >big"]);
    plan.limits.file_size = Some(2 * MIB);
    let outcome = room.run(plan);
    assert_eq!(outcome.ended.end, End::Limit(Limit::FileSize));
    assert_eq!(
        std::fs::metadata(room.home.join("big")).unwrap().len(),
        2 * MIB
    );
}

#[test]
fn root_s_own_home_has_limits_too() {
    crate::common::need_root!("for a home that is root's");
    need_tools!("gcc");
    let room = Room::of(0);
    let probe = room.probe();
    for argv in [vec!["forks"], vec!["memory", "400", "0"]] {
        let mut words = vec![probe.to_str().unwrap()];
        words.extend(argv);
        let mut plan = room.plan(&words);
        plan.limits = Limits {
            processes: Some(20),
            memory: Some(64 * MIB),
            ..Limits::default()
        };
        let ended = launch(plan, &launcher().without_cgroups())
            .unwrap()
            .wait(Until::default());
        assert!(
            matches!(ended.end, End::Limit(Limit::Processes | Limit::Memory)),
            "{ended:?}"
        );
    }
}

#[test]
fn no_group_stays() {
    let room = Room::new();
    let mut plan = room.plan(&["sh", "-c", "cat /proc/self/cgroup; cat /proc/1/cgroup"]);
    plan.limits = Limits {
        processes: Some(20),
        memory: Some(64 * MIB),
        ..Limits::default()
    };
    let said = room.run(plan).good();
    // The program sees the root of its own group, whatever that is called outside.
    assert!(!said.contains("trumanfs"), "{said}");
    let mine = format!("-{}-", std::process::id());
    let left = std::process::Command::new("find")
        .args([
            "/sys/fs/cgroup",
            "-maxdepth",
            "8",
            "-type",
            "d",
            "-name",
            "trumanfs-*",
        ])
        .output()
        .unwrap();
    let left = String::from_utf8_lossy(&left.stdout).into_owned();
    // (Other tests of this process have groups of their own at this moment; they cannot be told apart but by staying.)
    let stays = |path: &&str| {
        path.contains(&mine) && {
            let deadline = Instant::now() + Duration::from_secs(30);
            while std::path::Path::new(path).exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
            std::path::Path::new(path).exists()
        }
    };
    let stay: Vec<&str> = left.lines().filter(stays).collect();
    assert_eq!(stay, Vec::<&str>::new());
}
