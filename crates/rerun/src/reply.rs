//! What an answer has beside the result: written into the memory of the agent.

use crate::memory::Memory;
use crate::survey::Info;

/// Writes signals into a [`ring::Reply`].
pub(crate) fn give_signals(memory: Memory, reply_at: u64, signals: &[Info]) -> std::io::Result<()> {
    let signals = &signals[..signals.len().min(ring::REPLY_SIGNALS)];
    let mut bytes = (signals.len() as u64).to_le_bytes().to_vec();
    for info in signals {
        let mut whole = [0; 128];
        whole[..info.len()].copy_from_slice(info);
        bytes.extend(whole);
    }
    memory.write(reply_at, &bytes)
}

/// Writes the path of a file that is mapped into a [`ring::Reply`], and which of [`ring::mapped_file`] it is.
pub(crate) fn give_file(
    memory: Memory,
    reply_at: u64,
    is: u64,
    path: Vec<u8>,
) -> std::io::Result<()> {
    let at = reply_at.wrapping_add(std::mem::offset_of!(ring::Reply, mapped_file) as u64);
    memory.write(at, &is.to_le_bytes())?;
    give_path(memory, reply_at, path)
}

/// Writes a path into a [`ring::Reply`].
pub(crate) fn give_path(memory: Memory, reply_at: u64, mut path: Vec<u8>) -> std::io::Result<()> {
    if path.len() >= ring::REPLY_PATH {
        return Err(std::io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    path.push(0);
    memory.write(reply_at.wrapping_add(std::mem::offset_of!(ring::Reply, path) as u64), &path)
}
