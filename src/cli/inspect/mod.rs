//! The reading verbs: what is mounted, what happened, what differs, what was there before. One file for each; none of
//! them changes anything.

mod diff;
mod folds;
mod log;
mod metrics;
pub(super) mod patch;
mod session;
mod show;
mod status;
mod usage;
mod versions;
mod words;

pub(super) use diff::{DiffArgs, diff, letter, path_of, print_summary, range_value};
pub(super) use log::{LogArgs, log};
pub(super) use session::{SessionCommand, session};
pub(super) use show::{ShowArgs, show};
pub(super) use status::{StatusArgs, status};
pub(super) use usage::{StoreUsageArgs, usage};
pub(super) use versions::{CatArgs, VersionsArgs, cat, versions};
pub(super) use words::{author_words, process_words};
