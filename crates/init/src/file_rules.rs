//! The rules about what a program may open that has no root of its own: they are in place of mounts.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::backend::Backend;
use crate::error::{Step, StepFailure};
use crate::orders::{BindSource, InitOrders};
use crate::sys::landlock::{Ruleset, access};
use crate::sys::mount::attr;

/// Makes the rules of the orders, where the backend has some. Of each mount that they list, the host's own file or
/// directory may be opened: for reading, or for everything.
pub(crate) fn make(orders: &InitOrders) -> Result<Option<Ruleset>, StepFailure> {
    if orders.backend != Backend::Landlock {
        return Ok(None);
    }
    let failed = |what: String| move |errno| StepFailure::new(Step::Backend, what, errno);
    let ruleset = Ruleset::new().map_err(failed("Landlock".to_owned()))?;
    for bind in &orders.binds {
        let BindSource::Path(path) = &bind.source else {
            continue;
        };
        let shown = path.display().to_string();
        let opened = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let at = match opened {
            // Not every machine has all of them, and what this user cannot reach its programs cannot either.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => continue,
            at => at.map_err(failed(shown.clone()))?,
        };
        let stat =
            rustix::fs::statat(&at, "", AtFlags::EMPTY_PATH).map_err(failed(shown.clone()))?;
        let kinds = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => u64::MAX,
            _ => access::OF_FILES,
        };
        let rights = match bind.attributes & attr::READ_ONLY {
            0 => u64::MAX,
            _ => access::EXECUTE | access::READ_FILE | access::READ_DIR,
        };
        ruleset.allow(&at, rights & kinds).map_err(failed(shown))?;
    }
    Ok(Some(ruleset))
}
