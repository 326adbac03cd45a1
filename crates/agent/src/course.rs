//! Whether the program is recorded for a re-execution, or is one: set when its image starts.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ring::Control;

static REPEATABLE: AtomicBool = AtomicBool::new(false);
static ANSWERED: AtomicBool = AtomicBool::new(false);
static SERIALISED: AtomicBool = AtomicBool::new(false);
/// Where the next memory of the agent's is mapped; 0: where the kernel likes.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Size of each region of the agent's memory.
const REGION: u64 = 1 << 36;

/// Regions of the agent's memory, behind its image.
#[derive(Clone, Copy)]
pub enum Region {
    Arena = 1,
    Catalog = 2,
    Threads = 3,
}

/// Takes over what the arena says. `hint` is the place of the agent's memory; 0: any.
pub fn begin(control: &Control, hint: u64) {
    REPEATABLE.store(control.is_repeatable(), Ordering::Relaxed);
    ANSWERED.store(control.is_answered(), Ordering::Relaxed);
    SERIALISED.store(control.is_serialised(), Ordering::Relaxed);
    NEXT.store(place(hint, Region::Threads), Ordering::Relaxed);
}

/// Where a region begins.
pub fn place(hint: u64, region: Region) -> u64 {
    if hint == 0 { 0 } else { hint + region as u64 * REGION }
}

/// Where to map memory of that length. The program's own comes to lie as without the agent.
pub fn next_place(len: u64) -> u64 {
    match NEXT.load(Ordering::Relaxed) {
        0 => 0,
        _ => NEXT.fetch_add(len.next_multiple_of(4096), Ordering::Relaxed),
    }
}

/// The program is recorded for a re-execution, or is one.
pub fn is_repeatable() -> bool {
    REPEATABLE.load(Ordering::Relaxed)
}

/// One thread of a process runs at a time.
pub fn is_serialised() -> bool {
    SERIALISED.load(Ordering::Relaxed)
}

/// The program is re-executed.
pub fn is_answered() -> bool {
    ANSWERED.load(Ordering::Relaxed)
}
