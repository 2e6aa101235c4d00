//! The filter of system calls: which are answered with an error, and which with the end of the process.
//!
//! A deny list. It is one of several walls: without capabilities and in namespaces of their own, programs are refused
//! most of this by the kernel as well; the filter keeps them from code in the kernel that they have no use for.
//! Families of sockets are filtered, not `bind` or `sendto`: a program whose `sendto` fails hangs, one whose `bind`
//! fails breaks. What libc and programs have a fall-back for is "not implemented"; all else is "not permitted".
//!
//! The program is a search tree over the numbers, because the kernel tries all numbers once when a filter is installed,
//! to remember those that are allowed whatever their arguments.

use rustix::io::Errno;

use crate::sys::filter::BpfInstruction;
use crate::sys::syscall_numbers as n;

/// Refused with EPERM, whatever the arguments.
const REFUSED_CALLS: &[u32] = &[
    // Mounts and file handles.
    n::MOUNT,
    n::UMOUNT2,
    n::PIVOT_ROOT,
    n::CHROOT,
    n::OPEN_TREE,
    n::OPEN_TREE_ATTR,
    n::MOVE_MOUNT,
    n::FSOPEN,
    n::FSCONFIG,
    n::FSMOUNT,
    n::FSPICK,
    n::MOUNT_SETATTR,
    n::OPEN_BY_HANDLE_AT,
    n::QUOTACTL,
    n::QUOTACTL_FD,
    n::SWAPON,
    n::SWAPOFF,
    // Other processes, other namespaces.
    n::SETNS,
    n::PIDFD_GETFD,
    n::KCMP,
    // Keyrings, which no namespace parts from the host's.
    n::ADD_KEY,
    n::REQUEST_KEY,
    n::KEYCTL,
    // Doors into the kernel.
    n::USERFAULTFD,
    n::PERF_EVENT_OPEN,
    n::BPF,
    n::INIT_MODULE,
    n::FINIT_MODULE,
    n::DELETE_MODULE,
    n::KEXEC_LOAD,
    n::KEXEC_FILE_LOAD,
    n::REBOOT,
    n::ACCT,
    n::SYSLOG,
    n::VHANGUP,
    #[cfg(target_arch = "x86_64")]
    n::IOPL,
    #[cfg(target_arch = "x86_64")]
    n::IOPERM,
    // The clock and the name of the machine.
    n::SETTIMEOFDAY,
    n::CLOCK_SETTIME,
    n::CLOCK_ADJTIME,
    n::ADJTIMEX,
    n::SETHOSTNAME,
    n::SETDOMAINNAME,
];

/// Refused with EPERM where processes may not trace each other.
const TRACING_CALLS: &[u32] = &[n::PTRACE, n::PROCESS_VM_READV, n::PROCESS_VM_WRITEV];

/// Answered with ENOSYS. The flags of clone3(2) lie in memory, where no filter sees them.
const NOT_IMPLEMENTED_CALLS: &[u32] = &[
    n::CLONE3,
    n::IO_URING_SETUP,
    n::IO_URING_ENTER,
    n::IO_URING_REGISTER,
];

/// Answered with ENOSYS where the first process looks after memory: such files are nowhere counted. Programs fall back
/// to files in /dev/shm, which are.
const UNCOUNTED_MEMORY_CALLS: &[u32] = &[n::MEMFD_CREATE, n::MEMFD_SECRET];

/// Refused for the first process, which looks after limits: it would be slow to look.
const SCHEDULING_CALLS: &[u32] = &[
    n::SCHED_SETAFFINITY,
    n::SCHED_SETATTR,
    n::SCHED_SETPARAM,
    n::SCHED_SETSCHEDULER,
];

/// The number of the sandbox's first process, inside.
const FIRST_PID: u32 = 1;

/// The first argument of setpriority(2) and ioprio_set(2) where the second one is a process.
const PRIO_PROCESS: u32 = 0;
const IOPRIO_WHO_PROCESS: u32 = 1;

/// The verdict of the filter on a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallVerdict {
    Allow,
    Refuse(Errno),
    Kill,
    /// The arguments decide.
    Check(ArgumentCheck),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArgumentCheck {
    Clone,
    Unshare,
    Socket,
    /// As [`ArgumentCheck::SocketPair`], for socket(2).
    LocalSocket,
    SocketPair,
    Ioctl,
    /// Limits of other processes can be read, and not set: a filter does not know the caller's own number.
    Prlimit,
    /// The first argument is a process.
    NotFirst,
    /// The second argument is a process where the first one is this; groups and users may have the first process among
    /// them.
    NotFirstBy(u32),
}

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// The lower half of an argument, which is all that the kernel looks at in an `int`: a filter that compared both would
/// let a number with higher bits through (CVE-2019-10063).
const fn lower(argument: u32) -> u32 {
    16 + 8 * argument
}

/// The upper half of an argument that is a pointer.
const fn upper(argument: u32) -> u32 {
    lower(argument) + 4
}

/// The settings that a filter depends on.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FilterSettings {
    /// True if processes may trace each other.
    pub(crate) allows_tracing: bool,
    /// True if the first process looks after memory.
    pub(crate) watches_memory: bool,
    /// True if there are no sockets of the internet.
    pub(crate) refuses_internet: bool,
}

/// Makes the filter.
///
/// # Errors
/// `EOPNOTSUPP` on an architecture for which none was written.
pub(crate) fn filter(settings: FilterSettings) -> Result<Vec<BpfInstruction>, Errno> {
    let architecture = n::ARCHITECTURE.ok_or(Errno::OPNOTSUPP)?;
    let mut program = vec![
        load(ARCHITECTURE),
        jump_equal(architecture, 1, 0),
        verdict(CallVerdict::Kill),
        load(NUMBER),
    ];
    tree(&steps(settings), &mut program);
    Ok(program)
}

/// The verdicts by number: each holds from its number on, until the next.
fn steps(settings: FilterSettings) -> Vec<(u32, CallVerdict)> {
    let mut single: Vec<(u32, CallVerdict)> = vec![
        (n::CLONE, CallVerdict::Check(ArgumentCheck::Clone)),
        (n::UNSHARE, CallVerdict::Check(ArgumentCheck::Unshare)),
        (
            n::SOCKET,
            CallVerdict::Check(match settings.refuses_internet {
                true => ArgumentCheck::LocalSocket,
                false => ArgumentCheck::Socket,
            }),
        ),
        (n::SOCKETPAIR, CallVerdict::Check(ArgumentCheck::SocketPair)),
        (n::IOCTL, CallVerdict::Check(ArgumentCheck::Ioctl)),
        (n::PRLIMIT64, CallVerdict::Check(ArgumentCheck::Prlimit)),
        (
            n::SETPRIORITY,
            CallVerdict::Check(ArgumentCheck::NotFirstBy(PRIO_PROCESS)),
        ),
        (
            n::IOPRIO_SET,
            CallVerdict::Check(ArgumentCheck::NotFirstBy(IOPRIO_WHO_PROCESS)),
        ),
    ];
    let scheduling = SCHEDULING_CALLS.iter();
    single.extend(scheduling.map(|number| (*number, CallVerdict::Check(ArgumentCheck::NotFirst))));
    let missing = NOT_IMPLEMENTED_CALLS.iter();
    let watches = settings.watches_memory;
    let missing = missing.chain(if watches { UNCOUNTED_MEMORY_CALLS } else { &[] });
    let tracing = settings.allows_tracing;
    let refused = REFUSED_CALLS
        .iter()
        .chain(if tracing { &[] } else { TRACING_CALLS });
    single.extend(refused.map(|number| (*number, CallVerdict::Refuse(Errno::PERM))));
    single.extend(missing.map(|number| (*number, CallVerdict::Refuse(Errno::NOSYS))));
    single.sort_by_key(|(number, _)| *number);
    let mut steps = vec![(0, CallVerdict::Allow)];
    let mut put = |from: u32, verdict| {
        if steps.last().is_some_and(|(last, _)| *last == from) {
            steps.pop();
        }
        if steps.last().is_none_or(|(_, last)| *last != verdict) {
            steps.push((from, verdict));
        }
    };
    for (number, verdict) in single {
        put(number, verdict);
        put(number + 1, CallVerdict::Allow);
    }
    // What came into the kernel later, nobody has looked at: programs have to do without it on older ones, too.
    put(n::NEWEST + 1, CallVerdict::Refuse(Errno::NOSYS));
    // On x86-64, these are system calls of x32; elsewhere they are none.
    put(n::X32, CallVerdict::Kill);
    // -1 is what a tracer puts there to have a call skipped.
    put(2 * n::X32, CallVerdict::Refuse(Errno::NOSYS));
    steps
}

/// Appends a search tree.
fn tree(steps: &[(u32, CallVerdict)], program: &mut Vec<BpfInstruction>) {
    match steps {
        [] => {}
        [(_, only)] => leaf(*only, program),
        _ => {
            let (left, right) = steps.split_at(steps.len() / 2);
            let at = program.len();
            let from = right.first().map_or(0, |(number, _)| *number);
            program.push(BpfInstruction {
                code: JGE,
                jt: 0,
                jf: 0,
                k: from,
            });
            tree(left, program);
            // The left half is short enough by far: a test installs the whole.
            let skip = u8::try_from(program.len() - at - 1).unwrap_or(u8::MAX);
            if let Some(jump) = program.get_mut(at) {
                jump.jt = skip;
            }
            tree(right, program);
        }
    }
}

fn leaf(one: CallVerdict, program: &mut Vec<BpfInstruction>) {
    let CallVerdict::Check(check) = one else {
        program.push(verdict(one));
        return;
    };
    let (allow, perm) = (
        verdict(CallVerdict::Allow),
        verdict(CallVerdict::Refuse(Errno::PERM)),
    );
    let family = verdict(CallVerdict::Refuse(Errno::AFNOSUPPORT));
    match check {
        ArgumentCheck::Clone => program.extend([
            load(lower(0)),
            jump_set(n::NEW_NAMESPACES, 1, 0),
            allow,
            perm,
        ]),
        ArgumentCheck::Unshare => program.extend([
            load(lower(0)),
            jump_set(n::NEW_NAMESPACES | n::NEW_TIME, 1, 0),
            allow,
            perm,
        ]),
        ArgumentCheck::Ioctl => program.extend([
            load(lower(1)),
            jump_equal(n::TIOCSTI, 2, 0),
            jump_equal(n::TIOCLINUX, 1, 0),
            allow,
            perm,
        ]),
        ArgumentCheck::Prlimit => program.extend([
            load(lower(0)),
            jump_equal(0, 4, 0),
            load(lower(2)),
            jump_equal(0, 0, 3),
            load(upper(2)),
            jump_equal(0, 0, 1),
            allow,
            perm,
        ]),
        ArgumentCheck::NotFirst => {
            program.extend([load(lower(0)), jump_equal(FIRST_PID, 1, 0), allow, perm])
        }
        ArgumentCheck::NotFirstBy(kind) => program.extend([
            load(lower(0)),
            jump_equal(kind, 0, 3),
            load(lower(1)),
            jump_equal(FIRST_PID, 1, 0),
            allow,
            perm,
        ]),
        ArgumentCheck::SocketPair | ArgumentCheck::LocalSocket => {
            program.extend([load(lower(0)), jump_equal(n::AF_UNIX, 0, 1), allow, family])
        }
        ArgumentCheck::Socket => program.extend([
            load(lower(0)),
            jump_equal(n::AF_UNIX, 5, 0),
            jump_equal(n::AF_INET, 4, 0),
            jump_equal(n::AF_INET6, 3, 0),
            jump_equal(n::AF_NETLINK, 0, 3),
            load(lower(2)),
            jump_equal(n::NETLINK_ROUTE, 0, 1),
            allow,
            family,
        ]),
    }
}

/// Operations of classic BPF, as linux/bpf_common.h has them.
const LD_W_ABS: u16 = 0x20;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;
const RET: u16 = 0x06;

const fn load(offset: u32) -> BpfInstruction {
    BpfInstruction {
        code: LD_W_ABS,
        jt: 0,
        jf: 0,
        k: offset,
    }
}

const fn jump_equal(k: u32, jt: u8, jf: u8) -> BpfInstruction {
    BpfInstruction {
        code: JEQ,
        jt,
        jf,
        k,
    }
}

const fn jump_set(k: u32, jt: u8, jf: u8) -> BpfInstruction {
    BpfInstruction {
        code: JSET,
        jt,
        jf,
        k,
    }
}

fn verdict(verdict: CallVerdict) -> BpfInstruction {
    let k = match verdict {
        CallVerdict::Allow => n::RET_ALLOW,
        CallVerdict::Kill | CallVerdict::Check(_) => n::RET_KILL,
        CallVerdict::Refuse(errno) => n::RET_ERRNO | errno.raw_os_error().cast_unsigned(),
    };
    BpfInstruction {
        code: RET,
        jt: 0,
        jf: 0,
        k,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
mod tests {
    use super::*;

    /// Runs a filter on a system call as the kernel would; returns what it says, and after how many instructions.
    fn decide(
        program: &[BpfInstruction],
        architecture: u32,
        number: u32,
        arguments: [u64; 6],
    ) -> (u32, usize) {
        let (mut at, mut loaded, mut count) = (0, 0, 0);
        loop {
            let now = program[at];
            at += 1;
            count += 1;
            match now.code {
                LD_W_ABS => {
                    loaded = match now.k {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        offset => {
                            let (at, half) = ((offset as usize - 16) / 8, offset % 8);
                            (arguments[at] >> (half * 8)) as u32
                        }
                    }
                }
                RET => return (now.k, count),
                code => {
                    let is = match code {
                        JEQ => loaded == now.k,
                        JGE => loaded >= now.k,
                        JSET => loaded & now.k != 0,
                        other => panic!("operation {other:#x}"),
                    };
                    at += usize::from(if is { now.jt } else { now.jf });
                }
            }
        }
    }

    fn errno(errno: Errno) -> u32 {
        n::RET_ERRNO | errno.raw_os_error() as u32
    }

    fn answer_of(tracing: bool, number: u32, arguments: [u64; 6]) -> u32 {
        let program = filter(FilterSettings {
            allows_tracing: tracing,
            ..FilterSettings::default()
        })
        .unwrap();
        decide(&program, n::ARCHITECTURE.unwrap(), number, arguments).0
    }

    #[test]
    fn each_number_gets_its_verdict_and_soon() {
        let program = filter(FilterSettings::default()).unwrap();
        assert!(program.len() < 256, "{}", program.len());
        for number in 0..=1000 {
            let (answer, count) = decide(&program, n::ARCHITECTURE.unwrap(), number, [0; 6]);
            let wanted = if REFUSED_CALLS.contains(&number) || TRACING_CALLS.contains(&number) {
                errno(Errno::PERM)
            } else if NOT_IMPLEMENTED_CALLS.contains(&number) || number > n::NEWEST {
                errno(Errno::NOSYS)
            } else if [n::IOPRIO_SET].contains(&number) {
                errno(Errno::PERM)
            } else if [n::SOCKET, n::SOCKETPAIR].contains(&number) {
                errno(Errno::AFNOSUPPORT)
            } else {
                n::RET_ALLOW
            };
            assert_eq!(answer, wanted, "system call {number}");
            assert!(count <= 20, "{count} instructions for {number}");
        }
    }

    #[test]
    fn tracing_is_allowed_by_itself() {
        for number in TRACING_CALLS {
            assert_eq!(answer_of(false, *number, [0; 6]), errno(Errno::PERM));
            assert_eq!(answer_of(true, *number, [0; 6]), n::RET_ALLOW);
        }
        assert_eq!(answer_of(true, n::PIDFD_GETFD, [0; 6]), errno(Errno::PERM));
    }

    #[test]
    fn files_in_memory_that_nothing_counts_are_not_implemented() {
        for number in UNCOUNTED_MEMORY_CALLS {
            for (watched, wanted) in [(true, errno(Errno::NOSYS)), (false, n::RET_ALLOW)] {
                let settings = FilterSettings {
                    watches_memory: watched,
                    ..FilterSettings::default()
                };
                let program = filter(settings).unwrap();
                let answer = decide(&program, n::ARCHITECTURE.unwrap(), *number, [0; 6]).0;
                assert_eq!(answer, wanted, "{number}");
            }
        }
    }

    #[test]
    fn other_architectures_are_the_end() {
        let program = filter(FilterSettings {
            allows_tracing: true,
            watches_memory: true,
            refuses_internet: true,
        })
        .unwrap();
        assert_eq!(decide(&program, 0x4000_0003, 20, [0; 6]).0, n::RET_KILL);
        for number in [n::X32, n::X32 | 39, n::X32 | 520] {
            assert_eq!(answer_of(true, number, [0; 6]), n::RET_KILL);
        }
        assert_eq!(answer_of(true, u32::MAX, [0; 6]), errno(Errno::NOSYS));
    }

    #[test]
    fn arguments_decide_by_their_lower_half() {
        let first = |value| [value, 0, 0, 0, 0, 0];
        let high = 0xdead_beef_0000_0000;
        for (number, arguments, wanted) in [
            (n::CLONE, first(0x11), n::RET_ALLOW),
            (n::CLONE, first(0x1000_0000 | 17), errno(Errno::PERM)),
            (n::CLONE, first(high | 0x0002_0000), errno(Errno::PERM)),
            (n::UNSHARE, first(0x400), n::RET_ALLOW),
            (n::UNSHARE, first(0x80), errno(Errno::PERM)),
            (n::UNSHARE, first(0x1000_0000), errno(Errno::PERM)),
            (n::IOCTL, [0, 0x5401, 0, 0, 0, 0], n::RET_ALLOW),
            (n::IOCTL, [0, 0x5412, 0, 0, 0, 0], errno(Errno::PERM)),
            (n::IOCTL, [0, high | 0x5412, 0, 0, 0, 0], errno(Errno::PERM)),
            (n::IOCTL, [0, high | 0x541c, 0, 0, 0, 0], errno(Errno::PERM)),
            (n::SOCKET, first(1), n::RET_ALLOW),
            (n::SOCKET, first(2), n::RET_ALLOW),
            (n::SOCKET, first(10), n::RET_ALLOW),
            (n::SOCKET, [16, 3, 0, 0, 0, 0], n::RET_ALLOW),
            (n::SOCKET, [16, 3, 15, 0, 0, 0], errno(Errno::AFNOSUPPORT)),
            (n::SOCKET, first(40), errno(Errno::AFNOSUPPORT)),
            (n::SOCKET, first(17), errno(Errno::AFNOSUPPORT)),
            (n::PRLIMIT64, [0, 7, 0x1000, 0, 0, 0], n::RET_ALLOW),
            (n::PRLIMIT64, [1, 7, 0, 0x1000, 0, 0], n::RET_ALLOW),
            (n::PRLIMIT64, [1, 7, 0x1000, 0, 0, 0], errno(Errno::PERM)),
            (n::PRLIMIT64, [high, 7, 0x1000, 0, 0, 0], n::RET_ALLOW),
            (n::PRLIMIT64, [2, 7, 1 << 32, 0, 0, 0], errno(Errno::PERM)),
            (n::SETPRIORITY, [0, 0, 5, 0, 0, 0], n::RET_ALLOW),
            (n::SETPRIORITY, [0, 7, 5, 0, 0, 0], n::RET_ALLOW),
            (
                n::SETPRIORITY,
                [0, high | 1, 5, 0, 0, 0],
                errno(Errno::PERM),
            ),
            (n::SETPRIORITY, [1, 0, 5, 0, 0, 0], errno(Errno::PERM)),
            (n::SETPRIORITY, [2, 0, 5, 0, 0, 0], errno(Errno::PERM)),
            (n::IOPRIO_SET, [1, 0, 5, 0, 0, 0], n::RET_ALLOW),
            (n::IOPRIO_SET, [1, 1, 5, 0, 0, 0], errno(Errno::PERM)),
            (n::IOPRIO_SET, [2, 0, 5, 0, 0, 0], errno(Errno::PERM)),
            (n::SCHED_SETAFFINITY, first(0), n::RET_ALLOW),
            (n::SCHED_SETAFFINITY, first(high | 1), errno(Errno::PERM)),
            (n::SCHED_SETSCHEDULER, first(1), errno(Errno::PERM)),
            (n::SOCKETPAIR, first(1), n::RET_ALLOW),
            (n::SOCKETPAIR, first(30), errno(Errno::AFNOSUPPORT)),
        ] {
            assert_eq!(
                answer_of(false, number, arguments),
                wanted,
                "{number} {arguments:x?}"
            );
        }
    }
}
