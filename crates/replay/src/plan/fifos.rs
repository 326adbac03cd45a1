//! Names of FIFOs. An open of one waits for an open of the other side, so neither may wait until the other
//! has returned: that it could have made the name, as other opens with O_CREAT, is no reason.

use syscalls::abi::files::{S_IFIFO, S_IFMT};
use syscalls::record::RESULT;
use syscalls::{Act, ArgKind};
use trace::event::Call;

use super::Planner;
use crate::treatment::Said;

impl Planner<'_> {
    /// Notes what a call that succeeded tells of what these absolute paths stand for.
    pub(super) fn learn_fifos(&mut self, said: &Said, call: &Call, paths: &[(u8, Vec<u8>)]) {
        let Some((_, last)) = paths.last() else { return };
        for (arg, identity) in &call.identities {
            let named = paths.iter().find(|(of, _)| of == arg).map(|(_, path)| path);
            if let Some(path) = if *arg == RESULT { Some(last) } else { named } {
                self.judge.types.told(path, is_fifo(identity.mode));
            }
        }
        if said.act == Act::MakeNode {
            let mut args = said.args.iter().zip(call.args);
            let mode = args.find(|(arg, _)| matches!(arg.kind, ArgKind::Mode));
            self.judge.types.told(last, mode.is_some_and(|(_, mode)| is_fifo(mode as u32)));
        }
    }
}

const fn is_fifo(mode: u32) -> bool {
    mode & S_IFMT == S_IFIFO
}
