//! Places the agent into an image that is stopped at its first instruction.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

use kin::maps::Mapping;
use ring::{LARGE_PAGE, Slot};

use crate::published::Published;
use crate::{Image, mappings, ptrace};

/// The code segment of 64-bit programs.
const CS_64: u64 = 0x33;
/// Offset of stage 2 below the stack pointer, and its maximum size, both as in the agent.
const STAGE2_BELOW: u64 = 2048;
const STAGE2_ROOM: usize = 1536;
const MAPS_MAX: usize = 4;
const MAP_WORDS: usize = 7;
const SAVED_MAX: usize = 64;
const PAGE: u64 = 4096;

/// Why an image runs unrecorded.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("it is a 32-bit program")]
    NotX86_64,
    #[error("no memory could be shared with it: {0}")]
    NoArena(io::Error),
    #[error("it gains rights when it starts")]
    GainsRights,
    #[error("it needs memory of its own, and the recorder has stopped")]
    Stopped,
    #[error("its memory is not as expected: {0}")]
    Memory(io::Error),
    #[error("its file is on a file system that does not answer, as those of many others are")]
    NoAnswer,
}

/// Where the bootstrap gets its arena from.
pub enum Source {
    /// A segment, attached by its id.
    Segment { id: i32, slot: usize },
    /// A message with all files, read from a socket.
    Message,
}

/// What is to be written into an image that is stopped at its first instruction.
pub struct Plan {
    pid: i32,
    entry: u64,
    stack: u64,
    /// The words behind stage 2, without those of mapped files.
    words: Vec<u64>,
    stage1: Vec<u8>,
    stage2: Vec<u8>,
    /// Executable mappings of files.
    pub mappings: Vec<Mapping>,
}

/// Makes the plan for a thread that is stopped right after its exec.
pub fn plan(
    pid: i32,
    source: &Source,
    pool_chunks: usize,
    hint: u64,
    image: &Image,
    published: &Published,
) -> Result<Plan, Refusal> {
    let registers = ptrace::registers(pid).map_err(Refusal::Memory)?;
    if registers.cs != CS_64 {
        return Err(Refusal::NotX86_64);
    }
    let (arena_id, slot, sent_len) = match *source {
        Source::Segment { id, slot } => (id as u64, slot, 0),
        Source::Message => (0, 0, ring::arena_bytes(pool_chunks)),
    };
    let entry = registers.rip;
    let stage1_len = image.stage1.len();
    assert!(stage1_len <= SAVED_MAX, "stage 1 must fit its save area");
    let mappings = mappings::executable(pid).map_err(Refusal::Memory)?;
    let page = entry & !(PAGE - 1);
    // Keep the protection, however unusual: packed programs have writable text.
    let writable = mappings.iter().any(|mapping| mapping.contains(entry) && mapping.writable);
    let page_prot = if writable { 7 } else { 5 };
    let page_len = (entry + stage1_len as u64).next_multiple_of(PAGE) - page;
    let words = vec![
        published.image.id as u64,
        published.catalog.id as u64,
        arena_id,
        image.shared_len as u64,
        image.total_len as u64,
        image.start,
        slot as u64,
        pool_chunks as u64,
        entry,
        page,
        page_len,
        page_prot,
        stage1_len as u64,
        sent_len as u64,
        0,
        0,
        hint,
        if hint == 0 { near(&mappings, entry, image.total_len as u64) } else { hint },
    ];
    let (stage1, stage2) = (image.stage1.clone(), image.stage2.clone());
    Ok(Plan { pid, entry, stack: registers.rsp, words, stage1, stage2, mappings })
}

/// What the kernel maps below the first program of an image before the agent comes: the vDSO, stages.
const OTHERS: u64 = 1 << 20;

/// An address below what begins with that entry where large pages can be used; 0: any will do. It is as
/// random as that is. If it is not free, the kernel takes another one.
fn near(mappings: &[Mapping], entry: u64, len: u64) -> u64 {
    let begins = mappings.iter().find(|mapping| mapping.contains(entry));
    let begin = begins.map_or(0, |mapping| mapping.start.saturating_sub(mapping.offset));
    let at = begin.saturating_sub(len + OTHERS) & !(LARGE_PAGE as u64 - 1);
    // Further down are the program itself and its heap.
    if at < MAPPED_FROM { 0 } else { at }
}

/// Where the kernel maps what needs no certain address.
const MAPPED_FROM: u64 = 0x7000_0000_0000;

impl Plan {
    /// The process whose image it is for.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Writes the bootstrap. `key` returns the identity of a mapped file. If the text is on a file
    /// system with a server, this blocks until that answers.
    pub fn carry_out(
        &self,
        key: impl Fn(&Mapping) -> Option<mappings::Key>,
    ) -> Result<(), Refusal> {
        let &Plan { pid, entry, stack, ref stage1, ref mappings, .. } = self;
        let (mut words, mut stage2) = (self.words.clone(), self.stage2.clone());
        let memory = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))
            .map_err(Refusal::Memory)?;
        let mut saved = [0u8; SAVED_MAX];
        memory.read_exact_at(&mut saved[..stage1.len()], entry).map_err(Refusal::Memory)?;
        let maps = mappings.iter().filter(|mapping| !mapping.writable).filter_map(|mapping| {
            let key = key(mapping)?;
            Some([mapping.start, mapping.end, mapping.offset, key[0], key[1], key[2], key[3]])
        });
        let maps: Vec<[u64; MAP_WORDS]> = maps.take(MAPS_MAX).collect();
        words.extend(maps.iter().flatten());
        words.resize(words.len() + (MAPS_MAX - maps.len()) * MAP_WORDS, 0);
        stage2.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        stage2.extend(saved);
        assert!(stage2.len() <= STAGE2_ROOM, "stage 2 must fit its room");
        memory
            .write_all_at(&stage2, stack - STAGE2_BELOW)
            .and_then(|()| memory.write_all_at(stage1, entry))
            .map_err(Refusal::Memory)
    }
}

/// At a call stop of the bootstrap: the descriptors that its `socketpair` has returned, or its
/// error. `None` if it has not got there.
pub fn new_pair(pid: i32) -> Option<io::Result<[i32; 2]>> {
    let registers = ptrace::registers(pid).ok()?;
    let result = registers.rax as i64;
    let begins = result == -i64::from(libc::ENOSYS);
    if registers.orig_rax != libc::SYS_socketpair as u64 || begins {
        return None;
    }
    if result != 0 {
        return Some(Err(io::Error::from_raw_os_error(-result as i32)));
    }
    let mut bytes = [0; 8];
    let memory = File::open(format!("/proc/{pid}/mem"));
    let read = memory.and_then(|memory| memory.read_exact_at(&mut bytes, registers.r10));
    let word =
        |at: usize| i32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Some(read.map(|()| [word(0), word(4)]))
}

/// The process number that a slot holds.
pub fn process_number(slot: &Slot) -> u32 {
    slot.process.load(std::sync::atomic::Ordering::Relaxed)
}
