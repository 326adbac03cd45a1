//! Programs that gain privileges when they start: setuid, setgid, file capabilities. They would
//! lose them if the exec were traced. And those that are not there.

use linux_raw_sys::general as raw;
use linux_raw_sys::prctl;
use syscalls::Handler;
use syscalls::abi::errno;
use syscalls::record::unfollowed;

use crate::call::Call;
use crate::context::Context;
use crate::needs::Need;
use crate::{course, memory, sys};

const CAPABILITIES: &core::ffi::CStr = c"security.capability";
const PATH_MAX: usize = 4096;

/// Returns why the program of this exec is not to be followed: it gains privileges, or is not there.
pub fn unfollowed(context: &Context, call: &Call) -> Option<u64> {
    let args = call.args;
    let (dir, path, flags) = if call.row.handler == Handler::ExecAt {
        (args[0], args[1], args[4])
    } else {
        (raw::AT_FDCWD as u64, args[0], 0)
    };
    // SAFETY: `stat` consists of integers, for which zero is a valid value.
    let mut stat: raw::stat = unsafe { core::mem::zeroed() };
    let at = &raw mut stat as u64;
    let found = sys::call(Need::StatPath, [dir, path, at, flags, 0, 0]);
    if found != 0 {
        // Who looks for a program along a path fails this way more often than not: nobody needs to wait for the
        // supervisor. Should it appear by the time of the call, it runs unrecorded, and the trace says so.
        let is_missing = matches!(errno::of_result(found), Some(errno::ENOENT | errno::ENOTDIR));
        return (is_missing && !course::is_answered()).then_some(unfollowed::APPEARED);
    }
    let euid = sys::call(Need::EffectiveUser, [0; 6]) as u32;
    let egid = sys::call(Need::EffectiveGroup, [0; 6]) as u32;
    let gains = stat.st_mode & raw::S_ISUID != 0 && stat.st_uid != euid
        || stat.st_mode & raw::S_ISGID != 0 && stat.st_gid != egid
        || euid != 0 && has_capabilities(context, dir, path);
    let op = u64::from(prctl::PR_GET_NO_NEW_PRIVS);
    (gains && sys::call(Need::GainsNoRights, [op, 0, 0, 0, 0, 0]) != 1)
        .then_some(unfollowed::GAINS_RIGHTS)
}

fn has_capabilities(context: &Context, dir: u64, path: u64) -> bool {
    let name = CAPABILITIES.as_ptr() as u64;
    let first = memory::read::<u8>(context, path);
    if dir as u32 == raw::AT_FDCWD as u32 || first == Some(b'/') {
        return sys::call(Need::Xattr, [path, name, 0, 0, 0, 0]) > 0;
    }
    // Not all supported kernels have getxattrat.
    let mut whole = [0u8; PATH_MAX];
    if path_from(context, dir as u32, path, &mut whole).is_none() {
        return false;
    }
    sys::call(Need::Xattr, [whole.as_ptr() as u64, name, 0, 0, 0, 0]) > 0
}

/// Builds `/proc/self/fd/DIR/PATH`, without PATH if that is empty.
fn path_from(context: &Context, dir: u32, path: u64, to: &mut [u8; PATH_MAX]) -> Option<()> {
    const FOLDER: &[u8] = b"/proc/self/fd/";
    let mut len = 0;
    for &byte in FOLDER.iter().chain(sys::decimal(dir, &mut [0; 10])) {
        to[len] = byte;
        len += 1;
    }
    let path_len = memory::string_len(context, path, PATH_MAX as u64)? as usize;
    if path_len == 0 {
        return Some(());
    }
    to[len] = b'/';
    len += 1;
    // Leave a zero byte at the end.
    let room = to.get_mut(len..len + path_len + 1)?;
    // SAFETY: `room` has more than `path_len` bytes.
    let missing = unsafe { memory::copy(context, room.as_mut_ptr(), path, path_len as u64) };
    (missing == 0).then_some(())
}
