//! The stored bytes of a trace, for the model.

use model::Contents;
use trace::Trace;
use trace::event::Content;

/// Reads contents, and keeps the first error.
pub struct Stored<'a> {
    all: model::Stored<'a>,
    pub error: Option<String>,
}

impl<'a> Stored<'a> {
    pub fn new(trace: &'a Trace) -> Stored<'a> {
        Stored { all: model::Stored(trace), error: None }
    }
}

impl Contents for Stored<'_> {
    fn each(
        &mut self,
        content: &Content,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), String> {
        let given = self.all.each(content, take);
        if let Err(error) = &given {
            self.error.get_or_insert_with(|| error.clone());
        }
        given
    }
}
