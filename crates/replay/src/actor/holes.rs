//! Where files have holes: file systems keep track of them as finely as they like, and files of an
//! image have zeros where nobody saw what there was.

use events::Kind;

use super::{Made, seek};
use crate::batch::Call;

/// Whether a call looks for the next hole of a file, or for what is behind it.
pub fn are_asked_for(call: &Call) -> bool {
    const PLACES: [u64; 2] = [libc::SEEK_DATA as u64, libc::SEEK_HOLE as u64];
    call.ret_kind == events::Ret::Offset
        && call.ret >= 0
        && call.args.iter().zip(call.values).any(|(arg, value)| {
            matches!(arg.kind, Kind::Enum(set) if std::ptr::eq(set, &raw const events::flags::SEEK))
                && PLACES.contains(&value)
        })
}

/// Takes another place for what nobody can tell, and goes on from where the program went on. (That there
/// is none is taken as recorded.)
pub fn excuse(call: &Call, result: Made) -> Made {
    match result {
        Made::Return(found) if found >= 0 || -found == i64::from(libc::ENXIO) => {
            seek(call, call.ret, libc::SEEK_SET);
            Made::Unknown
        }
        result => result,
    }
}
