//! Leads threads through their calls on real sockets, before they get their recorded results.

use std::mem::offset_of;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Instant;

use libc::c_long;
use model::{Contents, Moment};
use ring::{Reply, answer};
use syscalls::abi::errno::is_error;
use syscalls::abi::files::{AF_INET, AF_INET6, O_CLOEXEC};
use syscalls::{Act, ArgKind, Beside, Syscall};
use trace::event::Call;

use super::Driver;
use crate::divergence::{Ending, Reason, diverged, unreachable};
use crate::held::Accepts;
use crate::live::{Answer, Asked, What};
use crate::memory::Memory;
use crate::network::{
    Connection, Player, Socket, awaits, inode_of, is_queue, loopback_of, set_port,
};

mod looking;
mod transfers;

/// How long to wait at a time for a call that is led: what it sends may have to be taken meanwhile.
const LED_EVERY: std::time::Duration = std::time::Duration::from_millis(2);
/// Longest address of a socket.
const ADDRESS_MAX: usize = 128;

/// A call of the program, and how far it has come.
struct Led<'c> {
    /// Waits for an answer.
    asked: Option<Asked>,
    pid: i32,
    memory: Memory,
    thread: u32,
    recorded: u32,
    seq: Option<u64>,
    call: &'c Call,
    row: &'static Syscall,
    /// The recorded result.
    ret: i64,
    /// Memory of the agent that nobody else uses.
    scratch: u64,
    /// The connection that sends meanwhile, and since when nothing went out.
    sends: Option<u64>,
    sent_nothing_since: Option<Instant>,
    /// What the last call took, and those that count.
    last_ticks: u64,
    ticks: u64,
    /// Calls that count were made.
    was_made: bool,
}

impl<'c> Led<'c> {
    fn new(
        asked: Asked,
        (recorded, seq): (u32, Option<u64>),
        (call, row): (&'c Call, &'static Syscall),
        reply_at: u64,
    ) -> Led<'c> {
        Led {
            pid: asked.pid,
            memory: Memory { tid: asked.tid },
            thread: asked.thread,
            asked: Some(asked),
            recorded,
            seq,
            call,
            row,
            ret: result(call),
            scratch: reply_at.wrapping_add(offset_of!(Reply, path) as u64),
            sends: None,
            sent_nothing_since: None,
            last_ticks: 0,
            ticks: 0,
            was_made: false,
        }
    }

    fn failed(&self, what: &str, ret: i64) -> Ending {
        let error = std::io::Error::from_raw_os_error(i32::try_from(-ret).unwrap_or(0));
        Ending::Failed(format!("{}: {what} on a real socket: {error}", self.row.name))
    }

    fn differs(&self, text: String) -> Ending {
        diverged(self.seq, self.recorded, Reason::Peer(text))
    }

    fn count(&mut self) {
        self.ticks = self.ticks.saturating_add(self.last_ticks);
        self.was_made = true;
    }

    fn number(&self) -> c_long {
        self.call.nr.into()
    }

    /// Whether an exec closes the descriptor that it gives.
    fn closes_at_exec(&self) -> bool {
        let args = self.row.args_of(&self.call.args);
        let variant = self.row.variant(&self.call.args);
        self.row.gives_until_exec
            || variant.is_some_and(|variant| variant.gives_until_exec)
            || args.iter().zip(self.call.args).any(|(arg, value)| match arg.kind {
                ArgKind::Flags(set) | ArgKind::Enum(set) => set.asks_for_close_on_exec(value),
                _ => false,
            })
    }
}

impl Driver<'_> {
    /// Has a thread make its call on real sockets, if it is on some. It waits for the recorded result then.
    pub(super) fn beside(
        &mut self,
        (asked, reply_at): (Asked, u64),
        moment: &Moment<'_>,
        call: &Call,
        row: Option<&'static Syscall>,
        contents: &mut dyn Contents,
    ) -> Result<Asked, Ending> {
        let (Some(row), Some(_)) = (row, &self.player) else { return Ok(asked) };
        let (beside, ret) = (row.beside_of(&call.args), result(call));
        let goes_on = beside == Beside::Connects && ret == -i64::from(libc::EINPROGRESS);
        if beside == Beside::Nothing || is_error(ret) && !goes_on {
            return Ok(asked);
        }
        let mut led = Led::new(asked, (moment.event.thread, moment.seq), (call, row), reply_at);
        let fd = call.args[0];
        match beside {
            Beside::Nothing => {}
            Beside::Made => self.make(&mut led, fd)?,
            Beside::MadeFor(options) => {
                let option = (call.args[1] & 0xffff_ffff, call.args[2] & 0xffff_ffff);
                if options.contains(&option) {
                    self.make(&mut led, fd)?;
                }
            }
            Beside::Always => {
                self.lead(&mut led, call.nr.into(), call.args)?;
            }
            Beside::Opens => {
                self.open(&mut led, call.args)?;
            }
            Beside::OpensStream => self.open_stream(&mut led)?,
            Beside::Renumbers => self.renumber(&mut led)?,
            Beside::Binds => self.bind(&mut led)?,
            Beside::Connects => self.connect(&mut led)?,
            // When it was accepted.
            Beside::Accepts => {}
            Beside::Receives => self.receive_bytes(&mut led, contents)?,
            Beside::Sends => self.send_bytes(&mut led, contents)?,
            Beside::Copies => self.copy_file(&mut led, moment)?,
            Beside::Watches => {
                if self.has_real(led.pid, call.args[2]) {
                    self.make_queue(&mut led)?;
                }
            }
            Beside::Waits { on, limit, is_behind } => {
                self.look(&mut led, on, (limit, is_behind))?;
            }
        }
        self.is_led(led)
    }

    /// Has a thread accept a connection, now that it was accepted in the recording. Returns what answers it.
    pub(super) fn accept_now(
        &mut self,
        accepts: &Accepts,
        answer: Answer,
    ) -> Result<Answer, Ending> {
        let Accepts { pid, tid, thread, recorded, reply_at, seq, ref call, row, .. } = *accepts;
        let what = What::Call { nr: call.nr.into(), args: call.args, reply_at };
        let asked = Asked { pid, tid, thread, what, answer };
        let mut led = Led::new(asked, (recorded, seq), (call, row), reply_at);
        self.accept(&mut led)?;
        self.is_led(led).map(|asked| asked.answer)
    }

    /// A thread has been led through its call.
    fn is_led(&mut self, mut led: Led<'_>) -> Result<Asked, Ending> {
        if let (true, Some(seq)) = (led.was_made, led.seq) {
            self.pace.made(seq, led.ticks);
        }
        led.asked.take().ok_or_else(|| Ending::Failed("a thread was lost".into()))
    }

    /// The program has ended.
    pub(super) fn finish_network(&mut self) -> Result<(), Ending> {
        let finished = self.player.as_mut().map_or(Ok(()), Player::finish);
        finished.map_err(|text| diverged(None, 0, Reason::Peer(text)))
    }

    /// Has a thread make a call. Returns its result.
    fn lead(&mut self, led: &mut Led<'_>, nr: c_long, args: [u64; 6]) -> Result<i64, Ending> {
        let Some(asked) = led.asked.take() else {
            return Err(Ending::Failed("a thread was lost".into()));
        };
        if let Some(live) = self.threads.get_mut(&led.thread) {
            live.is_led = true;
        }
        (asked.answer)(answer::LED, args, nr.cast_unsigned());
        let since = Instant::now();
        let asked = loop {
            let live = self.threads.get_mut(&led.thread);
            if let Some(asked) = live.and_then(|live| live.led.take()) {
                break asked;
            }
            if let (Some(inode), Some(player)) = (led.sends, &mut self.player) {
                player.drain(inode).map_err(|text| led.differs(text))?;
            }
            if !self.receive(LED_EVERY)? {
                let fail = |reason| Err(diverged(led.seq, led.recorded, reason));
                if self.processes.has_ended(led.pid) {
                    return fail(Reason::Ended { expected: led.row.name.into() });
                }
                if since.elapsed() > self.patience {
                    return fail(Reason::Stuck { seconds: since.elapsed().as_secs(), had: None });
                }
            }
        };
        if let Some(live) = self.threads.get_mut(&led.thread) {
            live.is_led = false;
        }
        let What::Made { ret, ticks } = asked.what else {
            return Err(Ending::Failed("a thread was lost".into()));
        };
        led.last_ticks = ticks;
        led.asked = Some(asked);
        Ok(ret)
    }

    /// A copy of what the program has open there.
    fn copy(&self, pid: i32, number: u64) -> Option<OwnedFd> {
        self.processes.descriptor(pid, i32::try_from(number as u32).ok()?)
    }

    /// The socket there, if it is a real one, and its inode.
    fn real_socket(&mut self, pid: i32, number: u64) -> Option<(OwnedFd, u64)> {
        let copy = self.copy(pid, number)?;
        let inode = inode_of(&copy)?;
        self.player.as_mut()?.socket(inode)?;
        Some((copy, inode))
    }

    /// The connection there, if it is a real one.
    fn real_connection(&mut self, pid: i32, number: u64) -> Option<(OwnedFd, u64)> {
        let (copy, inode) = self.real_socket(pid, number)?;
        self.player.as_mut()?.connection(inode)?;
        Some((copy, inode))
    }

    /// Whether something real is there.
    fn has_real(&mut self, pid: i32, number: u64) -> bool {
        self.real_socket(pid, number).is_some()
            || self.copy(pid, number).is_some_and(|copy| is_queue(&copy))
    }

    /// Makes the call with its own arguments, if the descriptor is a real one.
    fn make(&mut self, led: &mut Led<'_>, fd: u64) -> Result<(), Ending> {
        let is_queue = || self.copy(led.pid, fd).is_some_and(|copy| is_queue(&copy));
        let closes = led.row.act_of(&led.call.args) == Act::Close;
        if closes && is_queue() {
            self.lead(led, led.number(), led.call.args)?;
            return Ok(());
        }
        let Some((copy, inode)) = self.real_socket(led.pid, fd) else { return Ok(()) };
        drop(copy);
        let ret = self.lead(led, led.number(), led.call.args)?;
        led.count();
        if is_error(ret) {
            return Err(led.failed("it fails", ret));
        }
        let connection = self.player.as_mut().and_then(|player| player.connection(inode));
        if let Some(connection) = connection {
            connection.is_closed |= closes;
            connection.drain().map_err(|text| led.differs(text))?;
        }
        Ok(())
    }

    /// What is watched may not be there any more: then the queue has forgotten it by itself.
    fn make_queue(&mut self, led: &mut Led<'_>) -> Result<(), Ending> {
        if self.copy(led.pid, led.call.args[0]).is_some_and(|copy| is_queue(&copy)) {
            self.lead(led, led.number(), led.call.args)?;
            led.count();
        }
        Ok(())
    }

    /// Makes a call that gives a descriptor, and has that get the recorded number.
    fn open(&mut self, led: &mut Led<'_>, args: [u64; 6]) -> Result<(), Ending> {
        let found = self.lead(led, led.number(), args)?;
        led.count();
        if is_error(found) {
            return Err(led.failed("no descriptor", found));
        }
        if found != led.ret {
            let closes = if led.closes_at_exec() { O_CLOEXEC } else { 0 };
            let (found, wanted) = (found as u64, led.ret as u64);
            let ret = self.lead(led, libc::SYS_dup3, [found, wanted, closes, 0, 0, 0])?;
            if is_error(ret) {
                return Err(led.failed("its number cannot be had", ret));
            }
            self.lead(led, libc::SYS_close, [found, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    fn note_socket(&mut self, led: &Led<'_>, socket: Socket) {
        let inode = self.copy(led.pid, led.ret as u64).and_then(|copy| inode_of(&copy));
        if let (Some(inode), Some(player)) = (inode, &mut self.player) {
            player.add(inode, socket);
        }
    }

    fn open_stream(&mut self, led: &mut Led<'_>) -> Result<(), Ending> {
        const KIND: u64 = 0xf;
        let [domain, kind, ..] = led.call.args;
        let is_ip = domain == u64::from(AF_INET) || domain == u64::from(AF_INET6);
        if is_ip && kind & KIND == libc::SOCK_STREAM as u64 {
            // TCP, also where several paths were wanted.
            self.open(led, [domain, kind, 0, 0, 0, 0])?;
            self.note_socket(led, Socket::Single);
        }
        Ok(())
    }

    /// Gives a real descriptor another number, or closes what has that.
    fn renumber(&mut self, led: &mut Led<'_>) -> Result<(), Ending> {
        let (old, new) = (led.call.args[0], led.ret as u64);
        if old as u32 == new as u32 {
            return Ok(());
        }
        if self.has_real(led.pid, old) {
            let closes = if led.closes_at_exec() { O_CLOEXEC } else { 0 };
            let ret = self.lead(led, libc::SYS_dup3, [old, new, closes, 0, 0, 0])?;
            if is_error(ret) {
                return Err(led.failed("its number cannot be had", ret));
            }
        } else if self.has_real(led.pid, new) {
            self.lead(led, libc::SYS_close, [new, 0, 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// The address behind the second argument, on the loopback.
    fn address(&self, led: &Led<'_>) -> Result<Option<Vec<u8>>, Ending> {
        let len = usize::try_from(led.call.args[2] as u32).unwrap_or(0).min(ADDRESS_MAX);
        let read = led.memory.read(led.call.args[1], len);
        let mut address = read.map_err(|error| unreachable(led.seq, led.recorded, &error))?;
        Ok(loopback_of(&mut address).then_some(address))
    }

    /// Makes the call with another address.
    fn lead_with(&mut self, led: &mut Led<'_>, address: &[u8]) -> Result<i64, Ending> {
        let written = led.memory.write(led.scratch, address);
        written.map_err(|error| unreachable(led.seq, led.recorded, &error))?;
        let args = [led.call.args[0], led.scratch, address.len() as u64, 0, 0, 0];
        let ret = self.lead(led, led.number(), args)?;
        led.count();
        Ok(ret)
    }

    fn bind(&mut self, led: &mut Led<'_>) -> Result<(), Ending> {
        if self.real_socket(led.pid, led.call.args[0]).is_none() {
            return Ok(());
        }
        let Some(mut address) = self.address(led)? else { return Ok(()) };
        // Who asked for any port was told of one, and clients with it.
        let recorded = led.seq.and_then(|seq| self.survey.ports.get(&seq).copied());
        if let Some(port) = recorded {
            set_port(&mut address, port);
        }
        let mut ret = self.lead_with(led, &address)?;
        // A peer that is played finds it at any port.
        if is_error(ret) && self.player.as_ref().is_some_and(|player| !player.is_live()) {
            set_port(&mut address, 0);
            ret = self.lead_with(led, &address)?;
        }
        if is_error(ret) { Err(led.failed("its address cannot be had", ret)) } else { Ok(()) }
    }

    fn connect(&mut self, led: &mut Led<'_>) -> Result<(), Ending> {
        let Some((_, inode)) = self.real_socket(led.pid, led.call.args[0]) else { return Ok(()) };
        let Some(mut address) = self.address(led)? else { return Ok(()) };
        let fail = |what: &dyn std::fmt::Display| Ending::Failed(format!("a peer: {what}"));
        let is_v4 = address[0] == AF_INET as u8;
        let at = if is_v4 { "127.0.0.1:0" } else { "[::1]:0" };
        let listener = TcpListener::bind(at).map_err(|error| fail(&error))?;
        let port = listener.local_addr().map_err(|error| fail(&error))?.port();
        peer_address(&mut address, port);
        let ret = self.lead_with(led, &address)?;
        if is_error(ret) && ret != -i64::from(libc::EINPROGRESS) {
            return Err(led.failed("a peer is not reached", ret));
        }
        let peer = Player::take_call(&listener).map_err(|text| fail(&text))?;
        let connection = Connection::new(Some(peer)).map_err(|text| fail(&text))?;
        if let Some(player) = &mut self.player {
            player.add(inode, Socket::Connected(connection));
        }
        Ok(())
    }

    fn accept(&mut self, led: &mut Led<'_>) -> Result<(), Ending> {
        let Some((listening, _)) = self.real_socket(led.pid, led.call.args[0]) else {
            return Ok(());
        };
        let Some(player) = &mut self.player else { return Ok(()) };
        let peer = player.call_at(&listening).map_err(Ending::Failed)?;
        self.await_call(led, &listening)?;
        let [fd, _, _, flags, ..] = led.call.args;
        drop(listening);
        self.open(led, [fd, 0, 0, flags, 0, 0])?;
        self.connected(led, peer)
    }

    fn connected(&mut self, led: &Led<'_>, peer: Option<TcpStream>) -> Result<(), Ending> {
        let connection = Connection::new(peer).map_err(Ending::Failed)?;
        self.note_socket(led, Socket::Connected(connection));
        Ok(())
    }

    /// Waits until a peer has connected.
    fn await_call(&mut self, led: &Led<'_>, listening: &OwnedFd) -> Result<(), Ending> {
        let since = Instant::now();
        while !awaits(listening, super::LOOK_EVERY) {
            let is_alone = self.player.as_mut().is_some_and(Player::is_alone);
            // It may have connected just before its end.
            if is_alone && !awaits(listening, std::time::Duration::ZERO) {
                return Err(led.differs("the client has ended, and has not connected".into()));
            }
            if since.elapsed() > self.patience {
                return Err(led.differs(format!(
                    "the client has not connected in {} s",
                    since.elapsed().as_secs()
                )));
            }
        }
        Ok(())
    }
}

fn result(call: &Call) -> i64 {
    match call.outcome {
        trace::event::Outcome::Returned { ret, .. } => ret,
        trace::event::Outcome::Unfinished => 0,
    }
}

/// The address of a peer that listens on the loopback, in the place of the recorded one.
fn peer_address(address: &mut [u8], port: u16) {
    set_port(address, port);
    let ip = match u16::from(address[0]) == AF_INET {
        true => (4, &std::net::Ipv4Addr::LOCALHOST.octets()[..]),
        false => (8, &std::net::Ipv6Addr::LOCALHOST.octets()[..]),
    };
    if let Some(place) = address.get_mut(ip.0..ip.0 + ip.1.len()) {
        place.copy_from_slice(ip.1);
    }
}
