//! Which names stand for FIFOs, as the trace tells it at the first use of a file.

use syscalls::Act;

use super::file_names::FileNames;

/// What is known of names.
#[derive(Default)]
pub struct FileTypes {
    fifos: FileNames,
    others: FileNames,
}

impl FileTypes {
    /// Whether a name stands for a FIFO.
    pub fn is_fifo(&self, path: &[u8]) -> bool {
        !self.fifos.is_empty() && self.fifos.has_now(path)
    }

    /// Whether a name is known to stand for anything else.
    pub fn is_no_fifo(&self, path: &[u8]) -> bool {
        self.others.has_now(path)
    }

    /// A call told whether a name stands for a FIFO.
    pub fn told(&mut self, path: &[u8], is_fifo: bool) {
        let (is, is_not) = match is_fifo {
            true => (&mut self.fifos, &mut self.others),
            false => (&mut self.others, &mut self.fifos),
        };
        is.add(path);
        is_not.forget(path);
    }

    /// Updates the names after a call that changed names. Returns whether a FIFO has a new one.
    pub fn learn_names(
        &mut self,
        act: Act,
        exchanges: impl FnOnce() -> bool,
        paths: &[(u8, Vec<u8>)],
    ) -> bool {
        if self.fifos.is_empty() && self.others.is_empty() {
            return false;
        }
        let exchanges = exchanges();
        self.others.learn_names(act, exchanges, paths);
        self.fifos.learn_names(act, exchanges, paths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_last_holds_and_moves_with_the_name() {
        let mut types = FileTypes::default();
        types.told(b"/a", true);
        types.told(b"/b", false);
        assert!(types.is_fifo(b"/a") && !types.is_no_fifo(b"/a"));
        assert!(!types.is_fifo(b"/b") && types.is_no_fifo(b"/b"));
        assert!(!types.is_fifo(b"/c") && !types.is_no_fifo(b"/c"), "nothing was told");
        let paths = |from: &[u8], to: &[u8]| [(0, from.to_vec()), (1, to.to_vec())];
        assert!(types.learn_names(Act::Rename, || false, &paths(b"/a", b"/b")));
        assert!(types.is_fifo(b"/b") && !types.is_no_fifo(b"/b") && !types.is_fifo(b"/a"));
        types.told(b"/b", false);
        assert!(types.is_no_fifo(b"/b") && !types.is_fifo(b"/b"));
    }
}
