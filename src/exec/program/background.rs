//! The processes that a program leaves behind, in words: each has chosen its own.

use super::sandbox::{BackgroundProcesses, MAX_LINE_BYTES};
use crate::exec::quote::line;
use crate::name::escape;

/// Returns the lines of the processes, as a shell would read their words, and the number of the others. Words that were
/// cut end with `…`, which no quoted word has.
pub(super) fn in_words(processes: &BackgroundProcesses) -> Vec<String> {
    let lines = processes.lines.iter().map(|(bytes, count)| {
        let words: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        let mut text = escape(&line(&words));
        if bytes.len() >= MAX_LINE_BYTES {
            text.push('…');
        }
        if *count > 1 {
            text.push_str(&format!(" ({count} times)"));
        }
        text
    });
    let others = (processes.others > 0).then(|| format!("… and {} more", processes.others));
    lines.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_process_cannot_act() {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let cut = "x".repeat(MAX_LINE_BYTES);
        let processes = BackgroundProcesses {
            lines: vec![
                (bytes("node\x00server.js"), 1),
                (bytes("sleep\x001000"), 3),
                (bytes("a\nb\0\x1b[2Jc\x00"), 1),
                (bytes("evil (7 times)"), 1),
                (bytes(&cut), 1),
            ],
            others: 492,
        };
        let wanted = [
            "node server.js",
            "sleep 1000 (3 times)",
            "'a\\x0ab' '\\x1b[2Jc' ''",
            "'evil (7 times)'",
            &format!("{cut}…"),
            "… and 492 more",
        ];
        assert_eq!(in_words(&processes), wanted);
        assert!(in_words(&BackgroundProcesses::default()).is_empty());
    }
}
