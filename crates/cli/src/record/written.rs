//! Checks that the trace file is still intact after the recording.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The trace file.
pub struct Written(File);

impl Written {
    /// Returns `None` if the file has no name or cannot be examined.
    pub fn new(file: &File) -> Option<Written> {
        let found = file.metadata().ok()?;
        (found.is_file() && found.nlink() > 0).then(|| file.try_clone().ok().map(Written))?
    }

    /// Returns what others did to the trace, if anything. `len` is its length, if known.
    pub fn lost(&self, path: &Path, len: Option<u64>) -> Option<String> {
        let name = path.display();
        let now = match self.0.metadata() {
            Ok(now) => now,
            Err(error) => return Some(format!("{name} cannot be looked at: {error}")),
        };
        if now.nlink() == 0 {
            return Some(format!(
                "{name} was removed or replaced by another program while it was written: the trace is \
                 lost"
            ));
        }
        if let Some(len) = len.filter(|&len| len != now.len()) {
            return Some(format!(
                "{name} was written to or cut by another program: it has {} bytes, {len} were written; \
                 the trace is damaged",
                now.len()
            ));
        }
        let is_it = |found: std::fs::Metadata| (found.dev(), found.ino()) == (now.dev(), now.ino());
        let leads_there = path.metadata().is_ok_and(is_it);
        if !leads_there {
            return Some(format!(
                "{name} is not the trace any more: another program has given it another name"
            ));
        }
        // After a truncation, later writes leave a hole at the beginning.
        let mut first = [0];
        let is_cut = File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
            && first == [0];
        is_cut.then(|| {
            format!("{name} was cut by another program while it was written: the trace is damaged")
        })
    }
}
