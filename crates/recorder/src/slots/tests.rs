//! What threads have left is read after what led to it.

use ring::Writer;
use trace::parts::part_id;

use super::*;
use crate::ingest::tests::{calls_of, completes, output, stream_of, submits};

/// A thread that has published these bytes.
fn publish(arena: &Arena, bytes: &[u8]) -> usize {
    let index = arena.reserve_slot().unwrap();
    let place = Writer::new(*arena, index).place();
    let (chunk, size) = arena.chunk(place.chunk).unwrap();
    assert!(bytes.len() <= size);
    // SAFETY: the chunk is the slot's, has that much room, and nobody reads it before it is published.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), chunk, bytes.len()) };
    arena.slot(index).state.store(slot_state::ACTIVE, Ordering::Release);
    arena.slot(index).publish(bytes.len() as u64);
    index
}

/// The completion of an operation lies in a slot before that of its submission, and one way of reading
/// a thread's rest follows.
fn completed_in_time(rest: impl FnOnce(Slots, [usize; 2], &mut Output)) -> bool {
    let arena = crate::test_arena(8);
    let completion = stream_of(5, |words| completes(words, 70, 200));
    let submission = stream_of(4, |words| submits(words, &[70], 1));
    let slots = [&completion, &submission].map(|bytes| publish(&arena, bytes));
    assert!(slots[0] < slots[1]);
    let (mut out, file) = output();
    rest(Slots::new(arena), slots, &mut out);
    let calls = calls_of(out, &file);
    let has = |parts: &[(u64, _)]| parts.iter().any(|(id, _)| *id == part_id::SUBMITTED);
    calls.iter().any(|(.., parts, returned)| *returned && has(parts))
}

#[test]
fn an_end_waits_for_submissions() {
    assert!(completed_in_time(|slots, _, out| {
        slots.close(out);
    }));
}

#[test]
fn a_move_waits_for_submissions() {
    assert!(completed_in_time(|mut slots, [completion, _], out| {
        slots.read_rest(completion, out, &mut Vec::new());
    }));
}
