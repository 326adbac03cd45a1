//! The captured memory of a call, grouped into buffers with user-visible names.

use std::collections::HashMap;

use syscalls::record::{data_flag, part};
use syscalls::shape::{ArgKind, Of};
use trace::event::{Call, Data};

use super::shape::shape_of;
use crate::contents::{has, is_out};

/// Captured memory: one piece, or all buffers of a vector in order.
pub struct Buffer<'a> {
    /// Name of the argument plus a suffix: `.vector` and `.header` for the iovec array or message
    /// header, `.name` and `.control` for a message's address and control data, `.content` for the
    /// target of a struct's pointer, `.snapshot` for file content. Array elements have their index
    /// in brackets. `.out` marks the copy read after the call if there is one from before it.
    pub name: String,
    /// True for payload data, false for descriptive data such as headers and addresses.
    pub plain: bool,
    /// The pieces in order.
    pub pieces: Vec<&'a Data>,
}

impl Buffer<'_> {
    /// Length in the program's memory.
    pub fn len(&self) -> u64 {
        self.pieces.iter().fold(0, |sum, d| sum.saturating_add(d.true_len))
    }

    /// Returns true if the program's buffer had no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if some bytes are not stored.
    pub fn is_cut(&self) -> bool {
        self.pieces.iter().any(|d| has(d, data_flag::CUT) || d.content.len() < d.true_len)
    }

    /// The stored hash, if it covers the whole buffer.
    pub fn hash(&self) -> Option<u128> {
        match &self.pieces[..] {
            [one] => one.hash,
            _ => None,
        }
    }
}

/// Returns all captured memory of a call.
pub fn buffers(call: &Call) -> Vec<Buffer<'_>> {
    type Key = (u8, u8, Option<u16>, bool);
    let shape = shape_of(call);
    let mut groups: Vec<Buffer<'_>> = Vec::new();
    let mut known: HashMap<Key, usize> = HashMap::new();
    for data in call.data.iter().filter(|data| data.part != part::ORIGIN) {
        let arg = shape.args.get(usize::from(data.arg));
        let of = match arg.map(|a| a.kind) {
            Some(ArgKind::Buf(_, of, _)) => Some(of),
            _ => None,
        };
        // `index` counts elements in a vector, messages in a message array, and windows in a file
        // snapshot.
        let joins = matches!(data.part, part::CONTENT | part::SNAPSHOT);
        let joined = joins && (data.part == part::SNAPSHOT || matches!(of, Some(Of::Iovec)));
        let index = (!joined).then_some(data.index);
        let key = (data.arg, data.part, index, is_out(data));
        if joins && let Some(&group) = known.get(&key) {
            groups[group].pieces.push(data);
            continue;
        }
        let mut name = arg.map_or_else(|| format!("arg{}", data.arg), |arg| arg.name.to_string());
        let strings = matches!(arg.map(|a| a.kind), Some(ArgKind::StrArray));
        if strings || matches!(of, Some(Of::Mmsghdr)) {
            name.push_str(&format!("[{}]", data.index));
        }
        name.push_str(match (data.part, of) {
            (part::WHOLE, Some(Of::Msghdr | Of::Mmsghdr)) => ".header",
            (part::WHOLE, Some(Of::Iovec)) | (part::VECTOR, _) => ".vector",
            (part::NAME, _) => ".name",
            (part::CONTROL, _) => ".control",
            (part::LENGTH, _) => ".length",
            (part::SNAPSHOT, _) => ".snapshot",
            (part::CONTENT, Some(Of::Holder(_) | Of::Struct(_))) => ".content",
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
