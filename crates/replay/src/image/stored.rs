//! The stored bytes of a trace, for the model.

use model::Contents;
use trace::event::Content;
use trace::{ReadError, Trace};

/// Gives the bytes behind contents, and keeps the error that came in between.
pub struct Stored<'a> {
    trace: &'a Trace,
    pub error: Option<ReadError>,
}

impl<'a> Stored<'a> {
    pub fn new(trace: &'a Trace) -> Stored<'a> {
        Stored { trace, error: None }
    }
}

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
        let mut found = 0;
        for id in ids {
            let blob = match self.trace.blob(*id) {
                Ok(blob) => blob,
                Err(error) => {
                    let text = error.to_string();
                    self.error.get_or_insert(error);
                    return Err(text);
                }
            };
            found += blob.len() as u64;
            if found > len {
                break;
            }
            if !take(&blob) {
                return Ok(());
            }
        }
        if found == len { Ok(()) } else { Err("a buffer is not as long as its call says".into()) }
    }
}
