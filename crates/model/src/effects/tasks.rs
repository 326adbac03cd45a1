//! Effects of calls on process groups, sessions and credentials.

use syscalls::abi::tasks::CLONE_NEWUSER;
use syscalls::record::part;
use syscalls::shape::operand;
use syscalls::{Act, Operand};

use super::Look;
use crate::contents::piece;
use crate::step::{Effect, Step};
use crate::world::{CredentialsChange, IdChange, TiesChange, given};

/// Limit for supplementary groups; the kernel has the same.
const GROUPS_MAX: usize = 65_536;

impl Look<'_> {
    fn number(&self, wanted: Operand) -> Option<u64> {
        Some(self.call.args[usize::from(operand(self.shape.args, wanted)?)])
    }

    /// Returns the id that the call stored behind an argument.
    fn stored(&mut self, wanted: Operand) -> Option<u32> {
        let data = piece(&self.call.data, operand(self.shape.args, wanted)?, part::WHOLE, 0, true)?;
        let bytes = self.contents.read(&data.content, size_of::<u32>()).ok()?;
        Some(u32::from_le_bytes(*bytes.first_chunk()?))
    }

    /// Adds what the call does to the ties between processes, or says about them.
    pub(super) fn ties(&self, ret: i64, step: &mut Step) {
        let of = self.number(Operand::Process).unwrap_or(0) as u32;
        let told = ret as u32;
        let change = match self.shape.act {
            Act::SetProcessGroup => {
                let own = self.world.ids(self.thread).map(|(pid, _)| pid);
                let leader = Some(of).filter(|of| *of != 0).or(own);
                let group = self.number(Operand::ProcessGroup).unwrap_or(0) as u32;
                let Some(group) = Some(group).filter(|group| *group != 0).or(leader) else {
                    return;
                };
                TiesChange::Group { of, group }
            }
            Act::TellProcessGroup => TiesChange::Group { of, group: told },
            Act::StartSession => TiesChange::NewSession { id: told },
            Act::TellSession => TiesChange::Session { of, session: told },
            _ => TiesChange::Parent { id: told },
        };
        step.at_exit.push(Effect::Ties(change));
    }

    /// Adds what the call does to user and group ids, or says about them.
    pub(super) fn credentials(&mut self, ret: i64, step: &mut Step) {
        let set = |wanted| self.number(wanted).and_then(given);
        let (real, effective) = (set(Operand::RealId), set(Operand::EffectiveId));
        let told = Some(ret as u32);
        let (of, change) = match self.shape.act {
            Act::TakeId(of) => match effective {
                Some(id) => (of, IdChange::Take(id)),
                None => return,
            },
            Act::SetIds(of) => match operand(self.shape.args, Operand::SavedId) {
                Some(_) => {
                    let saved = set(Operand::SavedId);
                    (of, IdChange::SetEach { real, effective, saved })
                }
                None => (of, IdChange::Set { real, effective }),
            },
            Act::SetFileId(of) => {
                (of, IdChange::File { id: set(Operand::FileId), former: ret as u32 })
            }
            Act::TellRealId(of) => {
                (of, IdChange::Told { real: told, effective: None, saved: None })
            }
            Act::TellEffectiveId(of) => {
                (of, IdChange::Told { real: None, effective: told, saved: None })
            }
            Act::TellIds(of) => {
                let [real, effective, saved] =
                    [Operand::RealId, Operand::EffectiveId, Operand::SavedId]
                        .map(|id| self.stored(id));
                (of, IdChange::Told { real, effective, saved })
            }
            _ => return self.groups(step),
        };
        step.at_exit.push(Effect::Credentials(CredentialsChange::Ids(of, change)));
    }

    fn groups(&mut self, step: &mut Step) {
        let Some(list) = operand(self.shape.args, Operand::Groups) else { return };
        let data = piece(&self.call.data, list, part::WHOLE, 0, false);
        let mut read = |data: &trace::event::Data| {
            let bytes = self.contents.read(&data.content, GROUPS_MAX * size_of::<u32>()).ok()?;
            let ids = bytes.chunks_exact(size_of::<u32>());
            Some(ids.map(|id| u32::from_le_bytes(id.try_into().expect("chunks of 4"))).collect())
        };
        // An empty list has no memory.
        let groups = match data {
            Some(data) => read(data),
            None => (self.call.args[0] == 0).then(Vec::new),
        };
        step.at_exit.push(Effect::Credentials(CredentialsChange::Groups(groups)));
    }

    /// Returns true if a call that succeeded has put the thread into another user namespace.
    pub(super) fn leaves_users(&self) -> bool {
        match self.shape.act {
            Act::Unshare => self.call.args[0] & CLONE_NEWUSER != 0,
            Act::EnterNamespace => self.may_enter(CLONE_NEWUSER, b"/user"),
            _ => false,
        }
    }

    /// Returns true if a call may have entered a namespace of this kind.
    pub(super) fn may_enter(&self, kind: u64, name: &[u8]) -> bool {
        let kinds = self.call.args[1];
        // Any kind of namespace: its name in /proc says which.
        let entered =
            || self.description(self.call.args[0] as i32).map(|entered| entered.path.clone());
        let is_other = |path: Vec<u8>| path.starts_with(b"/proc/") && !path.ends_with(name);
        if kinds as u32 == 0 { !entered().is_some_and(is_other) } else { kinds & kind != 0 }
    }
}
