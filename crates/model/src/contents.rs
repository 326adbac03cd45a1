//! Where stored bytes come from.

use trace::Trace;
use trace::event::{Content, Data};

/// Gives the bytes behind a [`Content`].
pub trait Contents {
    /// Calls `take` with one stretch of bytes after the other, until it returns false; or tells
    /// why the bytes cannot be had.
    fn each(
        &mut self,
        content: &Content,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), String>;

    /// The first `max` bytes at most, or why they cannot be had.
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

/// The stored bytes of a trace.
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

/// Knows only what stands in the events themselves.
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

/// The piece of memory of an argument that was read before (`out` false) or after the call.
pub fn piece(data: &[Data], arg: u8, part: u8, index: u16, out: bool) -> Option<&Data> {
    data.iter().find(|d| d.arg == arg && d.part == part && d.index == index && is_out(d) == out)
}

/// As [`piece`], whenever it was read; what was read after the call comes first.
pub fn latest(data: &[Data], arg: u8, part: u8, index: u16) -> Option<&Data> {
    piece(data, arg, part, index, true).or_else(|| piece(data, arg, part, index, false))
}

/// Whether the memory was read after the call.
pub fn is_out(data: &Data) -> bool {
    has(data, events::record::data_flag::OUT)
}

/// Whether some of the memory could not be read.
pub fn is_fault(data: &Data) -> bool {
    has(data, events::record::data_flag::FAULT)
}

/// Whether not all of the memory is stored.
pub fn is_cut(data: &Data) -> bool {
    data.content.len() < data.true_len
}

/// Whether a flag of `events::record::data_flag` is set.
pub fn has(data: &Data, flag: u8) -> bool {
    data.flags & flag != 0
}

/// NUL-terminated strings that stand one after the other.
pub fn strings(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = bytes.split(|&c| c == 0).map(<[u8]>::to_vec).collect();
    if all.last().is_some_and(Vec::is_empty) {
        all.pop();
    }
    all
}
