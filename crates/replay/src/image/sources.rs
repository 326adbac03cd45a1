//! What files hold from which the kernel copied: the recorder read it when all was over. What nobody
//! has written since is what was there at first, be it in the file itself or where it was copied to.

use trace::Trace;
use trace::event::Data;

use super::ImageError;
use super::fold::Fold;
use super::tree::{Kind, NodeId};
use super::walk::Walk;

impl Fold<'_> {
    /// Takes it in, after everything else.
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
            if self.tree.node(node).kind != Kind::File {
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
