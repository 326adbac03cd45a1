//! Contents of files that the kernel copied from, read by the recorder at the end. Bytes not
//! written since are initial content, of the file itself or of the file that they were copied from.

use trace::Trace;
use trace::event::Data;

use super::ImageError;
use super::fold::Fold;
use super::tree::{NodeId, NodeKind};
use super::walk::Walk;

impl Fold<'_> {
    /// Learns from these contents, after all events.
    pub fn sources(&mut self, trace: &Trace) -> Result<(), ImageError> {
        for source in trace.sources() {
            let source = source?;
            let is_path = source.path.first() == Some(&b'/') && crate::realm::is_real(&source.path);
            if source.pieces.is_empty() || !is_path {
                continue;
            }
            let how = Walk { root: NodeId::ROOT, follow: true, is_there: false, canonical: false };
            let spot = self.tree.walk(NodeId::ROOT, &source.path, how)?;
            let Some(node) = spot.and_then(|spot| spot.node) else { continue };
            let node = self.tree.find(node);
            if self.tree.node(node).kind != NodeKind::File {
                continue;
            }
            for piece in &source.pieces {
                let data = Data {
                    arg: 0,
                    part: 0,
                    index: 0,
                    flags: 0,
                    true_len: piece.len,
                    hash: piece.hash,
                    content: piece.content(),
                };
                let end = piece.offset.saturating_add(piece.len);
                self.read_piece(node, piece.offset..end, &data)?;
            }
        }
        Ok(())
    }
}
