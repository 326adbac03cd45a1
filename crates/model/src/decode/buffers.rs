//! The captured memory of a call, under the names that users know it by.

use std::collections::HashMap;

use events::record::{data_flag, part};
use events::shape::{Kind, Of};
use trace::event::{Call, Data};

use super::shape::shape_of;
use crate::contents::{has, is_out};

/// Captured memory: one stretch, or the buffers of a vector one after the other.
pub struct Buffer<'a> {
    /// The argument's name; `.vector` and `.header` for what leads to the content of a vector or
    /// message, `.name` and `.control` for a message's address and control data, `.content` for
    /// what a struct points to, `.snapshot` for what was in the file behind a path. Elements of arrays have their index in brackets. What was read
    /// after the call has `.out` where the same memory was read before it as well.
    pub name: String,
    /// It is data that the call carries, not what describes it.
    pub plain: bool,
    /// The pieces in order.
    pub pieces: Vec<&'a Data>,
}

impl Buffer<'_> {
    /// Length in the program.
    pub fn len(&self) -> u64 {
        self.pieces.iter().fold(0, |sum, d| sum.saturating_add(d.true_len))
    }

    /// Whether the program's buffer had no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether bytes are missing.
    pub fn is_cut(&self) -> bool {
        self.pieces.iter().any(|d| has(d, data_flag::CUT) || d.content.len() < d.true_len)
    }

    /// The stored hash, where it covers all of the buffer.
    pub fn hash(&self) -> Option<u128> {
        match &self.pieces[..] {
            [one] => one.hash,
            _ => None,
        }
    }
}

/// All captured memory of a call.
pub fn buffers(call: &Call) -> Vec<Buffer<'_>> {
    type Key = (u8, u8, Option<u16>, bool);
    let shape = shape_of(call);
    let mut groups: Vec<Buffer<'_>> = Vec::new();
    let mut known: HashMap<Key, usize> = HashMap::new();
    for data in call.data.iter().filter(|data| data.part != part::ORIGIN) {
        let arg = shape.args.get(usize::from(data.arg));
        let of = match arg.map(|a| a.kind) {
            Some(Kind::Buf(_, of, _)) => Some(of),
            _ => None,
        };
        // The buffers of a vector are numbered by element, those of a message by message, those of
        // a file by window.
        let joins = matches!(data.part, part::CONTENT | part::SNAPSHOT);
        let joined = joins && (data.part == part::SNAPSHOT || matches!(of, Some(Of::Iovec)));
        let index = (!joined).then_some(data.index);
        let key = (data.arg, data.part, index, is_out(data));
        if joins && let Some(&group) = known.get(&key) {
            groups[group].pieces.push(data);
            continue;
        }
        let mut name = arg.map_or_else(|| format!("arg{}", data.arg), |arg| arg.name.to_string());
        let strings = matches!(arg.map(|a| a.kind), Some(Kind::StrArray));
        if strings || matches!(of, Some(Of::Mmsghdr)) {
            name.push_str(&format!("[{}]", data.index));
        }
        name.push_str(match (data.part, of) {
            (part::WHOLE, Some(Of::Msghdr | Of::Mmsghdr)) => ".header",
            (part::WHOLE, Some(Of::Iovec)) | (part::VECTOR, _) => ".vector",
            (part::NAME, _) => ".name",
            (part::CONTROL, _) => ".control",
            (part::SNAPSHOT, _) => ".snapshot",
            (part::CONTENT, Some(Of::Holder(_))) => ".content",
            _ => "",
        });
        let before = (data.arg, data.part, index, false);
        if is_out(data) && known.contains_key(&before) {
            name.push_str(".out");
        }
        known.insert(key, groups.len());
        let plain = joins || data.part == part::WHOLE && matches!(of, Some(Of::Bytes));
        groups.push(Buffer { name, plain, pieces: vec![data] });
    }
    groups
}
