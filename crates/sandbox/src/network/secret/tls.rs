//! TLS to the host of a secret: the only room that sees its crate. Certificates are checked against those that this
//! machine trusts (`SSL_CERT_FILE`, `SSL_CERT_DIR` or its usual ones).

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::PollFlags;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::super::relay::nonblocking;
use super::super::stop_signal::{StopSignal, WaitOutcome};
use trumanfs_policy::network::Host;

/// The most bytes that wait to be sent.
const MAX_WAITING_BYTES: usize = 128 << 10;

/// The trust of this machine, read once for all connections of a program.
#[derive(Debug, Clone)]
pub(crate) struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// Reads the certificates that this machine trusts.
    ///
    /// # Errors
    /// There are none.
    pub(crate) fn new() -> Result<TlsClient, String> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let why = found.errors.first().map(|error| format!(" ({error})"));
            return Err(format!(
                "this machine trusts no certificate{}, so no server can be verified; install ca-certificates, or set SSL_CERT_FILE",
                why.unwrap_or_default()
            ));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsClient(Arc::new(config)))
    }

    /// Begins TLS with a host and waits until it is verified. The socket does not block from then on.
    ///
    /// # Errors
    /// The reason why there is no TLS.
    pub(super) fn connect(
        &self,
        host: &Host,
        socket: TcpStream,
        stop: &StopSignal,
        until: Instant,
    ) -> Result<TlsConnection, String> {
        let name = match host {
            Host::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|error| error.to_string())?
            }
            Host::Address(address) => ServerName::from(*address),
        };
        let mut tls =
            ClientConnection::new(self.0.clone(), name).map_err(|error| error.to_string())?;
        tls.set_buffer_limit(Some(MAX_WAITING_BYTES));
        socket
            .set_nonblocking(true)
            .map_err(|error| error.to_string())?;
        let mut connection = TlsConnection { socket, tls };
        while connection.tls.is_handshaking() {
            let flags = connection.flags(true);
            let fds: [(&dyn AsFd, PollFlags); 1] = [(&connection.socket, flags)];
            match stop.wait(&fds, Some(until)) {
                WaitOutcome::Ready(_) => {}
                WaitOutcome::Late => return Err("TLS took too long".to_owned()),
                WaitOutcome::Stopped => return Err("the program has ended".to_owned()),
            }
            connection.flush().map_err(|error| error.to_string())?;
            if connection.fill().map_err(|error| error.to_string())? == Some(0) {
                return Err("the server ended the connection before TLS began".to_owned());
            }
        }
        Ok(connection)
    }
}

/// A verified connection.
pub(super) struct TlsConnection {
    pub(super) socket: TcpStream,
    tls: ClientConnection,
}

/// Bytes that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TlsRead {
    Bytes(usize),
    /// Nothing came yet.
    Nothing,
    /// The server has said that it ends.
    End,
    /// The connection was cut.
    Cut,
}

impl TlsConnection {
    /// Returns what has to be waited for.
    pub(super) fn flags(&self, reads: bool) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, reads && self.tls.wants_read());
        flags.set(PollFlags::OUT, self.tls.wants_write());
        flags
    }

    /// Takes bytes to be sent, as many as there is room for.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tls.writer().write(bytes)
    }

    /// Sends what waits, as far as the kernel takes it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            if nonblocking(self.tls.write_tls(&mut self.socket))?.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes what the kernel has. `None`: nothing, or there is no room.
    fn fill(&mut self) -> io::Result<Option<usize>> {
        if !self.tls.wants_read() {
            return Ok(None);
        }
        let read = nonblocking(self.tls.read_tls(&mut self.socket))?;
        if let Err(error) = self.tls.process_new_packets() {
            // The server learns why.
            let _ = self.flush();
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(read)
    }

    /// Reads what came.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<TlsRead> {
        loop {
            match self.tls.reader().read(bytes) {
                Ok(0) => return Ok(TlsRead::End),
                Ok(len) => return Ok(TlsRead::Bytes(len)),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Ok(TlsRead::Cut);
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => {}
            }
            if self.fill()?.is_none() {
                return Ok(TlsRead::Nothing);
            }
        }
    }

    /// Ends the connection.
    pub(super) fn close(mut self) {
        self.tls.send_close_notify();
        let _ = self.flush();
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}
