//! The names of directories of what can be made again: a guess, for hints to an operator and nothing else.

use crate::name::WorldPath;

/// The names of directories in which what is built, installed or cached lies, and which their makers can make again.
const MADE_AGAIN: [&str; 18] = [
    "target",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    ".cache",
    "build",
    "dist",
    "coverage",
    ".next",
    ".nuxt",
    ".turbo",
    ".gradle",
    ".tox",
    ".nox",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
];

/// Returns the first name in a path that directories of what can be made again have.
pub(super) fn made_again(path: &WorldPath) -> Option<&'static str> {
    path.components().find_map(|name| {
        let known = MADE_AGAIN.iter();
        known
            .copied()
            .find(|known| known.as_bytes() == name.bytes())
    })
}
