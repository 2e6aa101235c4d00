//! The members of runs: threads of executors, and all processes of a program's PID namespace.
//!
//! The kernel names the thread that waits for a request. An executor that works in its own process registers its
//! threads; a program's processes, whatever they start and call themselves, share a PID namespace. Both are known by
//! descriptors, so a number that has come to mean another thread or namespace is not taken for the former. A request
//! without a number (0: the page cache's writing back, a caller in a namespace that the daemon does not see) belongs to
//! no known run.
//!
//! Costs nothing while nothing is registered: one load of an atomic number for each change.
//!
//! Locks: one over the table, never held over a system call.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::sys::identity::{PidNamespace, ProcessThread};
use crate::world::{Origin, RunId};

/// A namespace's number: device and inode.
type NamespaceId = (u64, u64);

/// The members of all runs that are under way.
#[derive(Debug)]
pub struct RunMembers {
    /// The number of threads and namespaces that are registered.
    members: AtomicUsize,
    table: RwLock<MemberTable>,
    /// The daemon's own namespace; absent where it cannot be told.
    own: Option<NamespaceId>,
}

#[derive(Debug, Default)]
struct MemberTable {
    threads: HashMap<u32, (Arc<ProcessThread>, Origin)>,
    namespaces: HashMap<NamespaceId, (PidNamespace, Origin)>,
    /// Whoever is no other member: a program without a namespace of its own works here, in a home that was mounted for it.
    everybody: Option<Origin>,
}

impl Default for RunMembers {
    fn default() -> RunMembers {
        RunMembers {
            members: AtomicUsize::new(0),
            table: RwLock::default(),
            own: PidNamespace::id_of(std::process::id()).ok(),
        }
    }
}

impl RunMembers {
    /// Returns how many threads and namespaces are registered.
    pub fn member_count(&self) -> usize {
        self.members.load(Ordering::Relaxed)
    }

    /// Returns the runs that have members.
    pub fn runs(&self) -> Vec<RunId> {
        let table = self.table.read();
        let threads = table.threads.values().map(|(_, origin)| *origin);
        let namespaces = table.namespaces.values().map(|(_, origin)| *origin);
        let all = threads.chain(namespaces).chain(table.everybody);
        let mut runs: Vec<RunId> = all.filter_map(|origin| origin.run).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }

    /// Returns what a request of a thread is the doing of.
    pub fn origin_of(&self, thread: u32) -> Origin {
        if self.members.load(Ordering::Acquire) == 0 {
            return Origin::default();
        }
        let member = match thread {
            0 => None,
            thread => self.look_up(thread),
        };
        let everybody = || self.table.read().everybody;
        member.or_else(everybody).unwrap_or_default()
    }

    fn look_up(&self, number: u32) -> Option<Origin> {
        let (thread, any_namespace) = {
            let table = self.table.read();
            (
                table.threads.get(&number).cloned(),
                !table.namespaces.is_empty(),
            )
        };
        match thread {
            Some((thread, origin)) if thread.lives() => Some(origin),
            _ if any_namespace => self.by_namespace(number),
            _ => None,
        }
    }

    /// A program may make namespaces within its own, so those around a process's are looked at, too.
    fn by_namespace(&self, number: u32) -> Option<Origin> {
        let id = PidNamespace::id_of(number).ok()?;
        if Some(id) == self.own {
            return None;
        }
        if let Some(origin) = self.origin_in(id) {
            return Some(origin);
        }
        let mut namespace = PidNamespace::of(number).ok()?;
        // The kernel nests them 32 deep at most (pid_namespaces(7)).
        while let Ok(above) = namespace.parent() {
            if Some(above.id()) == self.own {
                return None;
            }
            if let Some(origin) = self.origin_in(above.id()) {
                return Some(origin);
            }
            namespace = above;
        }
        None
    }

    /// Returns whether a process of this user is a program of a run, one that was started in a namespace of its own, or
    /// whether that cannot be told, because it has ended or lets nobody look.
    pub fn is_program(&self, process: u32, uid: u32) -> bool {
        if self.table.read().namespaces.is_empty() {
            return false;
        }
        match PidNamespace::id_of(process) {
            Ok(_) => self.by_namespace(process).is_some(),
            // An ordinary user's daemon may not look at root's processes, and runs no programs as root.
            Err(Errno::ACCESS | Errno::PERM) => uid != 0,
            Err(_) => true,
        }
    }

    fn origin_in(&self, id: NamespaceId) -> Option<Origin> {
        let table = self.table.read();
        table.namespaces.get(&id).map(|(_, origin)| *origin)
    }

    /// Makes a thread a member of a run.
    ///
    /// # Errors
    /// [`Error::Refused`] where the process has no such thread; [`Error::Conflict`] where it belongs to another run.
    pub fn add_thread(&self, process: u32, number: u32, origin: Origin) -> Result<()> {
        let thread = ProcessThread::of(process, number).map_err(|_| {
            let what = format!("process {process} has no thread {number}");
            Error::refused(what, "An executor registers threads of its own.")
        })?;
        let mut table = self.table.write();
        let known = table.threads.get(&number).cloned();
        // A number that comes round again: whoever had it is no member any more.
        if known.is_some_and(|(known, of)| of.run != origin.run && known.lives()) {
            return Err(taken_error(&format!("thread {number}")));
        }
        table.threads.insert(number, (Arc::new(thread), origin));
        self.count(&table);
        Ok(())
    }

    /// Ends a thread's membership of a run.
    pub fn remove_thread(&self, number: u32, run: RunId) {
        let mut table = self.table.write();
        if table
            .threads
            .get(&number)
            .is_some_and(|(_, of)| of.run == Some(run))
        {
            table.threads.remove(&number);
        }
        self.count(&table);
    }

    /// Makes all processes that share a process's PID namespace members of a run, with those of the namespaces in it.
    ///
    /// # Errors
    /// [`Error::Refused`] where there is no such process, or its namespace is the daemon's own or that of `executor`,
    /// in which others work as well; [`Error::Conflict`] where the namespace belongs to another run.
    pub fn add_namespace_of(&self, executor: u32, process: u32, origin: Origin) -> Result<()> {
        let namespace = PidNamespace::of(process).map_err(|errno| {
            let why = Error::os("open")(errno);
            let what = format!("the PID namespace of process {process} cannot be told: {why}");
            Error::refused(what, "Name a process of the program that lives.")
        })?;
        let id = namespace.id();
        let is_shared = self.own.is_none_or(|own| own == id);
        if is_shared || PidNamespace::id_of(executor).is_ok_and(|of_executor| of_executor == id) {
            return Err(Error::refused(
                format!("process {process} is in a PID namespace that is not the program's alone"),
                "Start the program in a PID namespace of its own.",
            ));
        }
        let mut table = self.table.write();
        if table
            .namespaces
            .get(&id)
            .is_some_and(|(_, of)| of.run != origin.run)
        {
            return Err(taken_error(&format!(
                "the PID namespace of process {process}"
            )));
        }
        table.namespaces.insert(id, (namespace, origin));
        self.count(&table);
        Ok(())
    }

    /// Makes everybody who is no member of another run a member of this one.
    ///
    /// # Errors
    /// [`Error::Conflict`] where everybody belongs to another run.
    pub fn add_everybody(&self, origin: Origin) -> Result<()> {
        let mut table = self.table.write();
        if table.everybody.is_some_and(|of| of.run != origin.run) {
            return Err(taken_error("every process in the home"));
        }
        table.everybody = Some(origin);
        self.count(&table);
        Ok(())
    }

    /// Makes all that belong to a run members of another one, at once.
    pub fn pass_on(&self, from: RunId, to: Origin) {
        let mut table = self.table.write();
        let table = &mut *table;
        let threads = table.threads.values_mut().map(|(_, of)| of);
        let namespaces = table.namespaces.values_mut().map(|(_, of)| of);
        let members = threads.chain(namespaces).chain(&mut table.everybody);
        for of in members.filter(|of| of.run == Some(from)) {
            *of = to;
        }
    }

    /// Ends the membership of all that belong to a run.
    pub fn end(&self, run: RunId) {
        let mut table = self.table.write();
        table.threads.retain(|_, (_, of)| of.run != Some(run));
        table.namespaces.retain(|_, (_, of)| of.run != Some(run));
        table.everybody = table.everybody.filter(|of| of.run != Some(run));
        self.count(&table);
    }

    fn count(&self, table: &MemberTable) {
        let everybody = usize::from(table.everybody.is_some());
        let members = table.threads.len() + table.namespaces.len() + everybody;
        self.members.store(members, Ordering::Release);
    }
}

fn taken_error(what: &str) -> Error {
    Error::Conflict {
        what: format!("{what} belongs to another run"),
        remedy: "It can belong to one at a time.".to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::world::OriginKind;

    fn run() -> Origin {
        Origin::of_run(OriginKind::Shell, RunId::random())
    }

    fn own_tid() -> u32 {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        tid.unsigned_abs()
    }

    #[test]
    fn a_thread_belongs_to_a_run_until_either_ends() {
        let runs = RunMembers::default();
        let (me, one, other) = (std::process::id(), run(), run());
        assert!(runs.origin_of(own_tid()).is_plain() && runs.origin_of(0).is_plain());
        runs.add_thread(me, own_tid(), one).unwrap();
        assert_eq!(runs.origin_of(own_tid()), one);
        assert!(runs.origin_of(0).is_plain() && runs.origin_of(1).is_plain());
        // Again for the same run is no harm, for another run it is refused.
        runs.add_thread(me, own_tid(), one).unwrap();
        assert!(matches!(
            runs.add_thread(me, own_tid(), other),
            Err(Error::Conflict { .. })
        ));
        runs.remove_thread(own_tid(), other.run.unwrap());
        assert_eq!(runs.origin_of(own_tid()), one);
        runs.end(one.run.unwrap());
        assert!(runs.origin_of(own_tid()).is_plain());
        assert_eq!(runs.member_count(), 0);
        runs.add_thread(me, own_tid(), other).unwrap();
        runs.remove_thread(own_tid(), other.run.unwrap());
        assert!(runs.origin_of(own_tid()).is_plain());
    }

    #[test]
    fn a_thread_of_another_process_cannot_be_registered() {
        let runs = RunMembers::default();
        assert!(runs.add_thread(1, own_tid(), run()).is_err());
        assert!(runs.add_thread(std::process::id(), 1, run()).is_err());
        assert!(runs.add_thread(u32::MAX, own_tid(), run()).is_err());
    }

    /// The table has an entry for a number; the thread behind it has ended, and the number is another thread's by now.
    #[test]
    fn a_number_that_comes_round_again_is_nobodys() {
        let runs = RunMembers::default();
        let (one, other) = (run(), run());
        let (number, receiver) = channel();
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            number.send(own_tid()).unwrap();
            let _ = ended.recv();
        });
        let tid = receiver.recv().unwrap();
        runs.add_thread(std::process::id(), tid, one).unwrap();
        assert_eq!(runs.origin_of(tid), one);
        drop(end);
        thread.join().unwrap();
        // As if this thread had got the number now.
        let entry = runs.table.write().threads.remove(&tid).unwrap();
        while entry.0.lives() {
            std::thread::yield_now();
        }
        runs.table.write().threads.insert(own_tid(), entry);
        assert!(runs.origin_of(own_tid()).is_plain());
        runs.add_thread(std::process::id(), own_tid(), other)
            .unwrap();
        assert_eq!(runs.origin_of(own_tid()), other);
    }

    /// Root asks an ordinary user's daemon, too, which may not look at root's processes.
    #[test]
    fn who_is_no_program_of_a_run_may_ask() {
        let runs = RunMembers::default();
        let me = std::process::id();
        assert!(!runs.is_program(me, 0) && !runs.is_program(u32::MAX, 1));
        let entry = (PidNamespace::of(me).unwrap(), run());
        runs.table.write().namespaces.insert((0, 0), entry);
        assert!(!runs.is_program(me, 0) && !runs.is_program(1, 0));
        assert!(runs.is_program(u32::MAX, 0), "it has ended");
    }

    #[test]
    fn the_own_namespace_is_not_a_runs() {
        let runs = RunMembers::default();
        let me = std::process::id();
        for process in [me, own_tid(), u32::MAX] {
            let refused = runs.add_namespace_of(me, process, run());
            assert!(matches!(refused, Err(Error::Refused { .. })));
        }
        assert!(runs.origin_of(own_tid()).is_plain());
    }

    #[test]
    fn everybody_is_a_member_but_members_of_other_runs() {
        let (runs, all, other) = (RunMembers::default(), run(), run());
        runs.add_everybody(all).unwrap();
        assert_eq!((runs.origin_of(own_tid()), runs.origin_of(0)), (all, all));
        assert!(runs.add_everybody(other).is_err());
        runs.add_thread(std::process::id(), own_tid(), other)
            .unwrap();
        assert_eq!(runs.origin_of(own_tid()), other);
        runs.end(all.run.unwrap());
        assert!(runs.origin_of(0).is_plain() && runs.member_count() == 1);
    }
}
