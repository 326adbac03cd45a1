//! The bytes that a call has written.

use model::Contents;
use model::contents::is_out;
use syscalls::capture::How;
use syscalls::record::part;
use syscalls::{Act, Syscall};
use trace::event::Call;

/// Maximum number of bytes that are taken of one buffer at a time.
const TAKEN_MAX: usize = 1 << 31;

/// Passes the first `left` bytes that went into a call to `take`, buffer by buffer. Returns how many the
/// trace does not have: the kernel moved them without the program.
pub(crate) fn each_sent(
    call: &Call,
    row: Option<&Syscall>,
    mut left: u64,
    contents: &mut dyn Contents,
    take: &mut dyn FnMut(&[u8]) -> Result<(), String>,
) -> Result<u64, String> {
    // What goes in there is where to copy from.
    if row.is_none_or(|row| row.act_of(&call.args) == Act::Copy) {
        return Ok(left);
    }
    let (capture, _) = syscalls::capture::row(call.nr.into(), &call.args);
    let is_vector = |arg| {
        let ops = &capture.ops[..usize::from(capture.nops)];
        ops.iter().any(|op| op.arg == arg && op.how != How::Bytes)
    };
    for data in call.data.iter().filter(|data| !is_out(data)) {
        let wanted = if is_vector(data.arg) { part::CONTENT } else { part::WHOLE };
        if data.part == wanted && left > 0 {
            let max = usize::try_from(left).unwrap_or(usize::MAX).min(TAKEN_MAX);
            let bytes = contents.read(&data.content, max)?;
            left -= bytes.len() as u64;
            take(&bytes)?;
        }
    }
    Ok(left)
}
