//! Permission bits in the syntax of chmod(1): octal (`755`) or symbolic (`u=rwx,g-w,+X`).

/// All permission bits.
const ALL: u32 = 0o7777;
/// Set-user-id and set-group-id.
const SET_IDS: u32 = 0o6000;

/// A change of permission bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModeChange(Vec<ModeClause>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ModeClause {
    op: u8,
    /// The bits of the classes named; 0 without a class.
    classes: u32,
    new_bits: ModeBits,
    /// The bits mentioned in the text, so that a directory's set-id bits change only if the text names them.
    mentioned: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ModeBits {
    Bits(u32),
    /// The given bits and `X`: executable if it is a directory or anyone may execute it.
    BitsAndX(u32),
    /// The bits that the owner, the group or others have.
    Of(u32),
}

impl ModeChange {
    /// Parses a change; `None` where it is malformed.
    pub(super) fn parse(text: &[u8]) -> Option<ModeChange> {
        if text.first()?.is_ascii_digit() {
            let bits = parse_octal(text)?;
            // With fewer than five digits, a directory's set-id bits are kept unless they are set explicitly.
            let mentioned = if text.len() < 5 {
                bits & SET_IDS | ALL & !SET_IDS
            } else {
                ALL
            };
            return Some(ModeChange(vec![ModeClause {
                op: b'=',
                classes: ALL,
                new_bits: ModeBits::Bits(bits),
                mentioned,
            }]));
        }
        let mut steps = Vec::new();
        for clause in text.split(|b| *b == b',') {
            let start = clause.iter().position(|b| b"+-=".contains(b))?;
            let (classes, mut rest) = clause.split_at(start);
            let classes = classes
                .iter()
                .try_fold(0, |classes, letter| Some(classes | class_bits(*letter)?))?;
            while let [op, after @ ..] = rest {
                let end = after.iter().position(|b| b"+-=".contains(b));
                let (value, next) = after.split_at(end.unwrap_or(after.len()));
                steps.push(parse_step(*op, classes, value)?);
                // Octal digits end a clause.
                if !next.is_empty() && value.first().is_some_and(u8::is_ascii_digit) {
                    return None;
                }
                rest = next;
            }
        }
        Some(ModeChange(steps))
    }

    /// Applies the change to the `mode` of a new directory. Returns the result, and the bits that the change
    /// determines.
    pub(super) fn for_directory(&self, mode: u32, umask: u32) -> (u32, u32) {
        let (mut mode, mut determined) = (mode & ALL, 0);
        for step in &self.0 {
            let kept = SET_IDS & !step.mentioned;
            let value = match step.new_bits {
                ModeBits::Bits(bits) => bits,
                ModeBits::BitsAndX(bits) => bits | 0o111,
                ModeBits::Of(class) => everyone(mode & class),
            };
            let value = value
                & !kept
                & if step.classes == 0 {
                    !umask
                } else {
                    step.classes
                };
            match step.op {
                b'+' => {
                    determined |= value;
                    mode |= value;
                }
                b'-' => {
                    determined |= value;
                    mode &= !value;
                }
                _ => {
                    let kept = kept | if step.classes == 0 { 0 } else { !step.classes };
                    determined |= ALL & !kept;
                    mode = mode & kept | value;
                }
            }
        }
        (mode, determined)
    }
}

fn parse_step(op: u8, classes: u32, value: &[u8]) -> Option<ModeClause> {
    let step = |classes, new_bits, mentioned| ModeClause {
        op,
        classes,
        new_bits,
        mentioned,
    };
    if value.first().is_some_and(u8::is_ascii_digit) {
        let bits = parse_octal(value)?;
        return (classes == 0).then(|| step(ALL, ModeBits::Bits(bits), ALL));
    }
    if let [class @ (b'u' | b'g' | b'o')] = value {
        return Some(step(classes, ModeBits::Of(triple(*class)), 0));
    }
    let (mut bits, mut any_x) = (0, false);
    for letter in value {
        match letter {
            b'r' => bits |= 0o444,
            b'w' => bits |= 0o222,
            b'x' => bits |= 0o111,
            b's' => bits |= SET_IDS,
            b't' => bits |= 0o1000,
            b'X' => any_x = true,
            _ => return None,
        }
    }
    let new_bits = if any_x {
        ModeBits::BitsAndX(bits)
    } else {
        ModeBits::Bits(bits)
    };
    let mentioned = if classes == 0 { bits } else { classes & bits };
    Some(step(classes, new_bits, mentioned))
}

fn parse_octal(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |mode: u32, digit| {
        let digit = char::from(*digit).to_digit(8)?;
        Some(mode * 8 + digit).filter(|mode| *mode <= ALL)
    })
}

fn class_bits(letter: u8) -> Option<u32> {
    Some(match letter {
        b'u' => 0o4700,
        b'g' => 0o2070,
        b'o' => 0o1007,
        b'a' => ALL,
        _ => return None,
    })
}

fn triple(class: u8) -> u32 {
    match class {
        b'u' => 0o700,
        b'g' => 0o070,
        _ => 0o007,
    }
}

/// Copies the bits of one class to all three.
fn everyone(bits: u32) -> u32 {
    [0o444, 0o222, 0o111]
        .into_iter()
        .filter(|right| bits & right != 0)
        .sum()
}

/// Returns the process's umask. umask(2) can only read it by setting it, which all threads would see.
pub(super) fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
        .unwrap_or(0o022)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn modes_parse_as_in_chmod() {
        for (text, mode) in [
            ("755", 0o755),
            ("7777", 0o7777),
            ("0", 0),
            ("u=rwx,go=", 0o700),
            ("a-w,+t", 0o1555),
            ("-w", 0o577),
            ("+w", 0o777),
            ("=", 0),
            ("o=u-w", 0o775),
            ("u=g", 0o777),
            ("=755", 0o755),
            ("+111", 0o777),
            ("go-rwx,g+X", 0o710),
            ("g=r,o=g", 0o744),
            ("g+s", 0o2777),
            ("ug-x+t", 0o667),
        ] {
            let change = ModeChange::parse(text.as_bytes()).unwrap();
            let (got, _) = change.for_directory(0o777, 0o022);
            assert_eq!(got, mode, "{text}: {got:o}");
        }
        for text in [
            "", "xyz", "888", "99999", "u", "u=rq", "u=7", ",", "u=r,", "+7+7", "a",
        ] {
            assert_eq!(ModeChange::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn short_octal_modes_keep_set_group_id() {
        let determined = |text: &str| {
            ModeChange::parse(text.as_bytes())
                .unwrap()
                .for_directory(0o777, 0)
                .1
        };
        assert_eq!(determined("755") & SET_IDS, 0);
        assert_eq!(determined("00755") & SET_IDS, SET_IDS);
        assert_eq!(determined("g-s") & SET_IDS, 0o2000);
    }
}
