//! A connection on the control socket: the peer's user, and its requests, line by line.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::world::{Caller, Origin};

/// The longest request, in bytes: the operations of a large review, or the lines of a long file, escaped.
const MAX_REQUEST_BYTES: u64 = 128 << 20;

/// The user at the other end of a connection: only root and the user who mounted the store are let in.
pub(super) fn peer(connection: &UnixStream) -> Result<Caller> {
    let peer =
        rustix::net::sockopt::socket_peercred(connection).map_err(Error::os("getsockopt"))?;
    if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
        return Err(Error::refused(
            "only root and whoever mounted a store may ask its daemon",
            "",
        ));
    }
    Ok(Caller {
        pid: peer.pid.as_raw_nonzero().get().cast_unsigned(),
        uid: peer.uid.as_raw(),
        gid: peer.gid.as_raw(),
        origin: Origin::default(),
    })
}

/// Hands on what is said, line by line, until the other end goes away or nothing more is wanted. The first line must
/// come soon: somebody who connects and says nothing must not keep others waiting for ever.
pub(super) fn each_line(
    connection: &UnixStream,
    mut take: impl FnMut(&str) -> Result<bool>,
) -> Result<()> {
    let set = |error: std::io::Error| Error::io("setsockopt", &error);
    let limit = Some(Duration::from_secs(10));
    connection.set_read_timeout(limit).map_err(set)?;
    connection.set_write_timeout(limit).map_err(set)?;
    let mut reader = BufReader::new(connection);
    loop {
        let mut line = String::new();
        let mut limited = std::io::Read::take(&mut reader, MAX_REQUEST_BYTES);
        let read = limited.read_line(&mut line);
        if read.map_err(|error| Error::io("read", &error))? == 0 || !take(&line)? {
            return Ok(());
        }
        connection.set_read_timeout(None).map_err(set)?;
    }
}
