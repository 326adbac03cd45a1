//! The byte format of DataSeries files, whatever they hold; docs/dataseries.md has references.

pub mod codec;
pub mod extent;
pub mod hash;
pub mod reader;
pub mod types;
pub mod writer;

/// Magic number of a file.
pub const MAGIC: &[u8; 4] = b"DSv1";
/// Size of the header.
pub const HEADER_BYTES: usize = 40;
/// Size of the tail.
pub const TAIL_BYTES: usize = 28;

/// Type of the first extent, which holds all other types as XML.
pub const LIBRARY: &str = "DataSeries: XmlType";
/// Type of the last extent, which lists the offsets of all others.
pub const INDEX: &str = "DataSeries: ExtentIndex";
/// Built-in XML of the type [`LIBRARY`].
pub const LIBRARY_XML: &str = "<ExtentType name=\"DataSeries: XmlType\">\
    <field type=\"variable32\" name=\"xmltype\" /></ExtentType>";
/// Built-in XML of the type [`INDEX`].
pub const INDEX_XML: &str = "<ExtentType name=\"DataSeries: ExtentIndex\">\
    <field type=\"int64\" name=\"offset\" /><field type=\"variable32\" name=\"extenttype\" /></ExtentType>";

/// Byte order of numbers: that of the machine that wrote the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Lowest byte first.
    #[default]
    Little,
    /// Highest byte first.
    Big,
}

impl Order {
    /// Reads four bytes. Panics if the slice is too short.
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[at..at + 4]);
        match self {
            Order::Little => u32::from_le_bytes(word),
            Order::Big => u32::from_be_bytes(word),
        }
    }

    /// Reads eight bytes. Panics if the slice is too short.
    pub fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        match self {
            Order::Little => u64::from_le_bytes(word),
            Order::Big => u64::from_be_bytes(word),
        }
    }
}

/// Rounds up to a multiple of four.
pub(crate) const fn pad4(bytes: usize) -> usize {
    (bytes + 3) & !3
}
