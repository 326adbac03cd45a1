//! Writes calls of the reference kernel into a recording, as the recorder does.

use syscalls::record::RESULT;
use trace::event::{Call, Content, Data, EventKind, Identity, StartHow};
use twox_hash::XxHash3_128;

use super::history::{Begins, Recorded};
use super::kernel::{Done, Op};
use crate::image::tests::recording::{Recording, stat, stat_bytes};

const AT_FDCWD: u64 = -100i64 as u64;
const REGULAR: u32 = 0o100_644;
const THREAD: i32 = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_THREAD;

/// What a call says of a file.
pub fn identity(file: (usize, u64)) -> Identity {
    Identity { size: file.1, ..stat(1, file.0 as u64 + 10, REGULAR) }
}

/// The bytes that a call puts out.
pub fn output(op: &Op, done: &Done) -> Vec<u8> {
    match (op, done.file) {
        (Op::StatFd { .. } | Op::StatPath { .. }, Some(file)) => {
            stat_bytes(identity(file)).to_vec()
        }
        _ => done.out.clone(),
    }
}

/// Adds a call.
pub fn record(to: &mut Recording, recorded: &Recorded) {
    let Recorded { op, done, begin, end, .. } = recorded;
    let ret = done.ret;
    let out = output(op, done);
    let text = |path: &String| [path.as_bytes(), b"\0"].concat();
    to.by(recorded.thread);
    let some = |bytes: &'_ [u8]| !bytes.is_empty();
    match op {
        Op::Open { path, flags } => {
            let call = to.call("openat", &[AT_FDCWD, 1, *flags, 0o644], &[(1, &text(path))], ret);
            identify(call, recorded);
        }
        Op::Close { fd } => to.numbers("close", &[word(*fd)], ret),
        Op::Read { fd, len, at } => {
            let (name, args) = match at {
                Some(at) => ("pread64", vec![word(*fd), 1, *len as u64, *at]),
                None => ("read", vec![word(*fd), 1, *len as u64]),
            };
            let data = [(1, &out[..])];
            let call = to.call(name, &args, if some(&out) { &data } else { &[] }, ret);
            if recorded.by_hash {
                call.data.iter_mut().for_each(keep_hash);
            }
        }
        Op::Write { fd, bytes, at } => {
            let (name, args) = match at {
                Some(at) => ("pwrite64", vec![word(*fd), 1, bytes.len() as u64, *at]),
                None => ("write", vec![word(*fd), 1, bytes.len() as u64]),
            };
            to.call(name, &args, &[(1, bytes)], ret);
        }
        Op::Seek { fd, by, whence } => {
            to.numbers("lseek", &[word(*fd), *by as u64, *whence as u64], ret);
        }
        Op::StatFd { fd } => {
            let data = [(1, &out[..])];
            to.call("fstat", &[word(*fd), 1], if some(&out) { &data } else { &[] }, ret);
        }
        Op::StatPath { path } => {
            let (path, mut data) = (text(path), Vec::new());
            data.push((0, &path[..]));
            data.extend(some(&out).then_some((1, &out[..])));
            to.call("stat", &[1, 1], &data, ret);
        }
        Op::CutFd { fd, len } => to.numbers("ftruncate", &[word(*fd), *len], ret),
        Op::CutPath { path, len } => {
            to.call("truncate", &[1, *len], &[(0, &text(path))], ret);
        }
        Op::Dup { fd } => to.numbers("dup", &[word(*fd)], ret),
        Op::DupTo { fd, to: new } => to.numbers("dup2", &[word(*fd), word(*new)], ret),
        Op::MakeDirectory { path } => {
            to.call("mkdir", &[1, 0o755], &[(0, &text(path))], ret);
        }
        Op::RemoveDirectory { path } => to.paths("rmdir", &[path], ret),
        Op::Remove { path } => to.paths("unlink", &[path], ret),
        Op::Rename { from, to: new } => to.paths("rename", &[from, new], ret),
        Op::HardLink { from, to: new } => to.paths("link", &[from, new], ret),
        Op::Link { target, path } => to.paths("symlink", &[target, path], ret),
        Op::ReadLink { path } => {
            let (path, mut data) = (text(path), Vec::new());
            data.push((0, &path[..]));
            data.extend(some(&out).then_some((1, &out[..])));
            to.call("readlink", &[1, 1, 4096], &data, ret);
        }
        Op::Pipe => {
            to.call("pipe2", &[1, 0], &[(0, &out)], ret);
        }
        Op::Lock { fd, how } => to.numbers("flock", &[word(*fd), *how], ret),
        Op::Fork => to.numbers("fork", &[], ret),
        Op::Thread => to.numbers("clone", &[THREAD as u64], ret),
    }
    to.lasting(*begin, *end);
    if let Some(Begins { thread, at, .. }) = recorded.begins {
        to.child(thread, at);
        if *op == Op::Thread
            && let EventKind::Start { how, process, pid, .. } = &mut to.last().kind
        {
            let of = recorded.process;
            (*how, *process, *pid) = (StartHow::Thread, of, 100 + of);
        }
    }
}

fn word(fd: i32) -> u64 {
    fd as u64
}

/// Only a hash of the bytes is in the trace.
fn keep_hash(data: &mut Data) {
    if let Content::Inline(bytes) = &mut data.content {
        data.hash = Some(XxHash3_128::oneshot(bytes));
        bytes.clear();
    }
}

/// What the recorder saw of the file before and after the call.
fn identify(call: &mut Call, recorded: &Recorded) {
    const PATH: u8 = 1;
    call.identities.extend(recorded.seen_before.map(|file| (PATH, identity(file))));
    if recorded.seen_before.is_none() && recorded.done.ret >= 0 {
        call.identities.extend(recorded.done.file.map(|file| (RESULT, identity(file))));
    }
}
