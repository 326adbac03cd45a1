//! Final check before a call is made: by what its row says of each pointer, the kernel must not go
//! beyond our memory. This holds however arguments were built.

use syscalls::shape::{ArgKind, Extent};

use super::Maker;
use super::value::{Value, lower};
use crate::batch::Call;
use crate::memory::Span;

/// Bytes of a page, as `mincore` counts them; bits of a word, as `select` does.
const PAGE: usize = 4096;
const WORD_BITS: usize = 64;
/// Size of a length in memory.
const LENGTH: usize = 4;

impl Maker {
    /// Lowers every count and length of a call to the memory that is there.
    pub(super) fn confine(&mut self, call: &Call) {
        for (number, arg) in call.args.iter().enumerate() {
            let ArgKind::Buf(_, _, len) = arg.kind else { continue };
            let Some(span) = self.values.memory(number) else { continue };
            if !self.confine_one(span, len.extent(number as u8)) {
                self.values.set(number, Value::Nowhere);
            }
        }
    }

    /// Confines one pointer. Returns whether there is enough memory.
    #[inline]
    fn confine_one(&mut self, span: Span, extent: Extent) -> bool {
        match extent {
            Extent::Fixed(bytes) => return span.len() >= bytes as usize,
            Extent::Argument { number, unit, more } => {
                let Some(room) = span.len().checked_sub(more as usize) else { return false };
                return self.at_most(number, room / unit.max(1) as usize);
            }
            Extent::Bits(number) => return self.at_most(number, span.len() / 8 / 8 * WORD_BITS),
            Extent::Pages(number) => return self.at_most(number, span.len().saturating_mul(PAGE)),
            // Without a length the kernel accesses nothing.
            Extent::Behind(number) => match self.values.memory(number.into()) {
                Some(length) if length.len() >= LENGTH => {
                    lower(length, 0, LENGTH, span.len() as u64);
                }
                _ => {}
            },
            Extent::Within { at, unit, head } => {
                let Some(room) = span.len().checked_sub(head.into()) else { return false };
                if span.len() < usize::from(at) + LENGTH {
                    return false;
                }
                lower(span, at.into(), LENGTH, (room / usize::from(unit.max(1))) as u64);
            }
        }
        true
    }

    /// Lowers an argument that counts elements to `most`. Returns whether it is a number.
    pub(super) fn at_most(&mut self, number: u8, most: usize) -> bool {
        self.values.lower(number.into(), most)
    }
}
