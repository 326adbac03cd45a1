//! Numbers of files and of names.

/// Number of a file in a namespace. A number is given once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(super) u32);

impl FileId {
    /// Stands for all files beyond the limit.
    pub const OTHERS: FileId = FileId(0);

    /// Returns the file with a place in a table.
    pub fn at(place: usize) -> FileId {
        FileId(u32::try_from(place).unwrap_or(0))
    }

    /// Returns the number as a place in a table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a name. Those of names that are no more are given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NameId(pub(super) u32);
