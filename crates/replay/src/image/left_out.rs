//! What an image may lack, in words.

pub const DEVICE: &str = "device nodes (empty files are in their place)";
pub const NEW_LINK: &str = "further names of a file on another file system";
pub const SPECIAL: &str = "fifos and sockets that this file system does not take";
pub const SIZE: &str = "files larger than this file system takes";
pub const DEEP: &str = "names more than 500 directories deep";
pub const NOT_FOLLOWED: &str = "descriptors and tasks that are too many to be followed";
pub const SECOND: &str = "second names of directories";
pub const NAME: &str = "names that this file system does not take";
