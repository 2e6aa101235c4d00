//! Limits: the program ends within them, the outcome names the one that was hit, and the machine stays well.
//!
//! Each is tried with cgroups, where this process may make any, and without.

use std::time::{Duration, Instant};

use trumanfs::exec::program::sandbox::{
    ActiveLimit, KillCondition, LimitKind, LimitMechanism, ProgramEnd, ProgramOutcome,
    ResourceLimits, launch,
};

use crate::common::need_tools;
use crate::room::{LIMIT, Room, launcher};

const MIB: u64 = 1 << 20;

/// Runs a subject of probe.c within limits, with and without cgroups.
fn within(
    limits: &ResourceLimits,
    argv: &[&str],
    check: impl Fn(&ProgramOutcome, &[ActiveLimit], &str),
) {
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
        let ended = running.wait(KillCondition {
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

fn is_cgroup(mechanism: LimitMechanism) -> bool {
    matches!(
        mechanism,
        LimitMechanism::CgroupV1 | LimitMechanism::CgroupV2
    )
}

fn mechanism(in_force: &[ActiveLimit], limit: LimitKind) -> LimitMechanism {
    in_force
        .iter()
        .find(|one| one.limit == limit)
        .unwrap()
        .mechanism
}

#[test]
fn memory_of_one_process() {
    need_tools!("gcc");
    let limits = ResourceLimits {
        memory: Some(64 * MIB),
        ..ResourceLimits::default()
    };
    within(&limits, &["memory", "400", "0"], |ended, in_force, said| {
        assert_eq!(
            ended.end,
            ProgramEnd::Limit(LimitKind::Memory),
            "{in_force:?}"
        );
        assert!(ended.hit.contains(&LimitKind::Memory));
        assert_eq!(said, "");
        assert_eq!(in_force.len(), 1);
    });
    within(&limits, &["memory", "20", "0"], |ended, _, said| {
        assert_eq!(
            (&ended.end, ended.hit.len(), said),
            (&ProgramEnd::Exited(0), 0, "touched\n")
        );
    });
}

#[test]
fn memory_of_several_processes() {
    need_tools!("gcc");
    let limits = ResourceLimits {
        memory: Some(64 * MIB),
        ..ResourceLimits::default()
    };
    within(&limits, &["memory", "200", "1"], |ended, in_force, _| {
        // With a cgroup of version 1 one of the four is killed, and the others wait until they are as well.
        assert!(
            ended.hit.contains(&LimitKind::Memory),
            "{ended:?} {in_force:?}"
        );
    });
}

#[test]
fn memory_that_is_shared_counts_once() {
    // 40 MiB before ten forks.
    let limits = ResourceLimits {
        memory: Some(120 * MIB),
        ..ResourceLimits::default()
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
        let ended = launch(plan, &launcher)
            .unwrap()
            .wait(KillCondition::default());
        assert_eq!(ended.end, ProgramEnd::Exited(0), "{ended:?}");
    }
}

#[test]
fn files_in_shared_memory_count() {
    let room = Room::new();
    let mut plan = room.plan(&["sh", "-c", "head -c 100000000 /dev/zero >/dev/shm/x"]);
    plan.limits.memory = Some(32 * MIB);
    let outcome = room.run(plan);
    assert_ne!(outcome.ended.end, ProgramEnd::Exited(0), "{outcome:?}");
}

/// Skips a test where sandboxes have no Python.
macro_rules! need_system_python {
    () => {
        if !std::path::Path::new("/usr/bin/python3").exists() {
            crate::need::skip!("system-python", "there is no /usr/bin/python3");
        }
    };
}

/// Runs a Python program in a sandbox whose limits the first process looks after, for as long as it takes.
fn watched(limits: &ResourceLimits, script: &str) -> (ProgramOutcome, String) {
    let room = Room::new();
    let mut plan = room.plan(&["python3", "-c", script]);
    plan.limits = limits.clone();
    let mut out = tempfile::tempfile().unwrap();
    plan.stdout = out.try_clone().unwrap().into();
    let mut running = launch(plan, &launcher().without_cgroups()).unwrap();
    let ended = running.wait(KillCondition {
        deadline: Some(Instant::now() + LIMIT),
        cancel: None,
    });
    let said = {
        use std::io::Seek;
        out.rewind().unwrap();
        std::io::read_to_string(out).unwrap()
    };
    (ended, said)
}

fn memory(mib: u64) -> ResourceLimits {
    ResourceLimits {
        memory: Some(mib * MIB),
        ..ResourceLimits::default()
    }
}

/// With three descriptors the first process could read nothing of /proc, and with the least share of the processor it
/// would read it late.
#[test]
fn first_process_keeps_its_limits_and_its_share() {
    need_system_python!();
    let script = r#"
import ctypes, os, resource, subprocess
def refused(what, call):
    try: call()
    except PermissionError: return
    except OSError as error: print(what, error); return
    print(what, "was possible")
refused("prlimit", lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)))
refused("renice", lambda: os.setpriority(os.PRIO_PROCESS, 1, 19))
refused("renice of the user", lambda: os.setpriority(os.PRIO_USER, 0, 19))
refused("affinity", lambda: os.sched_setaffinity(1, {0}))
refused("scheduler", lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)))
print(resource.prlimit(1, resource.RLIMIT_NOFILE) == resource.getrlimit(resource.RLIMIT_NOFILE))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(resource.getrlimit(resource.RLIMIT_NOFILE), os.nice(1) - os.nice(0), len(os.sched_getaffinity(1)) > 0)
held = [bytearray(100 << 20) for _ in range(12)]
import time
time.sleep(3)
print("was not noticed")
"#;
    let (ended, said) = watched(&memory(300), script);
    assert_eq!(ended.end, ProgramEnd::Limit(LimitKind::Memory), "{said}");
    // The output of Python is lost with it.
    assert_eq!(said, "");
    let (ended, said) = watched(&memory(300), script.split("held").next().unwrap());
    assert_eq!(
        (ended.end, &*said),
        (ProgramEnd::Exited(0), "True\n(64, 64) 0 True\n")
    );
}

#[test]
fn prlimit_of_first_process_is_refused_and_of_a_command_is_not() {
    let room = Room::new();
    let script = "prlimit --pid 1 --nofile=3 2>&1 && echo possible; prlimit --nofile=40 sh -c 'ulimit -n'; ulimit -n 30; ulimit -n";
    let mut plan = room.plan(&["sh", "-c", script]);
    plan.limits = memory(300);
    let said = room.run(plan).good();
    assert!(!said.contains("possible"), "{said}");
    assert!(said.ends_with("40\n30\n"), "{said}");
}

/// Each holds some 400 MiB, and sleeps until somebody ends it.
#[test]
fn memory_that_no_process_has_mapped_counts() {
    need_system_python!();
    let begin = "import ctypes, mmap, os, signal, sys, threading, time\nlibc = ctypes.CDLL(None, use_errno=True)\n";
    for (what, script) in [
        (
            "a shared anonymous map",
            "m = mmap.mmap(-1, 400 << 20)\nfor at in range(0, 400 << 20, 4096): m[at] = 1\n",
        ),
        (
            "System V",
            "n = libc.shmget(0, ctypes.c_size_t(400 << 20), 0o1600)\nlibc.shmat.restype = ctypes.c_void_p\np = libc.shmat(n, None, 0)\nctypes.memset(p, 1, 400 << 20)\nlibc.shmdt(ctypes.c_void_p(p))\n",
        ),
        (
            "a process whose first thread has ended",
            "held = []\ndef work():\n  held.append(bytearray(b'x') * (400 << 20))\n  time.sleep(60)\nthreading.Thread(target=work).start()\nlibc.syscall(60 if os.uname().machine == 'x86_64' else 93, 0)\n",
        ),
        (
            "a process that nobody may look into",
            "libc.prctl(4, 0)\nheld = bytearray(b'x') * (400 << 20)\n",
        ),
    ] {
        let script = format!("{begin}{script}time.sleep(60)\n");
        let (ended, said) = watched(&memory(128), &script);
        assert_eq!(
            ended.end,
            ProgramEnd::Limit(LimitKind::Memory),
            "{what}: {said}"
        );
    }
}

#[test]
fn files_that_only_a_descriptor_holds_are_not_offered_where_memory_is_watched() {
    need_system_python!();
    let script = "import os, errno\ntry: os.memfd_create('x')\nexcept OSError as e: print(errno.errorcode[e.errno])";
    let (ended, said) = watched(&memory(128), script);
    assert_eq!((ended.end, &*said), (ProgramEnd::Exited(0), "ENOSYS\n"));
    let (ended, said) = watched(&ResourceLimits::default(), script);
    assert_eq!((ended.end, &*said), (ProgramEnd::Exited(0), ""));
}

/// What is mapped from /dev/shm counts once.
#[test]
fn shared_memory_in_use_counts_once() {
    need_system_python!();
    let script = "import mmap, os, time\nf = os.open('/dev/shm/x', os.O_RDWR | os.O_CREAT)\nos.ftruncate(f, 80 << 20)\nm = mmap.mmap(f, 80 << 20)\nfor at in range(0, 80 << 20, 4096): m[at] = 1\nfor _ in range(3):\n  if os.fork() == 0: sum(m[at] for at in range(0, 80 << 20, 4096)); time.sleep(1); os._exit(0)\nfor _ in range(3): os.wait()\n";
    let (ended, said) = watched(&memory(150), script);
    assert_eq!(ended.end, ProgramEnd::Exited(0), "{said}");
}

/// Memory that processes share counts once in each moment, also while more of them map it.
#[test]
fn shared_memory_counts_once_while_processes_come_and_go() {
    need_system_python!();
    for map in [
        "f = os.open('/dev/shm/x', os.O_RDWR | os.O_CREAT)\nos.ftruncate(f, 80 << 20)\nm = mmap.mmap(f, 80 << 20)\n",
        "m = mmap.mmap(-1, 80 << 20)\n",
    ] {
        let script = format!(
            "import mmap, os, time\n{map}for at in range(0, 80 << 20, 4096): m[at] = 1\nend = time.monotonic() + 3\nwhile time.monotonic() < end:\n  for _ in range(3):\n    if os.fork() == 0: bytes(m[::4096]); os._exit(0)\n  for _ in range(3): os.wait()\n"
        );
        let (ended, said) = watched(&memory(130), &script);
        assert_eq!(ended.end, ProgramEnd::Exited(0), "{map}: {said}");
    }
}

#[test]
fn processor_time_counts_where_nobody_waits_for_children() {
    need_system_python!();
    let script = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True:\n  if os.fork() == 0:\n    end = time.process_time() + 0.2\n    while time.process_time() < end: pass\n    os._exit(0)\n  try: os.wait()\n  except ChildProcessError: pass\n";
    let limits = ResourceLimits {
        cpu: Some(Duration::from_secs(1)),
        ..ResourceLimits::default()
    };
    let (ended, said) = watched(&limits, script);
    assert_eq!(ended.end, ProgramEnd::Limit(LimitKind::Cpu), "{said}");
}

#[test]
fn limit_of_nothing_is_an_error_of_the_request() {
    let room = Room::new();
    let usual = ResourceLimits::default;
    for (name, limits) in [
        (
            "cpu",
            ResourceLimits {
                cpu: Some(Duration::ZERO),
                ..usual()
            },
        ),
        (
            "memory",
            ResourceLimits {
                memory: Some(0),
                ..usual()
            },
        ),
        (
            "processes",
            ResourceLimits {
                processes: Some(0),
                ..usual()
            },
        ),
        (
            "open_files",
            ResourceLimits {
                open_files: Some(0),
                ..usual()
            },
        ),
        (
            "file_size",
            ResourceLimits {
                file_size: Some(0),
                ..usual()
            },
        ),
    ] {
        let mut plan = room.plan(&["true"]);
        plan.limits = limits;
        let error = launch(plan, &launcher()).map(drop).unwrap_err();
        let wanted = format!("a limit of {name} that is 0 lets nothing run");
        assert!(error.to_string().contains(&wanted), "{error}");
    }
}

/// The first process needs descriptors of its own, whatever the program may have.
#[test]
fn few_open_files_are_the_programs_alone() {
    let room = Room::new();
    let mut plan = room.plan(&["sh", "-c", "ulimit -n; exec 9</dev/null || echo none"]);
    plan.limits = ResourceLimits {
        open_files: Some(6),
        ..memory(128)
    };
    let said = room.run(plan);
    assert_eq!(said.out, "6\n", "{said:?}");
}

#[test]
fn processes() {
    need_tools!("gcc");
    let limits = ResourceLimits {
        processes: Some(20),
        ..ResourceLimits::default()
    };
    within(
        &limits,
        &["forks"],
        |ended, in_force, said| match mechanism(in_force, LimitKind::Processes) {
            LimitMechanism::Watched => {
                assert_eq!(ended.end, ProgramEnd::Limit(LimitKind::Processes))
            }
            mechanism => {
                assert_eq!(said, "19 EAGAIN\n", "{mechanism:?}");
                assert_eq!(
                    ended.hit.contains(&LimitKind::Processes),
                    is_cgroup(mechanism)
                );
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
        let ended = running.wait(KillCondition {
            deadline,
            cancel: None,
        });
        assert_eq!(ended.end, ProgramEnd::Deadline);
        assert!(ended.all_gone);
    }
}

#[test]
fn processor_time() {
    need_tools!("gcc");
    let limits = ResourceLimits {
        cpu: Some(Duration::from_millis(300)),
        ..ResourceLimits::default()
    };
    within(&limits, &["spin"], |ended, _, _| {
        assert_eq!(ended.end, ProgramEnd::Limit(LimitKind::Cpu));
        assert!(ended.cpu >= Duration::from_millis(290), "{ended:?}");
    });
}

#[test]
fn open_files() {
    need_tools!("gcc");
    let limits = ResourceLimits {
        open_files: Some(64),
        ..ResourceLimits::default()
    };
    within(&limits, &["descriptors"], |ended, in_force, said| {
        assert_eq!((&ended.end, said), (&ProgramEnd::Exited(0), "64 EMFILE\n"));
        assert_eq!(
            mechanism(in_force, LimitKind::OpenFiles),
            LimitMechanism::Rlimit
        );
    });
}

#[test]
fn the_size_of_a_file() {
    let room = Room::new();
    let mut plan = room.plan(&["sh", "-c", "exec head -c 3000000 /dev/zero >big"]);
    plan.limits.file_size = Some(2 * MIB);
    let outcome = room.run(plan);
    assert_eq!(outcome.ended.end, ProgramEnd::Limit(LimitKind::FileSize));
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
        plan.limits = ResourceLimits {
            processes: Some(20),
            memory: Some(64 * MIB),
            ..ResourceLimits::default()
        };
        let ended = launch(plan, &launcher().without_cgroups())
            .unwrap()
            .wait(KillCondition::default());
        assert!(
            matches!(
                ended.end,
                ProgramEnd::Limit(LimitKind::Processes | LimitKind::Memory)
            ),
            "{ended:?}"
        );
    }
}

#[test]
fn no_group_stays() {
    let room = Room::new();
    let mut plan = room.plan(&["sh", "-c", "cat /proc/self/cgroup; cat /proc/1/cgroup"]);
    plan.limits = ResourceLimits {
        processes: Some(20),
        memory: Some(64 * MIB),
        ..ResourceLimits::default()
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
