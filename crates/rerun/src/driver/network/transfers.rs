//! Bytes through real sockets: as many as were recorded, however the kernel cuts them.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use model::contents::is_out;
use model::{Contents, Moment};
use syscalls::abi::errno::is_error;
use syscalls::abi::files::MSG_PEEK;
use syscalls::capture::How;
use syscalls::record::part;
use syscalls::shape::{OffsetIs, offset_of};
use syscalls::{ArgKind, Operand};

use super::{Driver, Led};
use crate::buffers::Places;
use crate::divergence::{Ending, SHOWN_MAX, unreachable};
use crate::network::{Owed, Player, has_come};

const NO_WAIT: u64 = libc::MSG_DONTWAIT as u64;
const QUIETLY: u64 = libc::MSG_NOSIGNAL as u64;
/// More than a call copies.
const COPIED_MAX: u64 = 1 << 31;

/// The bytes of a call, and where they lie.
#[derive(Default)]
struct Bytes {
    /// Address and length of each piece.
    spans: Vec<(u64, usize)>,
    bytes: Vec<u8>,
    /// What the program has offered to send.
    offered: u64,
}

impl Bytes {
    /// The piece of memory at which a byte lies.
    fn at(&self, mut place: usize) -> Option<(u64, usize)> {
        for (at, len) in &self.spans {
            if place < *len {
                return Some((at.wrapping_add(place as u64), len - place));
            }
            place -= len;
        }
        None
    }
}

impl Driver<'_> {
    /// The bytes that a call has moved.
    fn bytes(led: &Led<'_>, contents: &mut dyn Contents, out: bool) -> Result<Bytes, Ending> {
        let mut left = usize::try_from(led.ret).unwrap_or(0).min(COPIED_MAX as usize);
        let (capture, _) = syscalls::capture::row(led.call.nr.into(), &led.call.args);
        let ops = &capture.ops[..usize::from(capture.nops)];
        let is_vector = |arg| ops.iter().any(|op| op.arg == arg && op.how != How::Bytes);
        let mut places = Places::new(led.call.nr, led.call.args, led.memory);
        let mut found = Bytes::default();
        let unreachable = |error| unreachable(led.seq, led.recorded, &error);
        for data in led.call.data.iter().filter(|data| is_out(data) == out) {
            let wanted = if is_vector(data.arg) { part::CONTENT } else { part::WHOLE };
            if data.part != wanted || left == 0 {
                continue;
            }
            let Some(at) = places.of(data, out).map_err(unreachable)? else { continue };
            found.offered = found.offered.saturating_add(data.true_len);
            let bytes = contents.read(&data.content, left).map_err(Ending::Failed)?;
            left -= bytes.len();
            found.spans.push((at, bytes.len()));
            found.bytes.extend(bytes);
        }
        let count = led.row.value_of(&led.call.args, Operand::Count);
        found.offered = count.unwrap_or(found.offered);
        Ok(found)
    }

    fn player(&mut self) -> Result<&mut Player, Ending> {
        self.player.as_mut().ok_or_else(|| Ending::Failed("nobody plays the peers".into()))
    }

    /// Has a connection get what was recorded, and the program take it.
    pub(super) fn receive_bytes(
        &mut self,
        led: &mut Led<'_>,
        contents: &mut dyn Contents,
    ) -> Result<(), Ending> {
        let Some(fd) = led.row.value_of(&led.call.args, Operand::Source) else { return Ok(()) };
        let Some((socket, inode)) = self.real_connection(led.pid, fd) else { return Ok(()) };
        let wanted = Self::bytes(led, contents, true)?;
        if wanted.bytes.is_empty() {
            let asks = led.row.value_of(&led.call.args, Operand::Count) != Some(0);
            return if asks && led.ret == 0 {
                self.receive_end(led, &socket, inode)
            } else {
                Ok(())
            };
        }
        let looks = self.flags(led) & MSG_PEEK;
        let total = wanted.bytes.len();
        let connection = self.player()?.connection(inode);
        let ahead = connection.map_or(0, |connection| connection.ahead);
        let (mut sent, mut done) = (ahead.min(total), 0);
        while done < total {
            let player = self.player()?;
            if let Some(connection) = player.connection(inode) {
                sent += connection.send(&wanted.bytes[sent..]).map_err(Ending::Failed)?;
            }
            let expected = total - done;
            let here = self.await_bytes(led, &socket, expected)?;
            let is_exact = here == total || here > total && wanted.offered == total as u64;
            let ret = if done == 0 && is_exact {
                self.lead(led, led.number(), led.call.args)?
            } else {
                let Some((at, len)) = wanted.at(done) else { break };
                let len = len.min(here) as u64;
                self.lead(led, libc::SYS_recvfrom, [fd, at, len, looks | NO_WAIT, 0, 0])?
            };
            led.count();
            match usize::try_from(ret) {
                Ok(n) if n > 0 => done += n,
                _ => return Err(led.failed("nothing is received", ret)),
            }
            if looks != 0 {
                break;
            }
        }
        if let Some(connection) = self.player()?.connection(inode) {
            connection.ahead =
                if looks != 0 { sent.max(ahead) } else { ahead.saturating_sub(total) };
        }
        let read = if looks != 0 { done.min(total) } else { total };
        self.compare_received(led, &wanted, read)
    }

    /// What a real client has sent must be what was recorded.
    fn compare_received(&self, led: &Led<'_>, wanted: &Bytes, len: usize) -> Result<(), Ending> {
        let mut place = 0;
        while place < len {
            let Some((at, room)) = wanted.at(place) else { break };
            let n = room.min(len - place);
            let read = led.memory.read(at, n);
            let found = read.map_err(|error| unreachable(led.seq, led.recorded, &error))?;
            let expected = &wanted.bytes[place..place + n];
            if let Some(first) = found.iter().zip(expected).position(|(a, b)| a != b) {
                let piece = |all: &[u8]| {
                    let shown: Vec<u8> = all[first..].iter().take(SHOWN_MAX).copied().collect();
                    render::escape::escaped(&shown).to_string()
                };
                return Err(led.differs(format!(
                    "from byte {} on the client sends \"{}\", where \"{}\" was recorded",
                    place + first,
                    piece(&found),
                    piece(expected)
                )));
            }
            place += n;
        }
        Ok(())
    }

    fn receive_end(
        &mut self,
        led: &mut Led<'_>,
        socket: &std::os::fd::OwnedFd,
        inode: u64,
    ) -> Result<(), Ending> {
        if let Some(connection) = self.player()?.connection(inode) {
            connection.end();
        }
        let since = Instant::now();
        loop {
            match has_come(socket, 1) {
                None => break,
                Some(0) if since.elapsed() <= self.patience => {}
                Some(0) => return Err(led.differs("the client does not close a connection".into())),
                Some(n) => {
                    let text =
                        format!("the client sends {n} bytes where it had closed the connection");
                    return Err(led.differs(text));
                }
            }
        }
        self.lead(led, led.number(), led.call.args)?;
        led.count();
        Ok(())
    }

    /// Waits until bytes are there.
    fn await_bytes(
        &mut self,
        led: &Led<'_>,
        socket: &std::os::fd::OwnedFd,
        expected: usize,
    ) -> Result<usize, Ending> {
        let since = Instant::now();
        loop {
            match has_come(socket, expected) {
                None => {
                    let text =
                        format!("the client closes a connection where {expected} bytes came");
                    return Err(led.differs(text));
                }
                Some(n) if n > 0 => return Ok(n),
                Some(_) if since.elapsed() > self.patience => {
                    let seconds = since.elapsed().as_secs();
                    let text = format!("the client has sent nothing for {seconds} s");
                    return Err(led.differs(text));
                }
                Some(_) => {}
            }
        }
    }

    /// The flags of a call on a socket; 0 for one on any file.
    fn flags(&self, led: &Led<'_>) -> u64 {
        let args = led.row.args_of(&led.call.args).iter().zip(led.call.args);
        args.filter(|(arg, _)| matches!(arg.kind, ArgKind::Flags(_)))
            .fold(0, |all, (_, value)| all | value)
    }

    /// Has the program send what it had sent.
    pub(super) fn send_bytes(
        &mut self,
        led: &mut Led<'_>,
        contents: &mut dyn Contents,
    ) -> Result<(), Ending> {
        let Some(fd) = led.row.value_of(&led.call.args, Operand::Target) else { return Ok(()) };
        let Some((socket, inode)) = self.real_connection(led.pid, fd) else { return Ok(()) };
        let wanted = Self::bytes(led, contents, false)?;
        let total = wanted.bytes.len();
        if let Some(connection) = self.player()?.connection(inode) {
            connection.owe(Owed::Bytes(wanted.bytes.clone()));
        }
        led.sends = Some(inode);
        let mut done = 0;
        while done < total {
            let ret = if done == 0 && wanted.offered == total as u64 {
                self.lead(led, led.number(), led.call.args)?
            } else {
                let Some((at, len)) = wanted.at(done) else { break };
                let flags = NO_WAIT | QUIETLY;
                self.lead(led, libc::SYS_sendto, [fd, at, len as u64, flags, 0, 0])?
            };
            led.count();
            done += self.went_out(led, &socket, ret)?;
        }
        self.drain(led)
    }

    /// How many bytes went out. Waits a while if none did, as there was no room.
    fn went_out(
        &mut self,
        led: &mut Led<'_>,
        socket: &std::os::fd::OwnedFd,
        ret: i64,
    ) -> Result<usize, Ending> {
        match usize::try_from(ret) {
            Ok(n) if n > 0 => {
                led.sent_nothing_since = None;
                Ok(n)
            }
            Err(_) if ret == -i64::from(libc::EAGAIN) => {
                let since = *led.sent_nothing_since.get_or_insert_with(Instant::now);
                if since.elapsed() > self.patience {
                    let seconds = since.elapsed().as_secs();
                    return Err(led.differs(format!("the client has read nothing for {seconds} s")));
                }
                self.drain(led)?;
                let mut poll =
                    libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
                // SAFETY: one struct, which is ours.
                let n = unsafe { libc::poll(&raw mut poll, 1, 10) };
                if n == 0 && self.player.as_mut().is_some_and(Player::is_alone) {
                    return Err(led.differs("the client has ended, and not read all".into()));
                }
                Ok(0)
            }
            _ if self.player.as_ref().is_some_and(Player::is_live) => {
                let error = std::io::Error::from_raw_os_error(i32::try_from(-ret).unwrap_or(0));
                Err(led.differs(format!("the client has closed a connection: {error}")))
            }
            _ => Err(led.failed("nothing is sent", ret)),
        }
    }

    fn drain(&mut self, led: &Led<'_>) -> Result<(), Ending> {
        match (led.sends, &mut self.player) {
            (Some(inode), Some(player)) => player.drain(inode).map_err(|text| led.differs(text)),
            _ => Ok(()),
        }
    }

    /// Has the program send bytes of a file: of that file, if it is still there, else as many.
    pub(super) fn copy_file(
        &mut self,
        led: &mut Led<'_>,
        moment: &Moment<'_>,
    ) -> Result<(), Ending> {
        let args = led.call.args;
        let (Some(to), Some(from)) =
            (led.row.value_of(&args, Operand::Target), led.row.value_of(&args, Operand::Source))
        else {
            return Ok(());
        };
        let Some((socket, inode)) = self.real_connection(led.pid, to) else { return Ok(()) };
        let total = u64::try_from(led.ret).unwrap_or(0);
        if total == 0 {
            return Ok(());
        }
        if total > COPIED_MAX {
            return Err(Ending::Failed(format!("{}: no kernel sends so much", led.row.name)));
        }
        let mut offset = match offset_of(led.row.args_of(&args), &args, Operand::SourceAt) {
            OffsetIs::Behind(arg) if args[usize::from(arg)] != 0 => {
                let word = led.memory.word(args[usize::from(arg)]);
                Some(word.map_err(|error| unreachable(led.seq, led.recorded, &error))?)
            }
            _ => None,
        };
        let file = match offset {
            Some(offset) => self.open_file(led, moment, (from, offset.saturating_add(total)))?,
            None => None,
        };
        let file = match file {
            Some(file) => file,
            None if self.player()?.is_live() => {
                let text = format!("{}: the file is not as it was, or not known", led.row.name);
                return Err(Ending::Failed(text));
            }
            None => {
                offset = Some(0);
                self.stand_in(led, total)?
            }
        };
        if let Some(connection) = self.player()?.connection(inode) {
            connection.owe(Owed::Unknown(total));
        }
        led.sends = Some(inode);
        let fail = |error: std::io::Error| unreachable(led.seq, led.recorded, &error);
        led.memory.write(led.scratch, &offset.unwrap_or(0).to_le_bytes()).map_err(fail)?;
        let mut done = 0;
        while done < total {
            let args = [to, file, led.scratch, total - done, 0, 0];
            let ret = self.lead(led, libc::SYS_sendfile, args)?;
            led.count();
            if ret == 0 {
                return Err(led.failed("the file is too short", 0));
            }
            done += self.went_out(led, &socket, ret)? as u64;
        }
        self.lead(led, libc::SYS_close, [file, 0, 0, 0, 0, 0])?;
        self.drain(led)
    }

    /// Has the program open the file behind a descriptor, if it reaches that far.
    fn open_file(
        &mut self,
        led: &mut Led<'_>,
        moment: &Moment<'_>,
        (fd, end): (u64, u64),
    ) -> Result<Option<u64>, Ending> {
        let table = moment.world.descriptors(moment.event.thread);
        let entry = table.as_ref().and_then(|table| table.get(fd as i32));
        let Some(path) = entry.map(|entry| entry.description.path.clone()) else { return Ok(None) };
        let mut look = OpenOptions::new();
        look.read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC);
        let metadata = look
            .open(Path::new(std::ffi::OsStr::from_bytes(&path)))
            .and_then(|file| file.metadata());
        let is_it = metadata.is_ok_and(|found| found.is_file() && found.len() >= end);
        if !is_it || path.len() >= ring::REPLY_PATH {
            return Ok(None);
        }
        let mut name = path;
        name.push(0);
        let fail = |error: std::io::Error| unreachable(led.seq, led.recorded, &error);
        led.memory.write(led.scratch, &name).map_err(fail)?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let here = i64::from(libc::AT_FDCWD) as u64;
        let args = [here, led.scratch, flags as u64, 0, 0, 0];
        let found = self.lead(led, libc::SYS_openat, args)?;
        Ok((!is_error(found)).then_some(found as u64))
    }

    /// Has the program make a file of that many bytes.
    fn stand_in(&mut self, led: &mut Led<'_>, len: u64) -> Result<u64, Ending> {
        let fail = |error: std::io::Error| unreachable(led.seq, led.recorded, &error);
        led.memory.write(led.scratch, &[0]).map_err(fail)?;
        let flags = u64::from(libc::MFD_CLOEXEC);
        let found = self.lead(led, libc::SYS_memfd_create, [led.scratch, flags, 0, 0, 0, 0])?;
        let Some(copy) = self.copy(led.pid, found as u64).filter(|_| !is_error(found)) else {
            return Err(led.failed("no file to send", found));
        };
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        // SAFETY: takes numbers.
        match unsafe { libc::ftruncate(copy.as_raw_fd(), len) } {
            0 => Ok(found as u64),
            _ => Err(led.failed("no file to send", -i64::from(libc::EFBIG))),
        }
    }
}
