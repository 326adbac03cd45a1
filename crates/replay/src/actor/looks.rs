//! What is seen of a call and its descriptors before it is made.

use syscalls::shape::operand;
use syscalls::{Act, ArgKind, Operand, Ret};

use crate::batch::Call;

/// Whether a call uses and advances the own offset of the file in its first argument.
pub(super) fn moves_offset(call: &Call) -> bool {
    let is_side = |wanted| operand(call.args, wanted) == Some(0);
    let has_place = |wanted| operand(call.args, wanted).is_some();
    match call.act {
        _ if call.ret_kind != Ret::Size => false,
        Act::List | Act::GivePages => true,
        Act::Copy | Act::Tee => false,
        _ => {
            (is_side(Operand::Source) || is_side(Operand::Target))
                && !has_place(Operand::SourceAt)
                && !has_place(Operand::TargetAt)
        }
    }
}

/// Whether an O_DIRECT transfer failed because of its alignment.
pub(super) fn asks_for_alignment(call: &Call) -> bool {
    call.ret == -i64::from(libc::EINVAL)
        && call.ret_kind == Ret::Size
        && call.args.first().is_some_and(|arg| matches!(arg.kind, ArgKind::Fd))
        // SAFETY: the arguments are numbers; no memory is accessed.
        && unsafe { libc::fcntl(call.values[0] as i32, libc::F_GETFL) } & libc::O_DIRECT != 0
}

pub(super) fn is_directory(fd: i32) -> bool {
    mode_of(fd) == libc::S_IFDIR
}

/// Returns the type of an open file.
pub(super) fn mode_of(fd: i32) -> u32 {
    // SAFETY: all zeros are a valid stat, and it is writable for fstat.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut stat);
        stat.st_mode & libc::S_IFMT
    }
}
