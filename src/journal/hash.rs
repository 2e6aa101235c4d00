//! How lines write a hash and a time.

/// The `prev` of the first record.
pub(super) const START: [u8; 64] = [b'0'; 64];

/// Returns the current time in the format of records.
pub(super) fn now() -> String {
    chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

/// Returns the hexadecimal digits of a hash.
pub(super) fn hex(digest: &[u8]) -> [u8; 64] {
    // Without a table, so that the compiler can vectorize it.
    let digit = |d: u8| d + if d < 10 { b'0' } else { b'a' - 10 };
    let mut text = START;
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
        pair.copy_from_slice(&[digit(byte >> 4), digit(*byte & 15)]);
    }
    text
}
