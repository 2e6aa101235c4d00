//! [`EchoScanner`]: keeps a secret that its server sends back from the program.

use super::SecretValue;

/// Passes bytes on until the secret is among them. Holds back what may be its beginning.
pub(super) struct EchoScanner<'s> {
    value: &'s SecretValue,
    held: Vec<u8>,
}

/// The secret is among the bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SecretEchoed;

impl<'s> EchoScanner<'s> {
    pub(super) fn new(value: &'s SecretValue) -> EchoScanner<'s> {
        let held = Vec::new();
        EchoScanner { value, held }
    }

    /// Passes on what cannot be part of the secret.
    ///
    /// # Errors
    /// The secret came; nothing of it was passed on.
    pub(super) fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), SecretEchoed> {
        self.held.extend_from_slice(bytes);
        if self.value.is_in(&self.held) {
            return Err(SecretEchoed);
        }
        let (len, value) = (self.held.len(), &self.value.0[..]);
        let is_begun = |kept: &usize| {
            let end = self.held.get(len - kept..).unwrap_or_default();
            value.starts_with(end)
        };
        let kept = (1..value.len().min(len + 1)).rev().find(is_begun);
        out.extend(self.held.drain(..len - kept.unwrap_or(0)));
        Ok(())
    }

    /// Passes on what was held back: no more comes.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use zeroize::Zeroizing;

    #[test]
    fn secret_is_found_however_it_is_cut_and_all_else_passes_at_once() {
        let value = SecretValue::new(Zeroizing::new(b"ababac-secret".to_vec())).unwrap();
        let text = b"x ababababac-secret y";
        for size in 1..text.len() {
            let (mut scanner, mut out) = (EchoScanner::new(&value), Vec::new());
            let mut pieces = text.chunks(size);
            assert!(
                pieces.any(|piece| scanner.pass(piece, &mut out).is_err()),
                "by {size}"
            );
            assert!(b"x abab".starts_with(&out[..]), "by {size}: {out:?}");
        }
        let (mut scanner, mut out) = (EchoScanner::new(&value), Vec::new());
        scanner.pass(b"data: ababa\n\n", &mut out).unwrap();
        assert_eq!(out, b"data: ababa\n\n");
        scanner.pass(b"ends aba", &mut out).unwrap();
        assert_eq!(out, b"data: ababa\n\nends ");
        scanner.finish(&mut out);
        assert_eq!(out, b"data: ababa\n\nends aba");
    }
}
