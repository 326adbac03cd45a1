//! Holes in files: file systems track them with different granularity, and files of an image have
//! zeros where the recorded bytes are unknown.

use syscalls::ArgKind;

use crate::batch::Call;
use crate::descriptors::seek;
use crate::made::Made;

/// Whether a call seeks the next hole or data of a file.
pub fn are_asked_for(call: &Call) -> bool {
    const PLACES: [u64; 2] = [libc::SEEK_DATA as u64, libc::SEEK_HOLE as u64];
    call.ret_kind == syscalls::Ret::Offset
        && call.ret >= 0
        && call.args.iter().zip(call.values).any(|(arg, value)| {
            matches!(arg.kind, ArgKind::Enum(set) if std::ptr::eq(set, &raw const syscalls::flags::SEEK))
                && PLACES.contains(&value)
        })
}

/// Ignores another position, which proves nothing, and seeks to the recorded one. (A recorded ENXIO
/// is simulated, as the error depends on the machine.)
pub fn excuse(call: &Call, result: Made) -> Made {
    match result {
        Made::Return(found) if found >= 0 || -found == i64::from(libc::ENXIO) => {
            seek(call.values[0] as i32, call.ret, libc::SEEK_SET);
            Made::Unknown
        }
        result => result,
    }
}
