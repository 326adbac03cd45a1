//! State of a process when its program starts, and descriptors that calls return in memory.

use std::ffi::CString;
use std::sync::Arc;

use model::decode::message;
use model::realm;
use syscalls::record::part;
use syscalls::shape::{ArgKind, Of};
use trace::event::OpenFd;

use crate::batch::{Batch, Beginning, Call};
use crate::descriptors;
use crate::execute::{self, Region};
use crate::limits;
use crate::shared::Shared;

/// Open flags that concern the use of a file, not its creation.
const USE_FLAGS: u32 = (libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_DSYNC
    | libc::O_SYNC
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_CLOEXEC
    | libc::O_PATH
    | libc::O_NOATIME) as u32;

/// Restores the state that the recorder saw: descriptors that were not inherited are opened, or
/// held by placeholders. The first program also gets its directory, umask and limits.
pub fn become_process(shared: &Arc<Shared>, beginning: &Beginning) {
    let state = &beginning.state;
    if beginning.first {
        if let Ok(path) = CString::new(&state.cwd[..]) {
            // SAFETY: the path ends with a NUL.
            unsafe { libc::chdir(path.as_ptr()) };
        }
        // SAFETY: the argument is a number; umask cannot fail.
        unsafe { libc::umask(state.umask as libc::mode_t & 0o777) };
        take_limits(&state.limits);
    }
    if state.fds_left_out == 0 && !beginning.first {
        let keep: Vec<i32> = state.fds.iter().map(|open| open.fd).collect();
        if keep.is_sorted() {
            descriptors::close_others(&keep);
        }
    }
    for (at, open) in state.fds.iter().enumerate() {
        if open.fd < 0 || descriptors::is_open(open.fd) {
            continue;
        }
        let same = state.fds[..at].iter().find(|other| is_same_file(other, open));
        if !same.is_some_and(|other| duplicate(other.fd, open)) && !reopen(open) {
            let cloexec = open.flags & libc::O_CLOEXEC as u32 != 0;
            let _ = descriptors::place(open.fd, cloexec, || false);
        }
    }
    if shared.options.privileged && beginning.first {
        become_user(state);
    }
}

/// Creates the node of a socket that is bound to a path.
pub fn make_socket(path: &[u8]) {
    let Ok(path) = CString::new(path) else { return };
    // SAFETY: the path ends with a NUL. (The umask applies as it did to the socket.)
    unsafe { libc::mknod(path.as_ptr(), libc::S_IFSOCK | 0o777, 0) };
}

/// Creates a directory with exactly this mode.
pub fn make_directory(path: &[u8], mode: u32) {
    let Ok(path) = CString::new(path) else { return };
    // SAFETY: the path ends with a NUL.
    unsafe {
        libc::mkdir(path.as_ptr(), mode);
        libc::chmod(path.as_ptr(), mode);
    }
}

/// Sets the limits that concern files.
fn take_limits(all: &[(u64, u64)]) {
    for resource in [libc::RLIMIT_FSIZE, libc::RLIMIT_NOFILE] {
        if let Some(&(soft, hard)) = all.get(resource as usize) {
            limits::take(resource, soft, hard);
        }
    }
}

/// Sets user and group ids, for this task only.
fn become_user(state: &trace::event::ProcessState) {
    let ([ruid, euid, suid, fsuid], [rgid, egid, sgid, fsgid]) = (state.uids, state.gids);
    // SAFETY: the group array is passed with its length; the rest are numbers. Raw system calls
    // change this task only.
    unsafe {
        libc::syscall(libc::SYS_setgroups, state.groups.len(), state.groups.as_ptr());
        libc::syscall(libc::SYS_setresgid, rgid, egid, sgid);
        libc::syscall(libc::SYS_setfsgid, fsgid);
        libc::syscall(libc::SYS_setresuid, ruid, euid, suid);
        libc::syscall(libc::SYS_setfsuid, fsuid);
    }
}

/// Whether two descriptors most likely share one open file.
fn is_same_file(a: &OpenFd, b: &OpenFd) -> bool {
    let apart = libc::O_CLOEXEC as u32;
    a.target == b.target && a.offset == b.offset && (a.flags ^ b.flags) & !apart == 0
}

fn duplicate(from: i32, open: &OpenFd) -> bool {
    let cloexec = open.flags as i32 & libc::O_CLOEXEC;
    // SAFETY: the arguments are numbers; no memory is accessed.
    unsafe { libc::dup3(from, open.fd, cloexec) >= 0 }
}

/// Opens a file where the recorded process had it open.
fn reopen(open: &OpenFd) -> bool {
    if open.target.first() != Some(&b'/')
        || open.target.ends_with(b" (deleted)")
        || !realm::is_real(&open.target)
    {
        return false;
    }
    let Ok(path) = CString::new(&open.target[..]) else { return false };
    let flags = (open.flags & USE_FLAGS) as i32;
    // SAFETY: the path ends with a NUL.
    let found = unsafe { libc::open(path.as_ptr(), flags) };
    if found < 0 || descriptors::move_to(found, open.fd, || false).is_err() {
        return false;
    }
    if let Ok(offset) = libc::off_t::try_from(open.offset) {
        // SAFETY: the arguments are numbers. (Fails for files that cannot seek.)
        unsafe { libc::lseek(open.fd, offset, libc::SEEK_SET) };
    }
    true
}

/// Returns pairs of actual and recorded descriptors that a call returned in memory.
pub fn given_descriptors(batch: &Batch, call: &Call, regions: &[Region]) -> Vec<(i32, i32)> {
    let mut pairs = Vec::new();
    for (number, arg) in call.args.iter().enumerate() {
        let ArgKind::Buf(_, of, _) = arg.kind else { continue };
        let which = match of {
            Of::Fds => part::WHOLE,
            Of::Msghdr | Of::Mmsghdr => part::CONTROL,
            _ => continue,
        };
        for piece in execute::pieces(batch, call, number, which, true) {
            let same = |r: &&Region| {
                usize::from(r.arg) == number && r.part == which && r.index == piece.index
            };
            let Some(region) = regions.iter().find(same) else { continue };
            let Some(recorded) = batch.one_stretch(piece) else { continue };
            let found = region.bytes();
            let found = &found[..found.len().min(recorded.len())];
            let numbers = |bytes: &[u8]| match of {
                Of::Fds => bytes
                    .chunks_exact(4)
                    .map(|word| word.first_chunk().map_or(-1, |b| i32::from_le_bytes(*b)))
                    .collect(),
                _ => message::passed_descriptors(bytes),
            };
            let all: Vec<i32> = numbers(found);
            pairs.extend(all.into_iter().zip(numbers(recorded)));
        }
    }
    pairs.retain(|(found, wanted)| *found >= 0 && *wanted >= 0);
    pairs
}
