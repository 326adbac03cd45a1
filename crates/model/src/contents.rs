//! Access to the stored bytes of captured buffers.

use syscalls::abi::files::RESOLVE_IN_ROOT;
use syscalls::by_number;
use syscalls::record::part;
use syscalls::shape::OpenFlags;
use trace::Trace;
use trace::event::{Call, Content, Data};

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

/// Whether a call that opens a file takes its directory for the root (RESOLVE_IN_ROOT).
pub fn opens_in_root(call: &Call, contents: &mut dyn Contents) -> bool {
    let Some(open @ OpenFlags::Struct { .. }) = by_number(call.nr.into()).and_then(|row| row.open)
    else {
        return false;
    };
    let resolve = open.resolve(|arg, at| {
        let data = piece(&call.data, arg, part::WHOLE, 0, false)?;
        let bytes = contents.read(&data.content, usize::from(at) + size_of::<u64>()).ok()?;
        Some(u64::from_le_bytes(*bytes.get(usize::from(at)..)?.first_chunk()?))
    });
    resolve & RESOLVE_IN_ROOT != 0
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

/// Returns true if bytes are not stored that went into a call. `taken`: how many did, if the result says it.
pub fn lacks_given(data: &[Data], taken: Option<u64>) -> bool {
    let given = || data.iter().filter(|data| !is_out(data));
    let Some(mut left) = taken else { return given().any(is_cut) };
    // Of a vector, the whole is its list of buffers.
    let is_vector = given().any(|data| data.part == part::CONTENT);
    let contents = given().filter(|data| (data.part == part::CONTENT) == is_vector);
    for data in contents.filter(|data| is_vector || data.part == part::WHOLE) {
        let wanted = data.true_len.min(left);
        if data.content.len() < wanted {
            return true;
        }
        left -= wanted;
    }
    false
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

#[cfg(test)]
mod tests {
    use syscalls::record::data_flag;

    use super::*;

    fn given(part: u8, flags: u8, true_len: u64, stored: usize) -> Data {
        let content = Content::Inline(vec![0; stored]);
        Data { part, flags, true_len, content, ..Data::default() }
    }

    #[test]
    fn what_a_call_did_not_take_is_not_lacking() {
        let whole = |true_len, stored| [given(part::WHOLE, 0, true_len, stored)];
        assert!(!lacks_given(&whole(100, 100), Some(100)) && !lacks_given(&whole(100, 100), None));
        assert!(lacks_given(&whole(100, 40), Some(41)) && lacks_given(&whole(100, 40), None));
        assert!(!lacks_given(&whole(100, 40), Some(40)) && !lacks_given(&whole(100, 0), Some(0)));
        assert!(!lacks_given(&[given(part::WHOLE, data_flag::OUT, 100, 0)], Some(50)));
        let vector = |first, second| {
            let list = given(part::WHOLE, 0, 32, 32);
            [list, given(part::CONTENT, 0, 50, first), given(part::CONTENT, 0, 50, second)]
        };
        assert!(!lacks_given(&vector(50, 10), Some(60)) && lacks_given(&vector(50, 10), Some(61)));
        assert!(lacks_given(&vector(40, 50), Some(41)) && !lacks_given(&vector(40, 0), Some(40)));
    }
}
