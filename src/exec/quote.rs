//! Words as a line of a shell: how a command is written down.

/// Writes words as a line that a POSIX shell reads as these words.
pub fn line(words: &[Vec<u8>]) -> Vec<u8> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(byte);
    let quoted: Vec<Vec<u8>> = words
        .iter()
        .map(|word| match word.as_slice() {
            [] => b"''".to_vec(),
            word if word.iter().all(is_plain) => word.to_vec(),
            word => {
                let inner: Vec<Vec<u8>> = word
                    .split(|byte| *byte == b'\'')
                    .map(<[u8]>::to_vec)
                    .collect();
                [&b"'"[..], &inner.join(&b"'\\''"[..]), b"'"].concat()
            }
        })
        .collect();
    quoted.join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_its_words() {
        for (words, said) in [
            (&["git", "status", "-sb"][..], "git status -sb"),
            (&["echo", "a b", "", "it's"], "echo 'a b' '' 'it'\\''s'"),
            (&["x;y", "$(z)"], "'x;y' '$(z)'"),
        ] {
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
            assert_eq!(String::from_utf8_lossy(&line(&words)), said);
        }
    }
}
