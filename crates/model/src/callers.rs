//! The callers of a call, if they were recorded.

use trace::event::{Content, Event};
use trace::parts::part_id;

use crate::Contents;

/// Callers that are read of a call.
const CALLERS_MAX: usize = 1024;

/// Returns the return addresses that lead to a call, the innermost first: none if they were lost, `None`
/// if they were not recorded.
pub fn callers_of(event: &Event, contents: &mut dyn Contents) -> Option<Vec<u64>> {
    let part = event.parts().iter().find(|part| part.id == part_id::STACK)?;
    let ids: Vec<_> = part.named_buffers().into_iter().flatten().collect();
    let mut bytes = Vec::new();
    if !ids.is_empty() {
        // How long the buffer is, it knows itself.
        let content = Content::Blobs { len: u64::MAX, ids };
        let most = CALLERS_MAX * size_of::<u64>();
        let _ = contents.each(&content, &mut |piece| {
            bytes.extend_from_slice(&piece[..piece.len().min(most - bytes.len())]);
            bytes.len() < most
        });
    }
    Some(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}
