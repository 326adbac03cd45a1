//! The number that a node of the text stands for.

use model::mounts::device;
use syscalls::shape::ArgKind;

use super::node::Node;
use super::number;

/// Address for memory whose address is not in the text.
pub const SOMEWHERE: u64 = 0x1000;

/// Returns the register value of an argument. For memory that is its address.
pub fn register(kind: ArgKind, node: &Node<'_>) -> Option<u64> {
    let address = matches!(
        kind,
        ArgKind::Path | ArgKind::Str | ArgKind::StrArray | ArgKind::Buf(..) | ArgKind::Address
    );
    match node {
        Node::Word(word) | Node::Labelled(word, _) => match kind {
            ArgKind::Flags(set) | ArgKind::Enum(set) => number::of_set(word, set),
            ArgKind::Mode => number::mode(word),
            ArgKind::Signal => number::any(word).or_else(|| Some(number::signal(word)? as u64)),
            _ => number::any(word),
        },
        Node::Several(parts) => parts.iter().rev().find_map(|part| register(kind, part)),
        Node::Call("makedev", parts) => makedev(parts),
        Node::Call("htons", parts) => match parts.first() {
            Some(Node::Word(word)) => Some(u64::from((number::any(word)? as u16).to_be())),
            _ => None,
        },
        Node::Changed(before, _) => register(kind, before),
        _ if address => Some(SOMEWHERE),
        _ => None,
    }
}

/// Returns the number in a node.
pub fn number_of(node: &Node<'_>) -> Option<u64> {
    register(ArgKind::Ulong, node)
}

/// Parses the arguments of `makedev(a, b)`.
fn makedev(parts: &[Node<'_>]) -> Option<u64> {
    match parts {
        [major, minor] => Some(device(number_of(major)?, number_of(minor)?)),
        _ => None,
    }
}
