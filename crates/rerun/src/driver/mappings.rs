//! Files that the program maps.

use std::io;

use model::{Contents, FileId, Moment};
use syscalls::abi::files::{O_ACCMODE, O_RDWR};
use syscalls::abi::memory::PROT_WRITE;
use syscalls::{Act, Syscall};
use trace::event::{Call, Content};

use super::Driver;
use crate::answers::is_shared;
use crate::divergence::Ending;
use crate::loaded::Loaded;
use crate::memory::Memory;
use crate::reply::{give_path, give_shadow};
use crate::shadows::{Mapping, Means};

/// Maximum size of a mapping whose bytes are in the trace.
const MAPPED_MAX: usize = 1 << 30;

impl Driver<'_> {
    /// A file is about to be mapped. Returns the shadow that is mapped in its place; `None`: it is mapped
    /// itself.
    pub(super) fn map(
        &mut self,
        files: &[Loaded],
        moment: &Moment<'_>,
        call: &Call,
        contents: &mut dyn Contents,
    ) -> Result<Option<u32>, Ending> {
        let Some(loaded) = files.first() else {
            let text = "the program maps a file that the trace does not name";
            return Err(Ending::Failed(text.into()));
        };
        let [_, len, prot, _, _, offset] = call.args;
        let file = moment.touch.by_fd.map(|(file, _)| file);
        let mapping = Mapping {
            file: file.filter(|file| *file != FileId::OTHERS),
            loaded,
            range: offset..offset.saturating_add(len),
            pieces: files,
            is_shared: is_shared(&call.args),
            is_writable: prot & PROT_WRITE != 0,
            is_code: syscalls::mapping::Mapping::of(&call.args).is_code(),
            may_be_written: self.may_write(moment, call),
            is_unchanged: self.survey.originals.get(&loaded.path) == Some(&loaded.hash),
        };
        let mut bytes = |content: &Content| contents.read(content, MAPPED_MAX);
        match self.shadows.map(&mapping, &mut bytes).map_err(Ending::Failed)? {
            Means::Original => Ok(None),
            Means::Shadow(number) => Ok(Some(number)),
        }
    }

    /// Whether the descriptor that is mapped allows to write to the file.
    fn may_write(&self, moment: &Moment<'_>, call: &Call) -> bool {
        let table = moment.world.descriptors(moment.event.thread);
        let entry = table.as_ref().and_then(|table| table.get(call.args[4] as i32));
        let flags = entry.and_then(|entry| entry.description.flags).unwrap_or(0);
        flags & O_ACCMODE == O_RDWR
    }

    /// Tells a thread what it maps.
    pub(super) fn tell_file(
        &self,
        shadow: Option<u32>,
        files: Vec<Loaded>,
        memory: Memory,
        reply_at: u64,
    ) -> io::Result<()> {
        match shadow {
            Some(number) => give_shadow(memory, reply_at, self.shadows.path_of(number)),
            None => {
                let path = files.into_iter().next().map(|file| file.path).unwrap_or_default();
                give_path(memory, reply_at, path)
            }
        }
    }

    /// A mapping may grow: what it shows then must be there.
    pub(super) fn grow(&mut self, call: &Call, memory: Memory) {
        let [at, old, new, ..] = call.args;
        if new > old && self.shadows.are_there() {
            self.shadows.grow(memory.tid, at, old..new);
        }
    }

    /// Notes what a call does to files that are mapped.
    pub(super) fn follow(
        &mut self,
        moment: &Moment<'_>,
        call: &Call,
        row: Option<&Syscall>,
        contents: &mut dyn Contents,
    ) -> Result<(), Ending> {
        if row.is_some_and(|row| row.act_of(&call.args) == Act::Protect)
            && call.args[2] & PROT_WRITE != 0
        {
            self.shadows.is_made_writable();
        }
        self.shadows.follow(moment, call, row, contents).map_err(Ending::Failed)
    }
}
