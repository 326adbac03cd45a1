//! What the supervisor knows, and what all of its parts need.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use kin::{Kin, status};
use ring::{Arena, SLOTS, Settings, Slot};

use crate::analyst::Analyst;
use crate::domain::Domains;
use crate::done::Done;
use crate::guests::Guests;
use crate::large_pages::LargePages;
use crate::mounts::Mounts;
use crate::published::{Published, Sendable};
use crate::request::{Request, Waiting, reply_to};
use crate::tracee::Tracee;
use crate::unfinished::{Move, Placing};
use crate::{Error, Image, place, profiles};

/// Launches a program and follows its execs.
pub struct Supervisor {
    pub(crate) image: Image,
    pub(crate) published: Published,
    /// Made for the first thread that cannot attach segments.
    pub(crate) sendable: Option<Sendable>,
    pub(crate) domains: Domains,
    pub(crate) guests: Guests,
    pub(crate) analyst: Analyst,
    pub(crate) tracees: HashMap<i32, Tracee>,
    pub(crate) program: i32,
    pub(crate) program_status: Option<i32>,
    pub(crate) kin: Kin,
    pub(crate) waiting: Vec<Waiting>,
    /// Whether the program has reached its first instruction.
    pub(crate) program_began: bool,
    pub(crate) order: Option<Order>,
    /// By slot index.
    pub(crate) moves: HashMap<usize, Move>,
    pub(crate) placings: HashMap<i32, Placing>,
    pub(crate) mounts: Mounts,
    pub(crate) large_pages: LargePages,
}

/// Requests to end, by signals, which are also passed on to the program while it runs.
pub(crate) struct Order {
    pub(crate) times: u32,
    /// The last such signal.
    pub(crate) signal: i32,
    pub(crate) last: Option<Instant>,
}

impl Supervisor {
    /// Prepares the shared memory. `agent` is the agent's ELF file.
    pub fn new(agent: &[u8], pool_bytes: usize) -> Result<Supervisor, Error> {
        if !status::proc_is_ours() {
            return Err(Error::ForeignProc);
        }
        let image = Image::parse(agent)?;
        let published = Published::new(&image)?;
        let domains = Domains::new(&kin::own_credentials(), pool_bytes)?;
        // A process needs one access to a large page to have what it would need hundreds for.
        let code = published.image.large_pages(&[0]);
        let mut large_pages = LargePages::default();
        large_pages.use_soon(&code.chain(domains.first().large_pages()).collect::<Vec<_>>());
        let kin = Kin::default();
        kin.add_arena(domains.first().mapped());
        Ok(Supervisor {
            image,
            analyst: Analyst::start(published.catalog())?,
            published,
            sendable: None,
            domains,
            guests: Guests::default(),
            tracees: HashMap::new(),
            program: 0,
            program_status: None,
            kin,
            waiting: Vec::new(),
            program_began: false,
            order: None,
            moves: HashMap::new(),
            placings: HashMap::new(),
            mounts: Mounts::new(),
            large_pages,
        })
    }

    /// The arena of programs that run as our user.
    pub fn arena(&self) -> Arena {
        self.domains.first().arena
    }

    /// Tells all agents what to capture. To be called before the launch.
    pub fn set(&self, settings: &Settings) {
        self.arena().control().set(settings);
    }

    /// Returns the flag that ends `serve`.
    pub fn done(&self) -> Arc<Done> {
        Arc::new(Done::new(self.arena()))
    }

    /// Knows which processes are ours.
    pub fn kin(&self) -> Kin {
        self.kin.clone()
    }

    pub(crate) fn arenas(&self) -> impl Iterator<Item = Arena> {
        self.domains.iter().map(|domain| domain.arena)
    }

    pub(crate) fn slot(&self, index: usize) -> &'static Slot {
        self.domains.get(index / SLOTS).arena.slot(index % SLOTS)
    }

    pub(crate) fn catalogs(&self) -> Vec<ring::Catalog> {
        let sendable = self.sendable.as_ref().map(|sendable| sendable.catalog);
        std::iter::once(self.published.catalog()).chain(sendable).collect()
    }

    pub(crate) fn reply(&self, request: Request, reply: u32) {
        reply_to(self.slot(request.index), request, reply);
    }

    /// The id of a slot's thread in our namespace; `None` if its process was not found yet.
    pub(crate) fn thread_in(&self, slot: &Slot) -> Option<i32> {
        self.global_tid(slot, slot.tid.load(Ordering::Relaxed))
    }

    /// The id in our namespace of a thread of the slot's process.
    pub(crate) fn global_tid(&self, slot: &Slot, tid: u32) -> Option<i32> {
        if slot.foreign_pid.load(Ordering::Relaxed) == 0 {
            return i32::try_from(tid).ok();
        }
        self.kin.placed_thread(slot.process.load(Ordering::Relaxed), tid.cast_signed())
    }

    /// The process number in a slot, if its programs may use it; otherwise 0.
    pub(crate) fn process_in(&self, slot: usize) -> u32 {
        let process = place::process_number(self.slot(slot));
        if self.guests.may_name(slot / SLOTS, process) { process } else { 0 }
    }

    /// Creates the image and catalog that are sent to programs that cannot attach segments.
    pub(crate) fn make_sendable(&mut self) -> std::io::Result<()> {
        if self.sendable.is_none() {
            let sendable = Sendable::new(&self.image)?;
            self.analyst.mirror(sendable.catalog);
            profiles::copy(&self.published.catalog(), &sendable.catalog);
            self.sendable = Some(sendable);
        }
        Ok(())
    }

    /// Returns a function that wakes the loop from another thread.
    pub(crate) fn bell(&self) -> impl FnOnce() + Send + 'static {
        let word = &self.arena().control().requests.word;
        move || {
            word.fetch_add(1, Ordering::SeqCst);
            // SAFETY: FUTEX_WAKE does not access memory, and the arena stays mapped.
            unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
        }
    }
}
