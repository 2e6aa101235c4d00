//! What scripts rely on: the exit code of each failure behind every verb, and the objects of `--json`. Both are read from
//! `docs/JSON.md` and held against what the binary does.

mod failures;
mod objects;
pub(super) mod page;
