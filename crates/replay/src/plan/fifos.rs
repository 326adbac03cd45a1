//! Names of FIFOs. An open of one waits for an open of the other side, so neither may wait until the other
//! has returned: that it could have made the name, as other opens with O_CREAT, is no reason.

use std::collections::HashSet;

use syscalls::abi::files::{S_IFIFO, S_IFMT};
use syscalls::record::RESULT;
use syscalls::{Act, ArgKind};
use trace::event::Call;

use crate::resource::hash_of;
use crate::treatment::{Said, exchanges};

/// Number of names kept.
const FIFOS_MAX: usize = 1 << 16;

/// Hashes of the names that stand for FIFOs.
#[derive(Default)]
pub struct Fifos(HashSet<u64>);

impl Fifos {
    /// Whether a name stands for one.
    pub fn has(&self, name: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains(&hash_of(name))
    }

    /// Notes what a call that succeeded tells of these absolute paths.
    pub fn learn(&mut self, said: &Said, call: &Call, paths: &[(u8, Vec<u8>)]) {
        let (Some((_, first)), Some((_, last))) = (paths.first(), paths.last()) else { return };
        for (arg, identity) in &call.identities {
            let named = paths.iter().find(|(of, _)| of == arg).map(|(_, path)| path);
            let path = if *arg == RESULT { Some(last) } else { named };
            path.into_iter().for_each(|path| self.set(path, is_fifo(identity.mode)));
        }
        match said.act {
            Act::MakeNode => {
                let mut args = said.args.iter().zip(call.args);
                let mode = args.find(|(arg, _)| matches!(arg.kind, ArgKind::Mode));
                self.set(last, mode.is_some_and(|(_, mode)| is_fifo(mode as u32)));
            }
            Act::Remove => self.set(first, false),
            Act::Rename => {
                let (from, to) = (self.has(first), self.has(last));
                self.set(first, exchanges(said, call) && to);
                self.set(last, from);
            }
            Act::HardLink => self.set(last, self.has(first)),
            _ => {}
        }
    }

    fn set(&mut self, name: &[u8], is_one: bool) {
        match is_one {
            true if self.0.len() < FIFOS_MAX => _ = self.0.insert(hash_of(name)),
            _ if self.0.is_empty() => {}
            _ => _ = self.0.remove(&hash_of(name)),
        }
    }
}

const fn is_fifo(mode: u32) -> bool {
    mode & S_IFMT == S_IFIFO
}
