//! Chains of callers: found by unwinding a copy of the stack of each call, by the tables of the files
//! that its process has mapped.

mod maps;
mod modules;
mod seen;

use std::collections::HashMap;
use std::sync::Arc;

use framehop::Unwinder;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64};
use syscalls::abi::memory::{MAP_ANONYMOUS, PROT_EXEC};
use trace::event::{EventKind, StartHow};

use crate::mailbox::Mailbox;
pub(crate) use maps::Base;
use maps::Maps;
use modules::Modules;

pub(crate) use seen::{Seen, SeenMaps};

/// Processes whose mappings are known.
const PROCESSES_MAX: usize = 1 << 13;
/// Threads whose processes are known.
const THREADS_MAX: usize = 1 << 17;
/// Words of registers before the stack.
const REGISTERS: usize = 3;

/// What is kept of a chain of callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// So many, the innermost first.
    Chain(usize),
    /// The one at this depth.
    Depth(usize),
    /// The first one in a file of this name.
    Module(String),
    /// The first one between these addresses.
    Range(u64, u64),
}

/// What is recorded of stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackOptions {
    /// Bytes that agents copy of each.
    pub bytes: u32,
    /// What is kept.
    pub kept: Kept,
}

/// Callers that are followed.
pub const CALLERS_MAX: usize = 256;

/// Finds chains of callers.
pub(crate) struct Stacks {
    kept: Kept,
    mailbox: Arc<Mailbox>,
    modules: Modules,
    processes: HashMap<u32, Maps>,
    threads: HashMap<u32, u32>,
    cache: CacheX86_64,
}

impl Stacks {
    pub fn new(options: &StackOptions, mailbox: Arc<Mailbox>) -> Stacks {
        Stacks {
            kept: options.kept.clone(),
            mailbox,
            modules: Modules::default(),
            processes: HashMap::new(),
            threads: HashMap::new(),
            cache: CacheX86_64::new(),
        }
    }

    /// Follows the lives of processes.
    pub fn event(&mut self, kind: &EventKind, thread: u32) {
        match kind {
            EventKind::Start { how, process, parent, pid, .. } => {
                if self.threads.len() < THREADS_MAX {
                    self.threads.insert(thread, *process);
                }
                if *how == StartHow::Thread || self.processes.len() >= PROCESSES_MAX {
                    return;
                }
                // Until it begins a program it has what its parent has.
                let parent = self.threads.get(parent);
                let maps = parent.and_then(|parent| self.processes.get(parent));
                let maps = maps.map_or_else(|| Maps::new(*pid), |maps| maps.of_child(*pid));
                self.processes.insert(*process, maps);
            }
            EventKind::Image { .. } => {
                let Some(process) = self.threads.get(&thread) else { return };
                let Some(maps) = self.processes.get_mut(process) else { return };
                maps.begins_program(self.mailbox.maps.take(*process));
            }
            EventKind::End { .. } => {
                self.threads.remove(&thread);
            }
            EventKind::Exit { process, .. } => {
                self.processes.remove(process);
            }
            _ => {}
        }
    }

    /// A process has opened a file: what it maps by that descriptor is known by its path.
    pub fn opened(&mut self, process: u32, descriptor: i64, from: Base, path: &[u8]) {
        if let Some(maps) = self.processes.get_mut(&process) {
            maps.opened(descriptor, from, path);
        }
    }

    /// A process works in another directory: a path, or none for that of a descriptor.
    pub fn moved(&mut self, process: u32, from: Base, path: &[u8]) {
        if let Some(maps) = self.processes.get_mut(&process) {
            maps.moved(from, path);
        }
    }

    /// A process has mapped memory.
    pub fn mapped(&mut self, process: u32, args: &[u64; 6], at: u64) {
        let [_, length, protection, flags, descriptor, offset] = *args;
        if protection & PROT_EXEC == 0 || flags & MAP_ANONYMOUS != 0 {
            return;
        }
        if let Some(maps) = self.processes.get_mut(&process) {
            maps.mapped(at..at.saturating_add(length), offset, descriptor as i64);
        }
    }

    /// Finds the callers of a call, the innermost first, and keeps what is wanted of them.
    pub fn callers(&mut self, process: u32, copy: &[u8]) -> Vec<u64> {
        let words = copy.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut words = words.collect::<Vec<u64>>();
        if words.len() <= REGISTERS {
            return Vec::new();
        }
        let stack = words.split_off(REGISTERS);
        let [site, sp, fp] = [words[0], words[1], words[2]];
        let Some(maps) = self.processes.get_mut(&process) else { return Vec::new() };
        maps.make_ready(site, &mut self.modules);
        let most = match self.kept {
            Kept::Chain(most) => most,
            _ => CALLERS_MAX,
        };
        let found = unwound(maps, [site, sp, fp], &stack, &mut self.cache, most);
        match &self.kept {
            Kept::Chain(_) => found,
            Kept::Depth(depth) => found.get(*depth).copied().into_iter().collect(),
            Kept::Module(name) => {
                let is_in = |address: &&u64| maps.is_in_module(**address, name);
                found.iter().find(is_in).copied().into_iter().collect()
            }
            Kept::Range(from, to) => {
                found.iter().find(|at| (*from..*to).contains(*at)).copied().into_iter().collect()
            }
        }
    }
}

/// The callers of who stands there, the innermost first: `stack` is what lies from its pointer on.
fn unwound(
    maps: &Maps,
    [site, sp, fp]: [u64; REGISTERS],
    stack: &[u64],
    cache: &mut CacheX86_64,
    most: usize,
) -> Vec<u64> {
    let mut read = |address: u64| {
        let place = address.checked_sub(sp).filter(|at| at.is_multiple_of(8)).ok_or(())?;
        stack.get((place / 8) as usize).copied().ok_or(())
    };
    let registers = UnwindRegsX86_64::new(site, sp, fp);
    let mut found = Vec::new();
    let mut frames = maps.unwinder().iter_frames(site, registers, cache, &mut read);
    // The first one is the call itself. An error ends it: the copy was too short, or no table
    // tells how to go on.
    let _ = frames.next();
    while let Ok(Some(frame)) = frames.next() {
        let address = frame.address();
        if found.len() >= most || address == 0 {
            break;
        }
        found.push(address);
    }
    found
}

/// A place in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Its address.
    pub address: u64,
    /// The file that is mapped there, and where in it.
    pub file: Option<(Vec<u8>, u64)>,
}

/// Where a thread stands, and from where it was called, the innermost one first. `registers` are the place,
/// the stack pointer, and the register that may be a frame pointer; `stack` is what lies from that pointer on,
/// `maps` what /proc/PID/maps says.
pub fn callers_of(registers: [u64; REGISTERS], stack: &[u8], maps: &[u8]) -> Vec<Caller> {
    let (mut known, mut modules) = (Maps::new(0), Modules::default());
    known.begins_program(Some(Seen { maps: maps.to_vec(), ..Seen::default() }));
    known.make_ready(registers[0], &mut modules);
    let stack = stack.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    let stack: Vec<u64> = stack.collect();
    let found = unwound(&known, registers, &stack, &mut CacheX86_64::new(), CALLERS_MAX);
    let caller = |address| Caller { address, file: known.place(address) };
    std::iter::once(registers[0]).chain(found).map(caller).collect()
}
