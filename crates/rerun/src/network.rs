//! `--network feed|live`: the peers of a program whose calls on sockets are made on real ones.

mod connection;
mod sockets;

use std::collections::HashMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

pub(crate) use connection::{Connection, Owed};
pub(crate) use sockets::{awaits, has_come, inode_of, is_queue, loopback_of, reach, set_port};

/// How long a connection on the loopback may take.
const CONNECTED_WITHIN: Duration = Duration::from_secs(10);

/// The recorded client, which runs again.
pub trait Client {
    /// The program is ready for it.
    fn start(&mut self) -> Result<(), String>;

    /// Whether it has ended.
    fn has_ended(&mut self) -> bool;
}

/// What becomes of calls on sockets of TCP.
#[derive(Default)]
pub enum Network {
    /// They are answered.
    #[default]
    Answer,
    /// They are made, with peers that send what was recorded.
    Feed,
    /// They are made, and who connects to the program is a real client.
    Live(Box<dyn Client + Send>),
}

/// A real socket of the program.
pub(crate) enum Socket {
    /// It is not connected.
    Single,
    /// It is.
    Connected(Connection),
}

/// All real sockets, and their peers.
pub(crate) struct Player {
    client: Option<Box<dyn Client + Send>>,
    is_started: bool,
    /// By the inode number, which is theirs in all processes.
    sockets: HashMap<u64, Socket>,
}

impl Player {
    /// `None` if calls are answered.
    pub fn new(network: Network) -> Option<Player> {
        let client = match network {
            Network::Answer => return None,
            Network::Feed => None,
            Network::Live(client) => Some(client),
        };
        Some(Player { client, is_started: false, sockets: HashMap::new() })
    }

    /// Whether clients are real.
    pub fn is_live(&self) -> bool {
        self.client.is_some()
    }

    /// Notes a socket.
    pub fn add(&mut self, inode: u64, socket: Socket) {
        self.sockets.insert(inode, socket);
    }

    /// Finds a socket.
    pub fn socket(&mut self, inode: u64) -> Option<&mut Socket> {
        self.sockets.get_mut(&inode)
    }

    /// Finds a connection.
    pub fn connection(&mut self, inode: u64) -> Option<&mut Connection> {
        match self.sockets.get_mut(&inode) {
            Some(Socket::Connected(connection)) => Some(connection),
            _ => None,
        }
    }

    /// Takes what the program has sent to a peer that is played.
    pub fn drain(&mut self, inode: u64) -> Result<(), String> {
        self.connection(inode).map_or(Ok(()), Connection::drain)
    }

    /// Has a peer connect to a listening socket. Returns it, or `None` if the client does so itself.
    pub fn call_at(&mut self, listening: &OwnedFd) -> Result<Option<TcpStream>, String> {
        self.forget()?;
        if let Some(client) = &mut self.client {
            if !self.is_started {
                client.start()?;
                self.is_started = true;
            }
            return Ok(None);
        }
        let address = reach(listening)?;
        let failed = |error| format!("a peer cannot connect to {address}: {error}");
        TcpStream::connect_timeout(&address, CONNECTED_WITHIN).map(Some).map_err(failed)
    }

    /// Whether the client has ended.
    pub fn is_alone(&mut self) -> bool {
        self.client.as_mut().is_some_and(|client| self.is_started && client.has_ended())
    }

    /// The peer that the program connects to.
    pub fn take_call(listener: &TcpListener) -> Result<TcpStream, String> {
        if !awaits(listener, CONNECTED_WITHIN) {
            return Err("the program has not reached a peer".into());
        }
        listener.accept().map(|(peer, _)| peer).map_err(|error| error.to_string())
    }

    /// Forgets connections that both sides have closed.
    fn forget(&mut self) -> Result<(), String> {
        let mut wrong = Ok(());
        self.sockets.retain(|_, socket| match socket {
            Socket::Connected(connection) if connection.is_closed => match connection.is_over() {
                Ok(is_over) => !is_over,
                Err(text) => {
                    wrong = Err(text);
                    true
                }
            },
            _ => true,
        });
        wrong
    }

    /// The program has ended: all that it sent must have come.
    pub fn finish(&mut self) -> Result<(), String> {
        self.sockets.values_mut().try_for_each(|socket| match socket {
            Socket::Connected(connection) => connection.finish(),
            Socket::Single => Ok(()),
        })
    }
}
