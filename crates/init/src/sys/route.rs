//! The route that makes every IPv4 address one of the host's own (rtnetlink(7)).

use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// The index of `lo`: the first interface of each network namespace.
const LO: u32 = 1;

/// Leads all IPv4 addresses to the network namespace of the calling process, as `ip route add local default dev lo`.
/// The source of a connection to an address is then that address, and so is the source of what answers it.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN over the namespace; `ENETDOWN` while `lo` is not up.
pub fn every_address_is_local() -> Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE is number 0.
        None,
    )?;
    rustix::net::send(&socket, &request(), SendFlags::empty())?;
    let mut answer = [0; 256];
    let (len, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
    // A struct nlmsghdr of type NLMSG_ERROR, and a negative errno, or 0 as the acknowledgement.
    let kind = answer.get(4..6).filter(|_| len >= 20);
    let number = answer.get(16..20).and_then(|bytes| bytes.try_into().ok());
    match (kind, number.map(i32::from_ne_bytes)) {
        (Some([2, 0] | [0, 2]), Some(0)) => Ok(()),
        (Some([2, 0] | [0, 2]), Some(number)) if number < 0 => {
            Err(Errno::from_raw_os_error(-number))
        }
        _ => Err(Errno::PROTO),
    }
}

/// Returns an RTM_NEWROUTE with its struct nlmsghdr, struct rtmsg and one attribute.
fn request() -> Vec<u8> {
    const RTM_NEWROUTE: u16 = 24;
    const REQUEST_ACK_EXCL_CREATE: u16 = 0x1 | 0x4 | 0x200 | 0x400;
    const RTA_OIF: u16 = 4;
    const LEN: u32 = 16 + 12 + 8;
    let mut out = Vec::with_capacity(LEN as usize);
    out.extend(LEN.to_ne_bytes());
    out.extend(RTM_NEWROUTE.to_ne_bytes());
    out.extend(REQUEST_ACK_EXCL_CREATE.to_ne_bytes());
    // Sequence number, and the sender, which the kernel fills in.
    out.extend([0; 8]);
    // AF_INET; lengths of destination and source (0: all), TOS; RT_TABLE_LOCAL, RTPROT_BOOT, RT_SCOPE_HOST, RTN_LOCAL.
    out.extend([2, 0, 0, 0, 255, 3, 254, 2]);
    out.extend([0; 4]);
    out.extend(8u16.to_ne_bytes());
    out.extend(RTA_OIF.to_ne_bytes());
    out.extend(LO.to_ne_bytes());
    out
}
