//! A cap on what a model has to read: head and tail of the output, and how much is left out.
//!
//! A token is counted as four bytes, which is what English text and source code come to.

/// The number of lines of standard output that are kept at first, from its start and its end.
const MAX_LINES: (usize, usize) = (200, 50);
/// The least number of lines of standard output that are kept, if any are, from its start and its end.
const MIN_LINES: (usize, usize) = (20, 10);
/// The number of lines of standard error that are kept, from its start and its end.
const STDERR_LINES: (usize, usize) = (40, 10);
/// Bytes of a token.
const TOKEN_BYTES: u64 = 4;

/// Both streams, within the cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CappedOutput {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Shortens output to about so many tokens. It stays as it is where it fits; else of standard error 40 and 10 lines
/// are kept, and of standard output 200 and 50, halved until both fit, but not below 20 and 10. Where that does not fit,
/// nothing is kept but a line that says so.
pub fn cap(stdout: &[u8], stderr: &[u8], tokens: u64) -> CappedOutput {
    let fits = |capped: &CappedOutput| count(&capped.stdout) + count(&capped.stderr) <= tokens;
    let whole = CappedOutput {
        stdout: stdout.to_vec(),
        stderr: stderr.to_vec(),
    };
    if fits(&whole) {
        return whole;
    }
    let (mut head, mut tail) = MAX_LINES;
    loop {
        let capped = CappedOutput {
            stdout: ends(stdout, (head, tail)),
            stderr: ends(stderr, STDERR_LINES),
        };
        if fits(&capped) {
            return capped;
        }
        if (head, tail) == MIN_LINES {
            break;
        }
        (head, tail) = ((head / 2).max(MIN_LINES.0), (tail / 2).max(MIN_LINES.1));
    }
    CappedOutput {
        stdout: left_out(stdout),
        stderr: left_out(stderr),
    }
}

fn count(bytes: &[u8]) -> u64 {
    (bytes.len() as u64).div_ceil(TOKEN_BYTES)
}

/// Keeps so many lines of the start and of the end.
fn ends(text: &[u8], (head, tail): (usize, usize)) -> Vec<u8> {
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let middle = lines.len().saturating_sub(head + tail);
    if middle == 0 {
        return text.to_vec();
    }
    let start = lines.get(..head).unwrap_or_default().concat();
    let end = lines.get(head + middle..).unwrap_or_default().concat();
    let note = format!("[{middle} lines left out]\n");
    [start, note.into_bytes(), end].concat()
}

fn left_out(text: &[u8]) -> Vec<u8> {
    match text.len() {
        0 => Vec::new(),
        bytes => format!("[{bytes} bytes left out]\n").into_bytes(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<u8> {
        (1..=count)
            .flat_map(|n| format!("line {n:06}\n").into_bytes())
            .collect()
    }

    #[test]
    fn head_and_tail_stay_and_what_goes_is_counted() {
        let all = lines(1000); // 12 bytes each: 3 tokens.
        assert_eq!(cap(&all, b"", 3000).stdout, all);
        let kept = String::from_utf8(cap(&all, b"", 2999).stdout).unwrap();
        assert!(kept.starts_with("line 000001\n") && kept.ends_with("line 001000\n"));
        assert_eq!(kept.lines().count(), 251);
        assert!(
            kept.contains("line 000200\n[750 lines left out]\nline 000951\n"),
            "{kept}"
        );
        let kept = cap(&all, b"", 500).stdout;
        assert_eq!(kept.split(|b| *b == b'\n').count() - 1, 100 + 25 + 1);
        let kept = cap(&all, b"", 100).stdout;
        assert_eq!(kept.split(|b| *b == b'\n').count() - 1, 31);
        assert_eq!(cap(&all, &all, 90).stdout, b"[12000 bytes left out]\n");
        assert_eq!(cap(&all, b"", 10).stderr, b"");
    }

    #[test]
    fn standard_error_keeps_fifty_lines() {
        let capped = cap(&lines(10), &lines(100), 200);
        assert_eq!(capped.stdout, lines(10));
        let said = String::from_utf8(capped.stderr).unwrap();
        assert!(
            said.contains("line 000040\n[50 lines left out]\nline 000091\n"),
            "{said}"
        );
    }
}
