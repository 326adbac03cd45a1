//! What is asked about a file.

/// How much of a regular file is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// Only its status: the file is not opened.
    Nothing,
    /// Also extended attributes.
    Attributes,
    /// Also a checksum of the whole content.
    Whole,
    /// Also checksums of pieces of that many bytes; 0 chooses a size that suits the file's.
    Pieces(u64),
}
