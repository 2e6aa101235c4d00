//! Absolute paths: which of them lead to something that exists for a shell.

/// The scratch directory of the session, where lines run programs: the programs have it there.
pub(super) const TMP: &[u8] = b"/tmp";

/// Returns the part of an absolute path below the root; `None` where it is outside.
pub(super) fn below<'t>(root: &[u8], typed: &'t [u8]) -> Option<&'t [u8]> {
    let mut rest = typed;
    for part in root.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
        let start = rest.iter().position(|b| *b != b'/')?;
        rest = rest.get(start..)?.strip_prefix(part)?;
        if !matches!(rest.first(), None | Some(b'/')) {
            return None;
        }
    }
    Some(rest)
}
