//! Access to the stored bytes of captured buffers.

use syscalls::record::part;
use trace::Trace;
use trace::event::{Content, Data};

/// Source of the bytes behind a [`Content`].
pub trait Contents {
    /// Calls `take` with consecutive pieces of the bytes until it returns false. Returns an error
    /// message if the bytes are unavailable.
    fn each(
        &mut self,
        content: &Content,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), String>;

    /// Returns at most the first `max` bytes, or an error message.
    fn read(&mut self, content: &Content, max: usize) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        if max == 0 {
            return Ok(all);
        }
        self.each(content, &mut |bytes| {
            all.extend_from_slice(&bytes[..bytes.len().min(max - all.len())]);
            all.len() < max
        })?;
        Ok(all)
    }
}

/// Reads the stored bytes from a trace file.
pub struct Stored<'a>(pub &'a Trace);

impl Contents for Stored<'_> {
    fn each(
        &mut self,
        content: &Content,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), String> {
        let (len, ids) = match content {
            Content::Inline(bytes) => {
                take(bytes);
                return Ok(());
            }
            Content::Blobs { len, ids } => (*len, ids),
        };
        let mut found = 0u64;
        for id in ids {
            let blob = self.0.blob(*id).map_err(|error| error.to_string())?;
            found += blob.len() as u64;
            if found > len {
                break;
            }
            if !take(&blob) {
                return Ok(());
            }
        }
        if found == len {
            return Ok(());
        }
        Err(format!("the trace is damaged: a buffer has {found} bytes, its call says {len}"))
    }
}

/// Reads only the bytes that are stored inside the events.
pub struct InlineOnly;

impl Contents for InlineOnly {
    fn each(
        &mut self,
        content: &Content,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), String> {
        match content {
            Content::Inline(bytes) => {
                take(bytes);
                Ok(())
            }
            Content::Blobs { .. } => Err("the bytes are in blobs, which are not at hand".into()),
        }
    }
}

/// Returns the captured memory of an argument, read before (`out` false) or after the call.
pub fn piece(data: &[Data], arg: u8, part: u8, index: u16, out: bool) -> Option<&Data> {
    data.iter().find(|d| d.arg == arg && d.part == part && d.index == index && is_out(d) == out)
}

/// Returns the captured memory of an argument, preferring the copy read after the call.
pub fn latest(data: &[Data], arg: u8, part: u8, index: u16) -> Option<&Data> {
    piece(data, arg, part, index, true).or_else(|| piece(data, arg, part, index, false))
}

/// Returns true if the memory was read after the call.
pub fn is_out(data: &Data) -> bool {
    has(data, syscalls::record::data_flag::OUT)
}

/// Returns true if some of the memory could not be read.
pub fn is_fault(data: &Data) -> bool {
    has(data, syscalls::record::data_flag::FAULT)
}

/// Returns true if only part of the memory is stored.
pub fn is_cut(data: &Data) -> bool {
    data.content.len() < data.true_len
}

/// Returns true if bytes that a call took are not stored, which is told by this result. What could not be read, it
/// did not take.
pub fn lacks_given(data: &[Data], ret: i64) -> bool {
    let given = || data.iter().filter(|data| !is_out(data));
    if given().any(|data| is_cut(data) && !is_fault(data)) {
        return true;
    }
    let stored_of = |part: u8| {
        let of_part = given().filter(|data| data.part == part).map(|data| data.content.len());
        of_part.reduce(u64::saturating_add)
    };
    // Of a vector, the whole is its list of buffers.
    let stored = stored_of(part::CONTENT).or_else(|| stored_of(part::WHOLE)).unwrap_or(0);
    given().any(is_cut) && stored < u64::try_from(ret).unwrap_or(0)
}

/// Returns true if a flag of `syscalls::record::data_flag` is set.
pub fn has(data: &Data, flag: u8) -> bool {
    data.flags & flag != 0
}

/// Splits consecutive NUL-terminated strings.
pub fn strings(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = bytes.split(|&c| c == 0).map(<[u8]>::to_vec).collect();
    if all.last().is_some_and(Vec::is_empty) {
        all.pop();
    }
    all
}
