//! The reply that an SSH client gets instead of a server (RFC 4253): an identification, and a message that says why.

/// Returns what ends a connection with this text.
pub(super) fn disconnect(text: &str) -> Vec<u8> {
    const SSH_MSG_DISCONNECT: u8 = 1;
    const SSH_DISCONNECT_BY_APPLICATION: u32 = 11;
    let count = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut payload = vec![SSH_MSG_DISCONNECT];
    payload.extend(SSH_DISCONNECT_BY_APPLICATION.to_be_bytes());
    payload.extend(count(text.as_bytes()));
    payload.extend(text.as_bytes());
    // No language.
    payload.extend([0; 4]);
    // Length, padding and payload are a multiple of eight together, with four bytes of padding at least.
    let mut padding = 8 - (5 + payload.len()) % 8;
    if padding < 4 {
        padding += 8;
    }
    let mut out = b"SSH-2.0-trumanfs\r\n".to_vec();
    let len = u32::try_from(1 + payload.len() + padding).unwrap_or(u32::MAX);
    out.extend(len.to_be_bytes());
    out.push(u8::try_from(padding).unwrap_or(u8::MAX));
    out.extend(payload);
    out.resize(out.len() + padding, 0);
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_as_long_as_it_says() {
        for len in 0..40 {
            let text = "x".repeat(len);
            let sent = disconnect(&text);
            let packet = &sent[18..];
            let length = u32::from_be_bytes(packet[..4].try_into().unwrap()) as usize;
            assert_eq!((length + 4, packet.len() % 8), (packet.len(), 0));
            let padding = usize::from(packet[4]);
            assert!(padding >= 4 && packet.len() == 4 + 1 + (1 + 4 + 4 + len + 4) + padding);
        }
    }
}
