//! [`HomeWithScratch`]: a home whose session has a scratch directory, which commands see as `/tmp`.
//!
//! Owns which of the two a path leads to ([`WorldPath::scratch`]). They are two file systems: nothing moves from one to
//! the other, and what happens in the scratch directory is no change of the home.

use std::fs::File;
use std::sync::Arc;

use rustix::io::Errno;

use super::home::{DirEntry, Home, HomeUnavailable, RequestStart, WriteMode};
use crate::error::{Error, Result};

use crate::name::WorldPath;
use crate::world::{Meta, RunId, SetAttrs, TurnMark};

/// A home and its scratch directory.
pub(super) struct HomeWithScratch {
    home: Arc<dyn Home>,
    scratch: Arc<dyn Home>,
}

impl HomeWithScratch {
    /// Makes one.
    pub(super) fn new(home: Arc<dyn Home>, scratch: Arc<dyn Home>) -> HomeWithScratch {
        HomeWithScratch { home, scratch }
    }

    /// Returns where a path leads, and the path there.
    fn at(&self, path: &WorldPath) -> (&Arc<dyn Home>, WorldPath) {
        match path.in_scratch() {
            Some(inside) => (&self.scratch, inside),
            None => (&self.home, path.clone()),
        }
    }
}

impl Home for HomeWithScratch {
    fn begin(
        self: Arc<Self>,
        request: &RequestStart<'_>,
    ) -> std::result::Result<Arc<dyn Home>, HomeUnavailable> {
        let home = self.home.clone().begin(request)?;
        Ok(Arc::new(HomeWithScratch::new(home, self.scratch.clone())))
    }

    fn run_part(&self, part: &mut dyn FnMut()) {
        self.home.run_part(part);
    }

    fn take_programs(&self, of: RunId) -> Option<bool> {
        self.home.take_programs(of)
    }

    fn add_program(&self, process: u32) {
        self.home.add_program(process);
    }

    fn add_everybody(&self) -> Result<()> {
        self.home.add_everybody()
    }

    fn programs_go_on(&self) {
        self.home.programs_go_on();
    }

    fn mark(&self, mark: &TurnMark) -> Result<()> {
        self.home.mark(mark)
    }

    fn programs_have_ended(&self) {
        self.home.programs_have_ended();
    }

    fn warning(&self) -> Option<String> {
        self.home.warning()
    }

    fn has_changed(&self) -> bool {
        self.home.has_changed()
    }

    fn unavailable(&self) -> Option<Error> {
        self.home.unavailable()
    }

    fn stat(&self, path: &WorldPath) -> Result<Meta> {
        let (home, path) = self.at(path);
        home.stat(&path)
    }

    fn stat_entries(&self, dir: &WorldPath, names: &[&[u8]]) -> Result<Vec<Result<Meta>>> {
        let (home, dir) = self.at(dir);
        home.stat_entries(&dir, names)
    }

    fn open(&self, path: &WorldPath) -> Result<File> {
        let (home, path) = self.at(path);
        home.open(&path)
    }

    fn open_write(&self, path: &WorldPath, how: WriteMode, mode: u32) -> Result<File> {
        let (home, path) = self.at(path);
        home.open_write(&path, how, mode)
    }

    fn list(&self, path: &WorldPath) -> Result<Vec<DirEntry>> {
        let (home, path) = self.at(path);
        home.list(&path)
    }

    fn mkdir(&self, path: &WorldPath, mode: u32) -> Result<()> {
        let (home, path) = self.at(path);
        home.mkdir(&path, mode)
    }

    fn remove(&self, path: &WorldPath) -> Result<()> {
        let (home, path) = self.at(path);
        home.remove(&path)
    }

    fn remove_dir(&self, path: &WorldPath) -> Result<()> {
        let (home, path) = self.at(path);
        home.remove_dir(&path)
    }

    fn remove_tree(&self, path: &WorldPath, go_on: &dyn Fn() -> bool) -> Result<()> {
        let (home, path) = self.at(path);
        home.remove_tree(&path, go_on)
    }

    fn rename(&self, from: &WorldPath, to: &WorldPath, replace: bool) -> Result<()> {
        let ((home, from), (other, to)) = (self.at(from), self.at(to));
        match Arc::ptr_eq(home, other) {
            true => home.rename(&from, &to, replace),
            false => Err(Error::os("renameat2")(Errno::XDEV)),
        }
    }

    fn set_attrs(&self, path: &WorldPath, change: &SetAttrs) -> Result<()> {
        let (home, path) = self.at(path);
        home.set_attrs(&path, change)
    }
}
