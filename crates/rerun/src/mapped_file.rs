//! What the kernel says of a file that a thread has mapped.

/// A file that is mapped at an address.
pub(crate) struct MappedFile {
    /// Its path, as the kernel tells it.
    pub path: Vec<u8>,
    /// What of it lies there.
    pub offset: u64,
}

impl MappedFile {
    /// Looks it up.
    pub fn at(tid: i32, at: u64) -> Option<MappedFile> {
        let maps = std::fs::read(format!("/proc/{tid}/maps")).ok()?;
        maps.split(|byte| *byte == b'\n').find_map(|line| {
            let slash = line.iter().position(|byte| *byte == b'/')?;
            let words = std::str::from_utf8(&line[..slash]).ok()?;
            let mut words = words.split(' ');
            let (start, end) = words.next()?.split_once('-')?;
            let number = |text: &str| u64::from_str_radix(text, 16).ok();
            let (start, end, offset) = (number(start)?, number(end)?, number(words.nth(1)?)?);
            let path = line[slash..].to_vec();
            (start <= at && at < end).then(|| MappedFile { path, offset: offset + (at - start) })
        })
    }
}
