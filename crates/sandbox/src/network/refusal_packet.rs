//! Connections that the kernel has refused because nobody listens at the port: what a packet of such a refusal says.

use std::net::{Ipv4Addr, SocketAddrV4};

/// Returns where somebody wanted to connect to, of the head of an IPv4 packet with TCP's refusal. Nothing where it is
/// none; the first process's filter lets no other through.
pub(super) fn refused_address(packet: &[u8]) -> Option<SocketAddrV4> {
    let (source, _) = packet.get(12..)?.split_first_chunk::<4>()?;
    let len = usize::from(packet.first()? & 0xf) * 4;
    let (port, _) = packet.get(len..)?.split_first_chunk::<2>()?;
    let is_tcp = packet.get(9) == Some(&6);
    is_tcp.then(|| SocketAddrV4::new(Ipv4Addr::from(*source), u16::from_be_bytes(*port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_a_refusal_is_what_was_wanted() {
        // 93.184.216.34:8080, with a head of 20 bytes and with one of 24.
        let head = |first: u8, options: &[u8]| {
            let mut packet = vec![first, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
            packet.extend([93, 184, 216, 34, 93, 184, 216, 34]);
            packet.extend(options);
            packet.extend([0x1f, 0x90, 0x88, 0xaa]);
            packet
        };
        let meant = "93.184.216.34:8080".parse().ok();
        for packet in [head(0x45, &[]), head(0x46, &[0; 4])] {
            assert_eq!(refused_address(&packet), meant);
            for len in 0..packet.len() - 2 {
                assert_eq!(
                    refused_address(packet.get(..len).unwrap_or_default()),
                    None,
                    "{len}"
                );
            }
        }
        assert_eq!(refused_address(&[0; 64]), None);
    }
}
