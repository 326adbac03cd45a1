//! The bytes of DataSeries files, whatever they hold. docs/dataseries.md tells where they are
//! described.

pub mod codec;
pub mod extent;
pub mod hash;
pub mod reader;
pub mod types;
pub mod writer;

/// The first bytes of a file.
pub const MAGIC: &[u8; 4] = b"DSv1";
/// Bytes before the first extent.
pub const HEADER_BYTES: usize = 40;
/// Bytes after the last extent.
pub const TAIL_BYTES: usize = 28;

/// The type of the first extent, which holds all other types as XML.
pub const LIBRARY: &str = "DataSeries: XmlType";
/// The type of the last extent, which tells where all others are.
pub const INDEX: &str = "DataSeries: ExtentIndex";
/// Both of them are known without being told.
pub const LIBRARY_XML: &str = "<ExtentType name=\"DataSeries: XmlType\">\
    <field type=\"variable32\" name=\"xmltype\" /></ExtentType>";
/// See [`LIBRARY_XML`].
pub const INDEX_XML: &str = "<ExtentType name=\"DataSeries: ExtentIndex\">\
    <field type=\"int64\" name=\"offset\" /><field type=\"variable32\" name=\"extenttype\" /></ExtentType>";

/// The order of the bytes of numbers, which is that of the machine that wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// The lowest byte first.
    #[default]
    Little,
    /// The highest byte first.
    Big,
}

impl Order {
    /// A number of four bytes in a slice that is known to hold it.
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[at..at + 4]);
        match self {
            Order::Little => u32::from_le_bytes(word),
            Order::Big => u32::from_be_bytes(word),
        }
    }

    /// A number of eight bytes in a slice that is known to hold it.
    pub fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        match self {
            Order::Little => u64::from_le_bytes(word),
            Order::Big => u64::from_be_bytes(word),
        }
    }
}

/// The next multiple of four.
pub(crate) const fn pad4(bytes: usize) -> usize {
    (bytes + 3) & !3
}
