//! Parses the ready descriptors that strace prints behind the results of poll and select.

use syscalls::flags;
use syscalls::record::part;
use syscalls::shape::{Arg, ArgKind, Dir, Of};

use super::encode::{Encoded, Memory, encoded};
use super::memory::{bits, field};
use super::node::{Cursor, Node};
use super::number;
use super::register::number_of;
use crate::spelling::{self, LEFT, POLLED, Ready};

/// Bytes of `struct pollfd`, and the range of `revents` in it.
const POLLFD_BYTES: usize = 8;
const REVENTS: std::ops::Range<usize> = 6..8;

/// Adds the memory after the call; descriptors that `rest` does not name were not ready.
pub fn found(args: &[Arg], rest: &[u8], call: &mut Encoded) -> Option<()> {
    let open = rest.iter().position(|&c| c == b'(')?;
    let (items, _) = Cursor::new(&rest[open + 1..]).items(b')').ok()?;
    for (number, arg) in (0u8..).zip(args) {
        let ArgKind::Buf(Dir::InOut, of, _) = arg.kind else { continue };
        let before = call.memory.iter().find(|memory| memory.arg == number && !memory.out);
        let Some(before) = before.map(|memory| memory.bytes.clone()) else { continue };
        let after = match (spelling::ready(arg.name), of) {
            (Some(Ready::Polled), _) => polled(before, &items)?,
            (Some(Ready::Left), _) => match named(&items, LEFT) {
                Some(left) => encoded(of, left, 0)?,
                None => continue,
            },
            (Some(Ready::Set(word)), Of::FdSet) => selected(word, before.len() as u64, &items)?,
            _ => continue,
        };
        let true_len = after.len() as u64;
        call.memory.push(Memory {
            arg: number,
            part: part::WHOLE,
            index: 0,
            out: true,
            true_len,
            bytes: after,
        });
    }
    Some(())
}

fn polled(mut fds: Vec<u8>, items: &[Node<'_>]) -> Option<Vec<u8>> {
    fds.chunks_exact_mut(POLLFD_BYTES).for_each(|fd| fd[REVENTS].fill(0));
    let Some(Node::List { items, .. }) = items.first() else { return Some(fds) };
    let [number, events] = POLLED;
    for item in items {
        let Node::Struct { fields, .. } = item else { return None };
        let wanted = (number_of(field(fields, number)?)? as i32).to_le_bytes();
        let Node::Word(events) = field(fields, events)? else { return None };
        let events = number::of_set(events, &flags::POLL)? as u16;
        let mut same = fds.chunks_exact_mut(POLLFD_BYTES).filter(|fd| fd[..4] == wanted);
        same.next()?[REVENTS].copy_from_slice(&events.to_le_bytes());
    }
    Some(fds)
}

fn selected(word: &str, length: u64, items: &[Node<'_>]) -> Option<Vec<u8>> {
    match named(items, word) {
        Some(Node::List { items, .. }) => bits(items, length),
        _ => bits(&[], length),
    }
}

/// Returns the value that follows a word.
fn named<'n, 'a>(items: &'n [Node<'a>], word: &str) -> Option<&'n Node<'a>> {
    items.iter().find_map(|item| match item {
        Node::Several(parts) => match &parts[..] {
            [Node::Word(found), value] if *found == word => Some(value),
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_by(call: &str, before: &str, rest: &str) -> Vec<Vec<u8>> {
        let row = syscalls::by_name(call).expect("a call");
        let (nodes, _) = Cursor::new(before.as_bytes()).items(b')').expect("arguments");
        let mut encoded = super::super::encode::encode(row, &nodes, Some(1));
        found(row.args, rest.as_bytes(), &mut encoded).expect("results");
        encoded.memory.into_iter().filter(|memory| memory.out).map(|memory| memory.bytes).collect()
    }

    #[test]
    fn what_poll_found() {
        let fds = "[{fd=3, events=POLLIN}, {fd=4, events=POLLOUT}], 2, -1)";
        let after = [[3, 0, 0, 0, 1, 0, 0, 0], [4, 0, 0, 0, 4, 0, 4, 0]].concat();
        assert_eq!(found_by("poll", fds, "= 1 ([{fd=4, revents=POLLOUT}])"), [after]);
    }

    #[test]
    fn what_select_found() {
        let sets = "5, [3 4], NULL, NULL, {tv_sec=1, tv_usec=0})";
        let left = [5u64.to_le_bytes(), 6u64.to_le_bytes()].concat();
        let set = 16u64.to_le_bytes().to_vec();
        let found = found_by("select", sets, "= 1 (in [4], left {tv_sec=5, tv_usec=6})");
        assert_eq!(found, [set, left]);
        let none = found_by("select", sets, "= 0 (Timeout)");
        assert_eq!(none, [vec![0; 8]]);
    }
}
