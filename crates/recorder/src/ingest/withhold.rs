//! Withholds contents that must not be stored by path: decided before the first byte is handed on.

use ring::DataMode;
use syscalls::record::data_flag;
use trace::event::{Content, Data, Outcome};

use super::stream::{Arriving, Fate, Item, OpenCall, Stream, owned};
use crate::output::Output;
use crate::policy::{Piece, Policy};

/// Maximum bytes of a path or struct that are copied for the policy.
pub(super) const TOLD_BYTES_MAX: u64 = 64 << 10;
/// ... and of all those of a call together: twice what an exec can have.
const TOLD_SUM_MAX: u64 = 12 << 20;

impl Stream {
    /// Completes an item whose stored bytes have all arrived.
    pub(super) fn arrived(&mut self, arriving: Arriving, out: &mut Output) {
        let Arriving { mut item, fate, .. } = arriving;
        match fate {
            Fate::Stack => return,
            Fate::Stored | Fate::Forgotten => {}
            Fate::Hashed(hasher) => {
                item.hash = Some(hasher.digest128());
                item.flags |= data_flag::HASH;
            }
            Fate::Told(told) => {
                if let Some(policy) = &mut out.policy {
                    policy.told(self.thread(), &owned(&item, Content::Inline(told.clone())));
                }
                if !item.is_inline() {
                    self.withheld.told.push((self.items.len(), told));
                }
            }
        }
        self.items.push(item);
    }

    /// Decides what is done with the bytes of an item of the open call, where rules by path exist.
    #[cold]
    pub(super) fn withhold(&mut self, call: &OpenCall, item: &mut Item, out: &mut Output) -> Fate {
        let Some(policy) = &mut out.policy else { return Fate::Stored };
        if Policy::piece(&call.bare(), item.arg, item.part) == Piece::Told {
            let sum = self.withheld.told_bytes + item.stored;
            if item.stored > TOLD_BYTES_MAX || sum > TOLD_SUM_MAX {
                return Fate::Stored;
            }
            self.withheld.told_bytes = sum;
            return Fate::Told(Vec::with_capacity(item.stored as usize));
        }
        let mode = match self.withheld.decided {
            Some(mode) => mode,
            None => {
                let whole = call.whole(Outcome::Unfinished, self.told());
                let of_descriptors = self.withheld.of_descriptors;
                policy.decide(self.thread(), call.tsc, whole, of_descriptors)
            }
        };
        self.withheld.decided = Some(mode);
        if mode == DataMode::Full || item.true_len == 0 {
            return Fate::Stored;
        }
        let whole = item.stored == item.true_len;
        item.stored = 0;
        item.at = self.inline.len() as u32;
        item.flags |= data_flag::CUT;
        if mode == DataMode::None {
            item.hash = None;
            item.flags &= !data_flag::HASH;
            Fate::Forgotten
        } else if whole && item.hash.is_none() {
            Fate::Hashed(Box::default())
        } else {
            Fate::Forgotten
        }
    }

    /// The memory of the open call, as far as the policy needs it.
    pub(super) fn told(&self) -> Vec<Data> {
        let shown = self.items.iter().enumerate().map(|(at, item)| {
            let content = match self.bytes_of(at, item) {
                Some(bytes) => Content::Inline(bytes.to_vec()),
                None => Content::Blobs { len: item.stored, ids: Vec::new() },
            };
            owned(item, content)
        });
        shown.collect()
    }

    /// The bytes of an item of the open call, if they are at hand.
    pub(super) fn bytes_of(&self, at: usize, item: &Item) -> Option<&[u8]> {
        let start = item.at as usize;
        let told = &self.withheld.told;
        match told.binary_search_by_key(&at, |(number, _)| *number) {
            Ok(found) => Some(&told[found].1),
            Err(_) if item.is_inline() => Some(&self.inline[start..start + item.stored as usize]),
            Err(_) => None,
        }
    }
}
