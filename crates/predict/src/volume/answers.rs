//! How the kernel is answered: what it is told of what was found or done.

use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, Generation, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite,
    ReplyXattr, TimeOrNow,
};
use rustix::fs::{Timespec, UTIME_NOW, UTIME_OMIT};

/// How long the kernel may rely on names and attributes: as long as an NFS client does at least.
pub const RELIED: Duration = Duration::from_secs(3);

/// What a request comes to.
pub type Result<T> = std::result::Result<T, Errno>;

/// Turns an error of a call into one of FUSE.
pub fn failed(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

/// What setattr asks for.
pub struct Change {
    /// Permissions.
    pub mode: Option<u32>,
    /// User.
    pub owner: Option<u32>,
    /// Group.
    pub group: Option<u32>,
    /// Length.
    pub size: Option<u64>,
    /// Time of the last access.
    pub accessed: Option<TimeOrNow>,
    /// Time of the last change.
    pub modified: Option<TimeOrNow>,
}

/// Returns a time as utimensat takes it.
pub fn time(wanted: Option<TimeOrNow>) -> Timespec {
    match wanted {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Timespec {
                tv_sec: since.as_secs() as i64,
                tv_nsec: i64::from(since.subsec_nanos()),
            },
            Err(before) => {
                // Nanoseconds count upwards before 1970 as well.
                let before = before.duration();
                let part = before.subsec_nanos();
                let (borrow, ns) = if part == 0 { (0, 0) } else { (1, 1_000_000_000 - part) };
                Timespec { tv_sec: -(before.as_secs() as i64) - borrow, tv_nsec: i64::from(ns) }
            }
        },
    }
}

/// Tells the kernel about a name, or why there is none.
pub fn entry(reply: ReplyEntry) -> impl FnOnce(Result<FileAttr>) {
    move |found| match found {
        Ok(attributes) => reply.entry(&RELIED, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

/// Tells attributes.
pub fn attributes(reply: ReplyAttr) -> impl FnOnce(Result<FileAttr>) {
    move |found| match found {
        Ok(attributes) => reply.attr(&RELIED, &attributes),
        Err(error) => reply.error(error),
    }
}

/// Tells that it was done.
pub fn empty(reply: ReplyEmpty) -> impl FnOnce(Result<()>) {
    move |done| match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

/// Tells bytes.
pub fn bytes(reply: ReplyData) -> impl FnOnce(Result<Vec<u8>>) {
    move |read| match read {
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(error),
    }
}

/// Tells how many bytes were written.
pub fn written(reply: ReplyWrite) -> impl FnOnce(Result<u32>) {
    move |done| match done {
        Ok(bytes) => reply.written(bytes),
        Err(error) => reply.error(error),
    }
}

/// Tells the value of an extended attribute, or its length where there is no room.
pub fn attribute(reply: ReplyXattr, room: u32) -> impl FnOnce(Result<Vec<u8>>) {
    move |read| match read {
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > room as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(error),
    }
}

/// Reads what a call says in as many bytes as it needs.
pub fn whole(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; 64 << 10];
    let len = read(&mut bytes[..]).map_err(failed)?;
    bytes.truncate(len);
    Ok(bytes)
}
