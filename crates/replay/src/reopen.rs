//! Reopens files that tasks have descriptors of, even if they have no name. That needs /proc, which
//! the jail lacks but the host has: a task sends its descriptor to the host's desk, and receives a
//! new one of the same file.
//!
//! The desk has an address in the jail's own network namespace. No replayed call sends to an
//! address, and a task that reached the desk anyway would only get a file that it already has.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
};

/// Open flags that concern the use of a file: none that create it or block.
const USE_FLAGS: i32 = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_TRUNC
    | libc::O_NONBLOCK
    | libc::O_DIRECT
    | libc::O_DSYNC
    | libc::O_SYNC
    | libc::O_DIRECTORY
    | libc::O_NOATIME
    | libc::O_PATH
    | libc::O_CLOEXEC;

/// Null, zero and full, the devices of a jail.
const DEVICES: [u64; 3] = [0x103, 0x105, 0x107];
/// Magic number of the file system of unnamed pipes.
const PIPEFS: rustix::fs::FsWord = 0x5049_5045;

/// Descriptors sent with a request: the file, and the socket for the answer.
const ASKED_WITH: usize = 2;

const OPENER_STACK_BYTES: usize = 64 << 10;

/// Service that reopens descriptors.
#[derive(Debug)]
pub struct Desk {
    /// The host's /proc.
    proc: OwnedFd,
    socket: OwnedFd,
    address: SocketAddrUnix,
    closed: AtomicBool,
}

/// Creates a datagram socket pair.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (unix, datagrams) = (AddressFamily::UNIX, SocketType::DGRAM);
    Ok(rustix::net::socketpair(unix, datagrams, SocketFlags::CLOEXEC, None)?)
}

fn file_type(file: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode))
}

/// Whether a pipe is unnamed.
fn is_pipe(file: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(file)?.f_type == PIPEFS)
}

/// Sends a number and descriptors.
fn send(
    socket: impl AsFd,
    to: Option<&SocketAddrUnix>,
    number: i32,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ASKED_WITH))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let bytes = number.to_ne_bytes();
    let bytes = [IoSlice::new(&bytes)];
    match to {
        Some(to) => {
            rustix::net::sendmsg_addr(socket, to, &bytes, &mut control, SendFlags::empty())?
        }
        // Do not wait for a task that does not take its answer.
        None => rustix::net::sendmsg(socket, &bytes, &mut control, SendFlags::DONTWAIT)?,
    };
    Ok(())
}

/// Receives a number and descriptors.
fn receive(socket: impl AsFd) -> io::Result<(i32, Vec<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ASKED_WITH))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let mut bytes = [0; size_of::<i32>()];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(all) = message {
            files.extend(all);
        }
    }
    Ok((i32::from_ne_bytes(bytes), files))
}

fn is_named_pipe(file: impl AsFd) -> io::Result<bool> {
    Ok(file_type(&file)? == FileType::Fifo && !is_pipe(&file)?)
}

fn is_only_a_path(file: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::fcntl_getfl(file)?.contains(OFlags::PATH))
}

fn open_by_link(proc: &OwnedFd, file: &OwnedFd, flags: i32) -> io::Result<OwnedFd> {
    let path = format!("self/fd/{}", file.as_raw_fd());
    let flags = OFlags::from_bits_retain((flags & USE_FLAGS) as u32);
    Ok(rustix::fs::openat(proc, path, flags | OFlags::CLOEXEC, Mode::empty())?)
}

/// Sends the answer. Errors are ignored: the task may be gone.
fn reply(to: &OwnedFd, opened: io::Result<OwnedFd>) {
    let _ = match opened {
        Ok(new) => send(to, None, 0, &[new.as_fd()]),
        Err(error) => send(to, None, error.raw_os_error().unwrap_or(libc::EIO), &[]),
    };
}

impl Desk {
    /// Creates a desk that uses this /proc.
    pub fn new(proc: BorrowedFd<'_>) -> io::Result<Desk> {
        let (unix, datagrams) = (AddressFamily::UNIX, SocketType::DGRAM);
        let socket = rustix::net::socket_with(unix, datagrams, SocketFlags::CLOEXEC, None)?;
        // Bind to an address of the kernel's choice.
        rustix::net::bind(&socket, &SocketAddrUnix::new_unnamed())?;
        let address = SocketAddrUnix::try_from(rustix::net::getsockname(&socket)?)?;
        let proc = proc.try_clone_to_owned()?;
        Ok(Desk { proc, socket, address, closed: AtomicBool::new(false) })
    }

    /// Reopens a descriptor of the calling task. Returns the new one or a negative errno.
    pub fn ask(&self, fd: i32, flags: i32) -> i64 {
        // SAFETY: the descriptor is borrowed for this call only; the kernel rejects closed ones.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        match self.try_ask(file, flags) {
            Ok(new) => new.into_raw_fd().into(),
            Err(error) => -i64::from(error.raw_os_error().unwrap_or(libc::EIO)),
        }
    }

    fn try_ask(&self, file: BorrowedFd<'_>, flags: i32) -> io::Result<OwnedFd> {
        if is_named_pipe(file)? && !is_only_a_path(file)? {
            // Reopening a pipe waits for the other side. So does a copy: pipes have no offset.
            let new = rustix::io::fcntl_dupfd_cloexec(file, 0)?;
            let kept = if flags & libc::O_CLOEXEC != 0 { libc::FD_CLOEXEC } else { 0 };
            rustix::io::fcntl_setfd(&new, rustix::io::FdFlags::from_bits_retain(kept as u32))?;
            return Ok(new);
        }
        let (ours, theirs) = pair()?;
        send(&ours, Some(&self.address), flags, &[file, theirs.as_fd()])?;
        drop(theirs);
        let (error, files) = receive(&ours)?;
        drop(ours);
        let new = files.into_iter().next();
        let new = new.ok_or_else(|| io::Error::from_raw_os_error(error))?;
        // Move it to the lowest free number, which was in use until now.
        let new = rustix::io::fcntl_dupfd_cloexec(&new, 0)?;
        if flags & libc::O_CLOEXEC == 0 {
            rustix::io::fcntl_setfd(&new, rustix::io::FdFlags::empty())?;
        }
        Ok(new)
    }

    /// Answers requests until the desk is closed.
    pub fn serve(&self) {
        while !self.closed.load(Ordering::SeqCst) {
            let Ok((flags, files)) = receive(&self.socket) else { continue };
            let Ok([file, answer]) = <[OwnedFd; 2]>::try_from(files) else { continue };
            if !is_named_pipe(&file).is_ok_and(|named| named) {
                reply(&answer, self.open(&file, flags));
                continue;
            }
            // Such an open waits for the other side: use a thread for each request.
            let Ok(proc) = self.proc.try_clone() else { continue };
            let wait = move || reply(&answer, open_by_link(&proc, &file, flags));
            let _ = std::thread::Builder::new().stack_size(OPENER_STACK_BYTES).spawn(wait);
        }
    }

    /// Reopens a file whose open neither blocks nor has side effects.
    fn open(&self, file: &OwnedFd, flags: i32) -> io::Result<OwnedFd> {
        let opens_at_once = match file_type(file)? {
            FileType::RegularFile | FileType::Directory => true,
            FileType::Fifo => true,
            FileType::CharacterDevice => DEVICES.contains(&rustix::fs::fstat(file)?.st_rdev),
            _ => false,
        };
        if !opens_at_once {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS));
        }
        open_by_link(&self.proc, file, flags)
    }

    /// Closes the desk: no more requests come.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use super::*;

    fn with_desk(test: impl FnOnce(&Desk)) {
        let proc = File::open("/proc").unwrap();
        let desk = Desk::new(proc.as_fd()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| desk.serve());
            test(&desk);
            desk.close();
        });
    }

    #[test]
    fn what_has_no_name_is_opened_again() {
        with_desk(|desk| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"hello").unwrap();
            let mut again = File::from(desk.try_ask(file.as_fd(), libc::O_RDONLY).unwrap());
            let mut text = String::new();
            again.read_to_string(&mut text).unwrap();
            assert_eq!(text, "hello");
            assert!(again.write_all(b"x").is_err());
            let flags = libc::O_WRONLY | libc::O_TRUNC | libc::O_CREAT | libc::O_EXCL;
            desk.try_ask(file.as_fd(), flags).unwrap();
            assert_eq!(file.metadata().unwrap().len(), 0);
        });
    }

    #[test]
    fn ends_of_pipes_and_devices_are_opened_as_is_asked() {
        with_desk(|desk| {
            let (mut out, end) = std::io::pipe().unwrap();
            drop(end);
            let mut end = File::from(desk.try_ask(out.as_fd(), libc::O_WRONLY).unwrap());
            end.write_all(b"hello").unwrap();
            drop(end);
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            assert_eq!(text, "hello");
            let null = File::open("/dev/null").unwrap();
            let mut null = File::from(desk.try_ask(null.as_fd(), libc::O_WRONLY).unwrap());
            null.write_all(b"x").unwrap();
            // Named pipes may have to wait for the other side.
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("fifo");
            let all = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, all, 0).unwrap();
            let fifo = File::options().read(true).write(true).open(&path).unwrap();
            let again = desk.try_ask(fifo.as_fd(), libc::O_RDONLY).unwrap();
            File::from(again).write_all(b"it is a copy").unwrap();
        });
    }

    #[test]
    fn who_opens_a_named_pipe_by_its_path_waits_for_the_other_side() {
        with_desk(|desk| {
            let dir = tempfile::tempdir().unwrap();
            let name = dir.path().join("pipe");
            rustix::fs::mkfifoat(rustix::fs::CWD, &name, Mode::RUSR | Mode::WUSR).unwrap();
            let path = rustix::fs::open(&name, OFlags::PATH, Mode::empty()).unwrap();
            let mut text = String::new();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut writes =
                        File::from(desk.try_ask(path.as_fd(), libc::O_WRONLY).unwrap());
                    writes.write_all(b"hello").unwrap();
                });
                File::open(&name).unwrap().read_to_string(&mut text).unwrap();
            });
            assert_eq!(text, "hello");
        });
    }

    #[test]
    fn what_cannot_be_opened_is_refused() {
        with_desk(|desk| {
            let (socket, other) = pair().unwrap();
            let refused = desk.try_ask(socket.as_fd(), libc::O_RDONLY).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::ENOSYS));
            let directory = File::open("/").unwrap();
            let refused = desk.try_ask(directory.as_fd(), libc::O_RDWR).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EISDIR));
            // Malformed requests are not answered, and do no harm.
            send(&socket, Some(&desk.address), 0, &[]).unwrap();
            send(&socket, Some(&desk.address), 0, &[directory.as_fd()]).unwrap();
            drop(other);
            desk.try_ask(directory.as_fd(), libc::O_RDONLY).unwrap();
        });
    }
}
