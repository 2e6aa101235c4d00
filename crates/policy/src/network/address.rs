//! Public addresses: all but the special ones of the IANA registries (RFC 6890 and those after it).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IPv4 networks that are not public, with the length of their prefixes.
const NOT_PUBLIC: [([u8; 4], u32); 16] = [
    // "This" network, and what means this host.
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    // Shared by carriers (RFC 6598).
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    // Link-local, and with it the metadata services of clouds.
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    // Relays of 6to4.
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    // Benchmarks; here the addresses that names get in a sandbox.
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    // Multicast.
    ([224, 0, 0, 0], 4),
    // Reserved, and the broadcast address.
    ([240, 0, 0, 0], 4),
    // Azure's metadata service, which answers at a public address.
    ([168, 63, 129, 16], 32),
];

/// Returns whether an address belongs to the public internet, as far as the address says.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !NOT_PUBLIC.iter().any(|(network, len)| {
        let mask = u32::MAX << (32 - len);
        address.to_bits() & mask == u32::from_be_bytes(*network)
    })
}

/// Only 2000::/3 is given out. So loopback, mapped and translated IPv4 (::ffff:0:0/96, 64:ff9b::/96), local and link-local
/// addresses and multicast are not public without being listed.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_global = first & 0xe000 == 0x2000;
    // 2001::/23: Teredo, benchmarks, ORCHID. 2001:db8::/32 and 3fff::/20: documentation. 2002::/16: 6to4.
    let is_special = (first == 0x2001 && (second < 0x200 || second == 0xdb8))
        || (first == 0x3fff && second < 0x1000)
        || first == 0x2002;
    is_global && !is_special
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_public_and_what_is_not() {
        let public = "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 \
            128.0.0.0 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 \
            198.17.255.255 198.20.0.0 223.255.255.255 2606:2800:220:1::1 2a00:1450::1 2001:4860:4860::8888 2001:200::1 \
            2003::1 3ffe::1";
        for address in public.split_whitespace() {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        let not = "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.254 \
            169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 \
            198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 168.63.129.16 \
            :: ::1 ::127.0.0.1 ::ffff:93.184.216.34 ::ffff:127.0.0.1 64:ff9b::5db8:d822 64:ff9b:1::1 100::1 2001::1 \
            2001:10::1 2001:20::1 2001:1ff::1 2001:db8::1 2002:7f00:1::1 2002:5db8:d822::1 3fff::1 3fff:fff::1 5f00::1 \
            4000::1 fc00::1 fd12::1 fe80::1 fec0::1 ff02::1";
        for address in not.split_whitespace() {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }
}
