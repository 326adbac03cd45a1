//! Mismatches that prove nothing.

use syscalls::Ret;

use super::Actor;
use super::looks::moves_offset;
use crate::batch::{Action, Call, Placed};
use crate::certainty::Excuse;
use crate::descriptors::seek;
use crate::made::Made;

impl Actor<'_> {
    /// Excuses a mismatch that proves nothing, and sets the file's offset to where the recorded
    /// call left it.
    pub(super) fn excuse(
        &mut self,
        action: &Action,
        call: &Call,
        made: Made,
        excuse: Excuse,
    ) -> Made {
        let ret = match made {
            Made::Return(ret) => ret.max(0),
            _ => call.ret,
        };
        if call.ret_kind == Ret::Offset {
            seek(call.values[0] as i32, call.ret, libc::SEEK_SET);
        } else if moves_offset(call) {
            seek(call.values[0] as i32, call.ret.max(0) - ret, libc::SEEK_CUR);
        }
        let is_missing = matches!(made, Made::Return(ret) if ret < 0) && call.ret >= 0;
        if call.ret_kind == Ret::Fd && is_missing {
            // Reserve its number all the same.
            let fd = call.ret as i32;
            self.place(action, Placed { fd, close_on_exec: false });
        }
        self.excused(made, excuse)
    }

    /// Counts a mismatch that proves nothing.
    pub(super) fn excused(&self, made: Made, excuse: Excuse) -> Made {
        match excuse {
            Excuse::Unseen => {
                self.lane.counts.unseen.add(1);
                Made::Unseen(Box::new(made))
            }
            Excuse::Raced => {
                self.lane.counts.raced.add(1);
                Made::Raced(Box::new(made))
            }
        }
    }
}
