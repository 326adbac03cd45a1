//! Calls that overlapped and concern the end of the same file: what one was told of it tells
//! whether the other had moved it already.

use events::{Classes, Kind, Ret};
use trace::event::Call;

use crate::treatment::Said;

/// What a call has to do with a file's end.
pub struct End {
    /// A hash of the file's path. Two files that share one wait for nothing; no harm is done.
    file: u64,
    /// Where it found the end.
    found: Option<i64>,
    /// It wrote from there on.
    wrote: Option<i64>,
}

impl End {
    /// Of a call on a file, of whose path this is the hash.
    pub fn of(
        said: &Said,
        call: &Call,
        ret: i64,
        file: impl FnOnce() -> Option<u64>,
    ) -> Option<End> {
        const SEEK_END: u64 = libc::SEEK_END as u64;
        let at = said.args.iter().position(|arg| matches!(arg.kind, Kind::Offset))?;
        let writes = said.row.classes.intersects(Classes::WRITE)
            && !said.row.classes.intersects(Classes::READ);
        let (found, wrote) = match said.ret {
            Ret::Offset if ret >= 0 && call.args[at] == 0 && call.args[2] == SEEK_END => {
                (Some(ret), None)
            }
            Ret::Size if writes && ret > 0 => (None, i64::try_from(call.args[at]).ok()),
            _ => return None,
        };
        Some(End { file: file()?, found, wrote })
    }

    /// Whether this call moved the end that the other one had found.
    pub fn must_follow(&self, other: &End) -> bool {
        let beyond = self.wrote.zip(other.found).is_some_and(|(wrote, found)| wrote >= found);
        beyond && self.file == other.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_found_the_old_end_comes_first() {
        let found = |at| End { file: 1, found: Some(at), wrote: None };
        let wrote = |at| End { file: 1, found: None, wrote: Some(at) };
        assert!(wrote(100).must_follow(&found(100)));
        assert!(!wrote(100).must_follow(&found(200)), "it had seen that");
        assert!(!found(100).must_follow(&wrote(100)));
        assert!(!wrote(100).must_follow(&End { file: 2, ..found(100) }));
    }
}
