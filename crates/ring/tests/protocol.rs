//! The protocol of the shared memory under a model checker, which tries all orders of steps of some
//! threads (with few preemptions), and all values that weak memory lets each of them see:
//! `cargo xtask soak ring`.
//!
//! Arenas are tiny here (`size.rs`), so that a few words fill a stream. The bytes of chunks have
//! shadows that the checker knows, so a byte that is read before it is published, or written again
//! while it is read, is an error; so is a thread that nobody wakes.
#![cfg(loom)]

use std::sync::atomic::Ordering;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::atomic::AtomicU32;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use ring::{Arena, HOME_BYTES, POOL_BYTES, POOL_MAX, Patience, Reader, SLOTS, Writer, slot_state};

const WORD: usize = 8;
const HOME_WORDS: usize = HOME_BYTES / WORD;
const POOL_WORDS: usize = POOL_BYTES / WORD;

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// The futexes of the kernel: a thread does not fall asleep if the word has changed.
#[derive(Default)]
struct Futexes {
    lock: Mutex<()>,
    woken: Condvar,
}

impl Futexes {
    fn sleep_while(&self, is_unchanged: impl FnOnce() -> bool) {
        let lock = self.lock.lock().unwrap();
        if is_unchanged() {
            drop(self.woken.wait(lock).unwrap());
        }
    }

    fn sleep(&self, word: &AtomicU32, value: u32) {
        self.sleep_while(|| word.load(Ordering::SeqCst) == value);
    }

    fn wake(&self) {
        drop(self.lock.lock().unwrap());
        self.woken.notify_all();
    }
}

/// An arena, the shadows of its words, and the kernel.
struct Machine {
    arena: Arena,
    words: Vec<UnsafeCell<u64>>,
    /// Those on which writers sleep, and the one on which the reader does.
    room: Futexes,
    bell: Futexes,
}

impl Machine {
    fn new(pool_chunks: usize) -> Arc<Machine> {
        let words = SLOTS * HOME_WORDS + POOL_MAX * POOL_WORDS;
        Arc::new(Machine {
            arena: Arena::of_model(pool_chunks),
            words: (0..words).map(|_| UnsafeCell::new(0)).collect(),
            room: Futexes::default(),
            bell: Futexes::default(),
        })
    }

    /// The shadow of a word of a chunk.
    fn word(&self, at: *const u8) -> &UnsafeCell<u64> {
        let (first, _) = self.arena.chunk(0).unwrap();
        &self.words[(at as usize - first as usize) / WORD]
    }
}

/// The agent of a thread: writes numbers, one a record.
struct Agent {
    machine: Arc<Machine>,
    slot: usize,
    at: *mut u8,
    end: *mut u8,
    position: u64,
}

// SAFETY: the pointers lead into the arena, which all threads share.
unsafe impl Send for Agent {}

impl Patience for &Machine {
    fn wake(&mut self, _: &AtomicU32) {
        self.bell.wake();
    }

    fn sleep(&mut self, word: &AtomicU32, value: u32) -> bool {
        self.room.sleep(word, value);
        true
    }
}

impl Agent {
    fn start(machine: &Arc<Machine>, slot: usize) -> Agent {
        let place = Writer::new(machine.arena, slot).place();
        let mut agent = Agent {
            machine: Arc::clone(machine),
            slot,
            at: std::ptr::null_mut(),
            end: std::ptr::null_mut(),
            position: place.published,
        };
        assert!(machine.arena.slot(slot).activate(), "the slot was reserved");
        agent.enter(place.chunk);
        agent
    }

    fn enter(&mut self, chunk: u32) {
        let (at, len) = self.machine.arena.chunk(chunk).unwrap();
        // SAFETY: the chunk has this length.
        (self.at, self.end) = (at, unsafe { at.add(len) });
    }

    /// Writes a number. False if nothing is recorded any more.
    fn write(&mut self, number: u64) -> bool {
        let machine = Arc::clone(&self.machine);
        if self.at == self.end {
            let writer = Writer::new(machine.arena, self.slot);
            let Some(chunk) = writer.next_chunk(self.position, &mut &*machine) else {
                return false;
            };
            self.enter(chunk);
        }
        // SAFETY: there is room for a word, and the checker sees to it that nobody else uses it.
        machine.word(self.at).with_mut(|shadow| unsafe { *shadow = number });
        // SAFETY: as above.
        self.at = unsafe { self.at.add(WORD) };
        self.position += WORD as u64;
        machine.arena.slot(self.slot).publish(self.position);
        true
    }

    fn end(self) {
        self.machine.arena.slot(self.slot).end();
        Writer::new(self.machine.arena, self.slot).wake_reader(&mut &*self.machine);
    }
}

/// The recorder: reads all streams until `enough`, and sleeps when there is nothing.
struct Recorder<'a> {
    machine: &'a Machine,
    readers: Vec<Reader>,
    read: Vec<Vec<u64>>,
}

impl Recorder<'_> {
    fn new(machine: &Machine) -> Recorder<'_> {
        let readers = (0..SLOTS).map(Reader::new).collect();
        Recorder { machine, readers, read: vec![Vec::new(); SLOTS] }
    }

    fn read(&mut self, slot: usize) {
        let arena = &self.machine.arena;
        let reader = &mut self.readers[slot];
        let bytes = reader.peek(arena);
        let words = bytes.len() / WORD;
        for number in 0..words {
            let word = self.machine.word(bytes[number * WORD..].as_ptr());
            // SAFETY: the checker sees to it that nobody writes it.
            self.read[slot].push(word.with(|shadow| unsafe { *shadow }));
        }
        if words != 0 {
            reader.advance(arena, words * WORD);
            if arena.slot(slot).room_is_awaited() {
                self.machine.room.wake();
            }
        }
    }

    fn has_work(&self) -> bool {
        (0..SLOTS).any(|slot| self.readers[slot].unread(&self.machine.arena) != 0)
    }

    /// Reads until these many threads have ended and everything of them is read.
    fn run(&mut self, threads: usize) {
        let arena = &self.machine.arena;
        let is_ended =
            |slot: usize| arena.slot(slot).state.load(Ordering::Acquire) == slot_state::ENDED;
        loop {
            let ended: Vec<usize> = (0..SLOTS).filter(|slot| is_ended(*slot)).collect();
            (0..SLOTS).for_each(|slot| self.read(slot));
            if ended.len() == threads && !self.has_work() {
                return;
            }
            let bell = &arena.control().doorbell;
            let rung = bell.before_sleep();
            let has_ended = (0..SLOTS).filter(|slot| is_ended(*slot)).count() != ended.len();
            let waits = |slot| arena.slot(slot).consumed.waiting.load(Ordering::SeqCst) != 0;
            if !has_ended && !self.has_work() && !(0..SLOTS).any(waits) {
                self.machine.bell.sleep(&bell.word, rung);
            } else {
                thread::yield_now();
            }
            bell.after_sleep();
        }
    }
}

fn numbers(slot: usize, count: u64) -> impl Iterator<Item = u64> {
    (1..=count).map(move |number| (slot as u64) << 32 | number)
}

fn agents_write(pool_chunks: usize, counts: &[u64]) {
    let machine = Machine::new(pool_chunks);
    let agents: Vec<_> = counts
        .iter()
        .map(|&count| {
            let slot = machine.arena.reserve_slot().expect("a free slot");
            let machine = Arc::clone(&machine);
            thread::spawn(move || {
                let mut agent = Agent::start(&machine, slot);
                assert!(numbers(slot, count).all(|number| agent.write(number)));
                agent.end();
            })
        })
        .collect();
    let mut recorder = Recorder::new(&machine);
    recorder.run(counts.len());
    agents.into_iter().for_each(|agent| agent.join().unwrap());
    for (slot, &count) in counts.iter().enumerate() {
        assert_eq!(recorder.read[slot], numbers(slot, count).collect::<Vec<_>>());
        machine.arena.free_slot(slot);
    }
    assert!((0..pool_chunks).all(|chunk| machine.arena.owner(chunk).load(Ordering::SeqCst) == 0));
}

/// The pool has more chunks than the queue has room for: the thread waits, as the reader would not
/// find the first one again.
#[test]
fn the_queue_is_never_overrun() {
    check(3, || agents_write(3, &[7]));
}

/// The home chunk, the one of the pool, the home chunk again.
#[test]
fn every_word_arrives_in_order() {
    check(3, || agents_write(1, &[7]));
}

#[test]
fn a_thread_that_has_no_chunk_but_its_own_goes_on() {
    check(3, || agents_write(0, &[5]));
}

#[test]
fn two_threads_share_a_pool() {
    check(2, || agents_write(1, &[3, 3]));
}

/// A recorder that ends wakes those that wait for it.
#[test]
fn nobody_waits_for_a_recorder_that_has_stopped() {
    check(3, || {
        let machine = Machine::new(0);
        let slot = machine.arena.reserve_slot().expect("a free slot");
        let agent = thread::spawn({
            let machine = Arc::clone(&machine);
            move || {
                let mut agent = Agent::start(&machine, slot);
                assert!(!numbers(slot, 4).all(|number| agent.write(number)), "nobody reads");
            }
        });
        machine.arena.control().stopped.store(1, Ordering::SeqCst);
        if machine.arena.slot(slot).room_is_awaited() {
            machine.room.wake();
        }
        agent.join().unwrap();
    });
}

/// A slot that is in use has its bit, whoever frees and takes slots at the same time: the recorder
/// looks at no others.
#[test]
fn slots_in_use_are_seen() {
    check(3, || {
        let machine = Machine::new(0);
        let arena = machine.arena;
        let first = arena.reserve_slot().expect("a free slot");
        assert!(arena.slot(first).activate());
        arena.slot(first).end();
        let makers: Vec<_> = [true, false]
            .into_iter()
            .map(|starts| {
                thread::spawn(move || {
                    if let Some(slot) = arena.reserve_slot() {
                        match starts {
                            true => assert!(arena.slot(slot).activate()),
                            false => arena.slot(slot).give_back(),
                        }
                    }
                })
            })
            .collect();
        let look = || {
            for slot in 0..SLOTS {
                let bit = 1 << slot;
                if arena.control().slot_bits[0].load(Ordering::Acquire) & bit == 0 {
                    continue;
                }
                match arena.slot(slot).state.load(Ordering::Acquire) {
                    slot_state::FREE => arena.look_away(slot),
                    slot_state::ENDED => arena.free_slot(slot),
                    _ => {}
                }
            }
        };
        look();
        makers.into_iter().for_each(|maker| maker.join().unwrap());
        for slot in 0..SLOTS {
            let is_seen = arena.control().slot_bits[0].load(Ordering::SeqCst) & 1 << slot != 0;
            let state = arena.slot(slot).state.load(Ordering::SeqCst);
            assert!(state == slot_state::FREE || is_seen, "slot {slot} in state {state}");
        }
    });
}

/// A slot that a thread has used begins anew for the next one.
#[test]
fn a_slot_is_used_again() {
    check(3, || {
        let machine = Machine::new(0);
        let arena = machine.arena;
        let first = arena.reserve_slot().expect("a free slot");
        assert!(arena.reserve_slot().is_some(), "nobody else finds a free one");
        let mut agent = Agent::start(&machine, first);
        assert!(numbers(first, 1).all(|number| agent.write(number)));
        agent.end();
        let next = thread::spawn({
            let machine = Arc::clone(&machine);
            move || {
                let Some(slot) = arena.reserve_slot() else { return };
                let mut agent = Agent::start(&machine, slot);
                assert_eq!(agent.position, 0, "it begins where the one before has ended");
                assert!(numbers(slot, 1).all(|number| agent.write(number)));
            }
        });
        let mut recorder = Recorder::new(&machine);
        recorder.read(first);
        arena.free_slot(first);
        next.join().unwrap();
    });
}

/// What a thread asks of the supervisor is answered, though that falls asleep at any time.
#[test]
fn requests_are_heard() {
    check(3, || {
        let machine = Machine::new(0);
        let asks = |slot: usize| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || {
                let control = machine.arena.control();
                machine.arena.slot(slot).request.store(1, Ordering::Release);
                control.request_bits[0].fetch_or(1 << slot, Ordering::SeqCst);
                if control.requests.ring() {
                    machine.bell.wake();
                }
            })
        };
        let askers = [asks(0), asks(1)];
        let control = machine.arena.control();
        let mut answered = 0;
        while answered < askers.len() {
            let seen = control.requests.word.load(Ordering::SeqCst);
            let open = control.request_bits[0].swap(0, Ordering::SeqCst);
            for slot in (0..SLOTS).filter(|slot| open & 1 << slot != 0) {
                let asked = machine.arena.slot(slot).request.swap(0, Ordering::Acquire);
                assert_eq!(asked, 1);
                answered += 1;
            }
            if answered < askers.len() {
                if control.requests.before_sleep() == seen {
                    machine.bell.sleep(&control.requests.word, seen);
                }
                control.requests.after_sleep();
            }
        }
        askers.into_iter().for_each(|asker| asker.join().unwrap());
    });
}
