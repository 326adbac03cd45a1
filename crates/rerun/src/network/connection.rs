//! A connection of the program, and the peer that is played for it.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Size of a piece that is taken at a time.
const PIECE: usize = 1 << 16;
/// How long what was sent may take to come, once the program has ended.
const COMES_WITHIN: Duration = Duration::from_secs(10);

/// What the program has sent, and the peer has not yet got.
pub(crate) enum Owed {
    /// These bytes.
    Bytes(Vec<u8>),
    /// That many, which no call carries.
    Unknown(u64),
}

/// A connection.
pub(crate) struct Connection {
    /// `None`: a real client has it.
    peer: Option<TcpStream>,
    owed: VecDeque<Owed>,
    /// Bytes that the peer has sent, and the program has looked at, but not taken.
    pub ahead: usize,
    /// The program has closed it, in one process.
    pub is_closed: bool,
    /// The program sends no more.
    has_ended: bool,
    /// It was reset: what was on the way is lost.
    was_reset: bool,
}

impl Connection {
    /// With a peer, or a real client.
    pub fn new(peer: Option<TcpStream>) -> Result<Connection, String> {
        if let Some(peer) = &peer {
            let set = peer.set_nonblocking(true).and_then(|()| peer.set_nodelay(true));
            set.map_err(|error| error.to_string())?;
        }
        let owed = VecDeque::new();
        let (ahead, is_closed, has_ended, was_reset) = (0, false, false, false);
        Ok(Connection { peer, owed, ahead, is_closed, has_ended, was_reset })
    }

    /// The peer sends these bytes. Returns how many went out.
    pub fn send(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let Some(peer) = &mut self.peer else { return Ok(0) };
        let mut sent = 0;
        while sent < bytes.len() {
            match peer.write(&bytes[sent..]) {
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("a peer cannot send: {error}")),
            }
        }
        Ok(sent)
    }

    /// The peer sends no more.
    pub fn end(&mut self) {
        if let Some(peer) = &self.peer {
            // It may have done so before.
            let _ = peer.shutdown(Shutdown::Write);
        }
    }

    /// The program is about to send this.
    pub fn owe(&mut self, owed: Owed) {
        if self.peer.is_some() {
            self.owed.push_back(owed);
        }
    }

    /// Takes what has come.
    pub fn drain(&mut self) -> Result<(), String> {
        let mut piece = vec![0; PIECE];
        while let Some(peer) = self.peer.as_mut().filter(|_| !self.has_ended) {
            match peer.read(&mut piece) {
                Ok(0) => self.has_ended = true,
                Ok(n) => self.take(&piece[..n])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => (self.has_ended, self.was_reset) = (true, true),
            }
        }
        Ok(())
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let n = match self.owed.front_mut() {
                None => {
                    return Err(format!("{} bytes more than recorded come to a peer", bytes.len()));
                }
                Some(Owed::Unknown(left)) => {
                    let n = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= n as u64;
                    if *left == 0 {
                        self.owed.pop_front();
                    }
                    n
                }
                Some(Owed::Bytes(owed)) => {
                    let n = owed.len().min(bytes.len());
                    if owed[..n] != bytes[..n] {
                        return Err("what comes to a peer is not what was recorded".into());
                    }
                    owed.drain(..n);
                    if owed.is_empty() {
                        self.owed.pop_front();
                    }
                    n
                }
            };
            bytes = &bytes[n..];
        }
        Ok(())
    }

    /// Whether nothing more comes of it.
    pub fn is_over(&mut self) -> Result<bool, String> {
        self.drain()?;
        if self.has_ended && !self.was_reset && !self.owed.is_empty() {
            return Err("less than what was recorded comes to a peer".into());
        }
        Ok(self.has_ended)
    }

    /// The program has ended: takes what is on the way.
    pub fn finish(&mut self) -> Result<(), String> {
        if let Some(peer) = &self.peer {
            let set = peer.set_nonblocking(false);
            set.and_then(|()| peer.set_read_timeout(Some(COMES_WITHIN)))
                .map_err(|error| error.to_string())?;
            if !self.is_over()? {
                return Err("a connection is open after the program's end".into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn pair() -> (TcpStream, Connection) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let program = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (program, Connection::new(Some(listener.accept().unwrap().0)).unwrap())
    }

    #[test]
    fn what_comes_is_compared_however_it_is_cut() {
        let (mut program, mut connection) = pair();
        connection.owe(Owed::Bytes(b"first ".to_vec()));
        connection.owe(Owed::Unknown(4));
        connection.owe(Owed::Bytes(b"last".to_vec()));
        for piece in ["fi", "rst ????l", "ast"] {
            program.write_all(piece.as_bytes()).unwrap();
            connection.drain().unwrap();
        }
        assert!(!connection.is_over().unwrap());
        drop(program);
        connection.finish().unwrap();
    }

    #[test]
    fn other_bytes_more_and_fewer_are_found() {
        for (sent, said) in
            [("firsx", "is not what"), ("first!", "more than"), ("fir", "less than")]
        {
            let (mut program, mut connection) = pair();
            connection.owe(Owed::Bytes(b"first".to_vec()));
            program.write_all(sent.as_bytes()).unwrap();
            drop(program);
            let found = connection.finish().unwrap_err();
            assert!(found.contains(said), "{sent}: {found}");
        }
    }
}
