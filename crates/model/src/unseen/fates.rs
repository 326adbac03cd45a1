//! Whether the content of files that the kernel copied from is in the trace.

use std::collections::BTreeMap;

use trace::Trace;
use trace::sources::Fate;

use crate::path;

/// Fate of the content of a file that the kernel copied from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    /// In the trace, as bytes or as hashes.
    Yes,
    /// Missing, for this reason.
    No(&'static str),
}

impl Kept {
    /// Derives the fate from the recorder's statement on the file.
    pub fn of(fate: Option<Fate>) -> Kept {
        Kept::No(match fate {
            Some(Fate::Read | Fate::Written | Fate::Withheld) => return Kept::Yes,
            Some(Fate::Gone) => "the file was gone when the recording ended",
            Some(Fate::Changed) => "the file was changed by others before the recording ended",
            Some(Fate::Unreadable) => "the file could not be read when the recording ended",
            Some(Fate::TooLong) => "the file is too long to be read for a part of it",
            Some(Fate::NoRoom) => "the trace had no room for it, or the recorder no time",
            Some(Fate::Partly) => "only a part of it could be read when the recording ended",
            None => "the bytes never pass through the program, and nobody read them afterwards",
        })
    }
}

/// Fates of the files that the kernel copied from, by the path used to open them.
#[derive(Clone, Debug, Default)]
pub struct Fates(BTreeMap<Vec<u8>, Fate>);

impl Fates {
    /// Reads the fates from a trace.
    pub fn of(trace: &Trace) -> Fates {
        let mut fates = Fates::default();
        for source in trace.sources().map_while(Result::ok) {
            source.names.iter().for_each(|name| fates.add(name, source.fate));
        }
        fates
    }

    /// Adds the fate of a file or of another part of it. The first one other than `Read` stays.
    pub fn add(&mut self, name: &[u8], fate: Fate) {
        let known = self.0.entry(path::resolve(b"/", name)).or_insert(fate);
        if *known == Fate::Read {
            *known = fate;
        }
    }

    /// Returns the fate of the content copied from a file.
    pub fn kept(&self, name: &[u8]) -> Kept {
        Kept::of(self.0.get(&path::resolve(b"/", name)).copied())
    }
}
