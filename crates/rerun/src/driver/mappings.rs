//! Files that the program maps.

use std::io;

use model::loaded::{Loaded, PIECES_MAX};
use model::{Contents, FileId, Moment, mapped};
use render::escape::escaped;
use ring::mapped_file::{ORIGINAL, REAL, SHADOW};
use syscalls::abi::files::{O_ACCMODE, O_RDWR};
use syscalls::abi::memory::PROT_WRITE;
use syscalls::record::watched;
use syscalls::{Act, Syscall};
use trace::event::{Call, Content, Outcome};

use super::Driver;
use crate::answers::is_shared;
use crate::divergence::Ending;
use crate::mapped_file::MappedFile;
use crate::memory::Memory;
use crate::real::RealFiles;
use crate::reply::give_file;
use crate::shadows::{Mapping, Means};

/// Maximum size of a mapping whose bytes are in the trace.
const MAPPED_MAX: usize = 1 << 30;

impl Driver<'_> {
    /// A file is about to be mapped. Returns what is mapped.
    pub(super) fn map(
        &mut self,
        files: &[Loaded],
        moment: &Moment<'_>,
        call: &Call,
        contents: &mut dyn Contents,
    ) -> Result<Means, Ending> {
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
        if let (true, Some(file)) = (self.may_be_real(&mapping, moment), mapping.file)
            && let Some(path) = self.find_real(&mapping, file)?
        {
            return Ok(Means::Real(path));
        }
        let mut bytes = |content: &Content| contents.read(content, MAPPED_MAX);
        self.shadows.map(&mapping, &mut bytes).map_err(Ending::Failed)
    }

    /// The path of a file of the root, which is to be as the calls before have left it.
    fn find_real(
        &mut self,
        mapping: &Mapping<'_>,
        file: FileId,
    ) -> Result<Option<Vec<u8>>, Ending> {
        let Some(real) = &mut self.real else { return Ok(None) };
        // Calls are made faster many at a time: nobody waits for them without need.
        if real.is_made(file, self.pace.made_until())
            && let Some(path) = real.find(mapping)
        {
            return Ok(Some(path));
        }
        self.pace.catch_up().map_err(Ending::Failed)?;
        // One that is just being made may be in its midst.
        let is_made = real.is_made(file, self.pace.made_until());
        Ok(if is_made { real.find(mapping) } else { None })
    }

    /// Calls that had ended by then and changed what a mapping shows have been made. Not when they begin: a call
    /// may have to wait for one that began later and ended before.
    pub(super) fn make_until(&mut self, tsc: u64) -> Result<(), Ending> {
        while let Some(seq) = self.real.as_mut().and_then(|real| real.next_until(tsc)) {
            self.pace.make(seq).map_err(Ending::Failed)?;
        }
        Ok(())
    }

    /// Whether a file of the root may be mapped as it is: its bytes are in the trace, and nobody stores to it
    /// by a mapping.
    fn may_be_real(&self, mapping: &Mapping<'_>, moment: &Moment<'_>) -> bool {
        let loaded = mapping.loaded;
        let is_known = mapping.pieces.len() <= PIECES_MAX
            && mapping.pieces.iter().all(|piece| piece.content.is_some());
        // What would be stored, once the memory can be written, is in the trace as well.
        let stores_are_known = !mapping.is_shared
            || !mapping.may_be_written
            || matches!(mapped::watched(moment.event), watched::LATER | watched::READS);
        self.real.is_some()
            && !mapping.is_code
            && !loaded.hash.is_empty()
            && is_known
            && stores_are_known
            && !self.survey.stored_to.has(loaded.inode)
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
        means: &Means,
        files: Vec<Loaded>,
        memory: Memory,
        reply_at: u64,
    ) -> io::Result<()> {
        match means {
            Means::Shadow(number) => {
                give_file(memory, reply_at, SHADOW, self.shadows.path_of(*number))
            }
            Means::Real(path) => give_file(memory, reply_at, REAL, path.clone()),
            Means::Original => {
                let path = files.into_iter().next().map(|file| file.path).unwrap_or_default();
                give_file(memory, reply_at, ORIGINAL, path)
            }
        }
    }

    /// A mapping may grow: what it shows then must be there.
    pub(super) fn grow(&mut self, call: &Call, memory: Memory) {
        let [at, old, new, ..] = call.args;
        let has_parts = self.real.as_ref().is_some_and(RealFiles::are_in_part);
        if new <= old || !self.shadows.are_there() && !has_parts {
            return;
        }
        let Some(there) = MappedFile::at(memory.tid, at) else { return };
        self.shadows.grow(&there, old..new);
        if let Some(path) = self.real.as_ref().and_then(|real| real.in_part(&there)) {
            let path = escaped(path);
            self.shadows.doubt(format!(
                "mremap shows bytes of {path} that no mmap has shown, and the trace may not hold them"
            ));
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
        let act = row.map(|row| row.act_of(&call.args));
        let touch = moment.touch;
        if let (Some(real), Some(seq), Some(_), Outcome::Returned { exit_tsc, .. }) =
            (&mut self.real, moment.seq, call.success(), call.outcome)
        {
            // The trace may say that it ended before.
            let end = exit_tsc.max(moment.event.tsc);
            if let Some(path) = real.change(touch, act, (seq, end)) {
                let path = escaped(path);
                self.shadows.doubt(format!(
                    "the kernel moved bytes to {path}, which is mapped, from where the trace does not hold them"
                ));
            }
        }
        self.shadows.follow(moment, call, row, contents).map_err(Ending::Failed)
    }
}
