//! Descriptor numbers: moves a file that got another number to the recorded one.

use std::ffi::{CStr, CString};
use std::io;

/// Path opened as a placeholder (O_PATH): it can be neither read nor written.
const NOTHING: &CStr = c"/";

fn check(result: libc::c_int) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Whether a number is in use.
pub fn is_open(fd: i32) -> bool {
    // SAFETY: the arguments are numbers; no memory is accessed.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Closes a number.
pub fn close(fd: i32) {
    // SAFETY: all descriptors of a task belong to the replayed program, none to Rust objects.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// Moves `found` to `wanted`. If that is in use, `patient` decides whether to wait until another
/// task with the same table closes it, as it did in the recording.
pub fn move_to(found: i32, wanted: i32, patient: impl Fn() -> bool) -> io::Result<()> {
    move_all(&[(found, wanted)], patient)
}

/// Moves several descriptors that were created together: pairs of found and wanted, the highest
/// found ones first, so that none lands on one that is still to be moved.
pub fn move_all(pairs: &[(i32, i32)], patient: impl Fn() -> bool) -> io::Result<()> {
    let mut result = Ok(());
    let mut left = Vec::new();
    for &(found, wanted) in pairs.iter().filter(|(found, wanted)| found != wanted) {
        match Move::at_once(found, wanted) {
            Ok(None) => {}
            Ok(Some(waiting)) => left.push(waiting),
            Err(error) => result = Err(error),
        }
    }
    // The task that uses our numbers may wait for one that we occupy, and is not waited for
    // meanwhile. So first move ours out of the way, to numbers that none of us wants.
    let wanted: Vec<i32> = left.iter().map(|waiting| waiting.wanted).collect();
    for waiting in &mut left {
        waiting.found = out_of_the_way(waiting.found, &wanted);
    }
    left.into_iter().fold(result, |result, waiting| result.and(waiting.wait(&patient)))
}

/// A descriptor whose wanted number is in use.
struct Move {
    found: i32,
    wanted: i32,
    close_on_exec: bool,
}

impl Move {
    /// Moves it, or returns it if the number is in use.
    fn at_once(found: i32, wanted: i32) -> io::Result<Option<Move>> {
        // SAFETY: the arguments are numbers; no memory is accessed.
        let flags = check(unsafe { libc::fcntl(found, libc::F_GETFD) })?;
        let close_on_exec = flags & libc::FD_CLOEXEC != 0;
        if !copy_to(found, wanted, close_on_exec)? {
            return Ok(Some(Move { found, wanted, close_on_exec }));
        }
        close(found);
        Ok(None)
    }

    fn wait(self, patient: impl Fn() -> bool) -> io::Result<()> {
        let Move { found, wanted, close_on_exec } = self;
        while !copy_to(found, wanted, close_on_exec)? {
            if !patient() {
                let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
                // SAFETY: the arguments are numbers; no memory is accessed.
                check(unsafe { libc::dup3(found, wanted, flags) })?;
                break;
            }
        }
        close(found);
        Ok(())
    }
}

/// Copies a descriptor to a number, unless that is in use. Returns whether it did.
fn copy_to(found: i32, wanted: i32, cloexec: bool) -> io::Result<bool> {
    let command = if cloexec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    // Check first: if the copy lands on another number, another task may put its own file there
    // before we close it.
    if is_open(wanted) {
        return Ok(false);
    }
    // SAFETY: the arguments are numbers. F_DUPFD takes the lowest free number from `wanted` on,
    // never one in use.
    let got = check(unsafe { libc::fcntl(found, command, wanted) })?;
    if got != wanted {
        close(got);
    }
    Ok(got == wanted)
}

/// Descriptors that wait for their number are kept this many numbers below the limit.
const WAITING_ROOM: i32 = 64;
/// Highest end of that range: tables grow with their highest number.
const WAITING_ROOM_END: libc::rlim_t = 1 << 16;

/// Moves a descriptor to a number that is unlikely to be wanted by other tasks, and is not in
/// `wanted`. It stays where it is if there is none.
fn out_of_the_way(found: i32, wanted: &[i32]) -> i32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is writable and lives through the call.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let end = limit.rlim_cur.min(WAITING_ROOM_END) as i32;
    let highest = wanted.iter().copied().max().unwrap_or(0);
    let mut from = (end - WAITING_ROOM).max(highest + 1);
    if from >= end {
        from = 0;
    }
    loop {
        // SAFETY: the arguments are numbers; no memory is accessed.
        let got = unsafe { libc::fcntl(found, libc::F_DUPFD_CLOEXEC, from) };
        if got < 0 {
            return found;
        }
        if !wanted.contains(&got) {
            close(found);
            return got;
        }
        close(got);
        from = got + 1;
    }
}

/// Whether a directory currently has an entry of this name.
pub fn has_entry(dir: i32, name: &[u8]) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: all zeros are a valid stat, it is writable, and the name ends with a NUL.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstatat(dir, name.as_ptr(), &raw mut stat, libc::AT_SYMLINK_NOFOLLOW) == 0
    }
}

/// Whether a path leads to a directory that has entries. Temporarily uses a descriptor number.
pub fn has_entries(dir: i32, path: &CStr) -> bool {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the path ends with a NUL; the stream, if any, is read and closed only here.
    unsafe {
        let fd = libc::openat(dir, path.as_ptr(), flags);
        if fd < 0 {
            return false;
        }
        let stream = libc::fdopendir(fd);
        if stream.is_null() {
            close(fd);
            return false;
        }
        let name = || {
            let entry = libc::readdir(stream);
            (!entry.is_null()).then(|| CStr::from_ptr((*entry).d_name.as_ptr()))
        };
        let filled = std::iter::from_fn(name).any(|name| name != c"." && name != c"..");
        libc::closedir(stream);
        filled
    }
}

/// First enlarged size of a pipe: twice the default. The pages that bytes occupy depend on where
/// reads came between writes: what just fitted when recorded may not fit here.
const PIPE_BYTES: libc::c_int = 128 << 10;
/// Smallest size of a pipe.
const PIPE_BYTES_MIN: libc::c_int = 4096;

/// Enlarges a pipe. Returns whether it is larger now; other files are left alone.
pub fn widen(fd: i32) -> bool {
    // SAFETY: the arguments are numbers; no memory is accessed.
    let set = |bytes: libc::c_int| unsafe { libc::fcntl(fd, libc::F_SETPIPE_SZ, bytes) };
    // SAFETY: the arguments are numbers; no memory is accessed.
    let room = unsafe { libc::fcntl(fd, libc::F_GETPIPE_SZ) };
    (1..PIPE_BYTES).contains(&room)
        && [PIPE_BYTES, 2 * room].into_iter().any(|more| set(more) > room)
}

/// Doubles a pipe's size: its program may have enlarged it, and a pipe into which whole buffers
/// were moved can hold more bytes than its own pages.
fn widen_further(fd: i32) -> bool {
    // SAFETY: the arguments are numbers; no memory is accessed.
    unsafe {
        let room = libc::fcntl(fd, libc::F_GETPIPE_SZ);
        room > 0
            && room <= libc::c_int::MAX / 2
            && libc::fcntl(fd, libc::F_SETPIPE_SZ, 2 * room) > room
    }
}

/// How long a writer waits for readers before the pipe is enlarged beyond the usual size.
const PATIENCE_MS: libc::c_int = 20;

/// Waits until a full pipe accepts bytes, by enlarging it or because it was read. Returns `false`
/// if only a blocking write is left.
pub fn make_room(fd: i32) -> bool {
    if widen(fd) {
        return true;
    }
    let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one pollfd is passed.
    unsafe { libc::poll(&raw mut poll, 1, PATIENCE_MS) > 0 || widen_further(fd) }
}

/// Room of a socket, as the option has it; the kernel takes twice that, for its own part.
const SOCKET_BYTES: libc::c_int = 1 << 20;

/// Shrinks a new pipe, of which this is an end: all pipes of a user share one budget, which is left to those
/// that need it. A socket gets the room that a program may have asked for.
pub fn size_end(fd: i32) {
    // SAFETY: the arguments are numbers; no memory is accessed.
    let is_pipe = unsafe { libc::fcntl(fd, libc::F_SETPIPE_SZ, PIPE_BYTES_MIN) } != -1;
    if !is_pipe {
        let room = SOCKET_BYTES;
        let (at, len) = ((&raw const room).cast(), size_of_val(&room) as libc::socklen_t);
        // SAFETY: the option is read from a variable of that length.
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, at, len) };
    }
}

/// Puts a placeholder at a number.
pub fn place(fd: i32, close_on_exec: bool, patient: impl Fn() -> bool) -> io::Result<()> {
    let cloexec = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: the path is a NUL-terminated constant.
    let found = check(unsafe { libc::open(NOTHING.as_ptr(), libc::O_PATH | cloexec) })?;
    move_to(found, fd, patient)
}

/// Closes every number that is not in `keep`, which must be sorted.
pub fn close_others(keep: &[i32]) {
    let mut from = 0u32;
    let close = |first: u32, last: u32| {
        // SAFETY: all descriptors of a task belong to the replayed program, none to Rust objects.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    };
    for &fd in keep {
        let Ok(fd) = u32::try_from(fd) else { continue };
        if fd > from {
            close(from, fd - 1);
        }
        from = fd + 1;
    }
    close(from, u32::MAX);
}

/// Moves the offset of an open file.
pub fn seek(fd: i32, by: i64, whence: i32) {
    // SAFETY: the arguments are numbers; no memory is accessed.
    unsafe { libc::lseek(fd, by, whence) };
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn two_that_stand_on_each_others_numbers_change_places() {
        const NUMBERS: [i32; 2] = [700, 701];
        let identity = |fd: i32| {
            // SAFETY: all zeros are a valid stat, and it is writable.
            unsafe {
                let mut stat: libc::stat = std::mem::zeroed();
                assert_eq!(libc::fstat(fd, &raw mut stat), 0);
                (stat.st_dev, stat.st_ino)
            }
        };
        for _ in 0..200 {
            for (number, path) in NUMBERS.iter().zip([c"/", c"/dev"]) {
                // SAFETY: the path is a NUL-terminated constant; the rest are numbers.
                unsafe {
                    let fd = libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
                    assert!(fd >= 0 && libc::dup3(fd, *number, libc::O_CLOEXEC) == *number);
                    libc::close(fd);
                }
            }
            let before = NUMBERS.map(identity);
            let start = Barrier::new(2);
            std::thread::scope(|scope| {
                for [found, wanted] in [NUMBERS, [NUMBERS[1], NUMBERS[0]]] {
                    let start = &start;
                    scope.spawn(move || {
                        start.wait();
                        move_to(found, wanted, || true).unwrap();
                    });
                }
            });
            assert_eq!([before[1], before[0]], NUMBERS.map(identity));
        }
        NUMBERS.into_iter().for_each(close);
    }

    #[test]
    fn what_is_put_at_a_number_stays_there_while_others_try_theirs() {
        // In use all the time, so that its waiter retries again and again.
        const TAKEN: i32 = 710;
        // The number that a copy without a prior check would get.
        const WANTED: i32 = 711;
        const ROUNDS: u32 = 20_000;
        let nothing = || {
            // SAFETY: the path is a NUL-terminated constant.
            let fd = unsafe { libc::open(NOTHING.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
            check(fd).unwrap()
        };
        move_to(nothing(), TAKEN, || false).unwrap();
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let left = Cell::new(ROUNDS);
                let found = nothing();
                start.wait();
                move_to(found, TAKEN, || {
                    left.set(left.get() - 1);
                    left.get() > 0
                })
                .unwrap();
            });
            start.wait();
            for _ in 0..ROUNDS {
                move_to(nothing(), WANTED, || false).unwrap();
                assert!(is_open(WANTED));
                close(WANTED);
            }
        });
        close(TAKEN);
    }

    #[test]
    fn who_waits_for_one_number_stands_on_none() {
        const FOUND: [i32; 2] = [720, 721];
        const WANTED: [i32; 2] = [722, 723];
        for number in FOUND.into_iter().chain(WANTED) {
            place(number, true, || false).unwrap();
        }
        let looks = Cell::new(0);
        let pairs = [(FOUND[1], WANTED[1]), (FOUND[0], WANTED[0])];
        move_all(&pairs, || {
            assert!(!FOUND.into_iter().any(is_open));
            WANTED.into_iter().for_each(close);
            looks.set(looks.get() + 1);
            true
        })
        .unwrap();
        assert_eq!(looks.get(), 1);
        assert!(WANTED.into_iter().all(is_open));
        WANTED.into_iter().for_each(close);
    }
}
