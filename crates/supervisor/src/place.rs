//! Places the agent into an image that stands at its first instruction.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use ring::Slot;

use crate::{Image, Segments, kin, modules, ptrace};

/// The code segment of 64-bit programs.
const CS_64: u64 = 0x33;
/// Where below the stack stage 2 waits, and how many bytes it may have. As in the agent.
const STAGE2_BELOW: u64 = 2048;
const STAGE2_ROOM: usize = 1024;
const MAPS_MAX: usize = 4;
const MAP_WORDS: usize = 7;
const SAVED_MAX: usize = 64;
const PAGE: u64 = 4096;

/// Why an image runs unrecorded.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("it runs as another user than the one who started it")]
    OtherUser,
    #[error("it is a 32-bit program")]
    NotX86_64,
    #[error("it runs in another IPC namespace, where the rings cannot be attached")]
    IpcNamespace,
    #[error("its memory is not as expected: {0}")]
    Memory(io::Error),
}

/// An executable mapping.
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    dev: (u64, u64),
    ino: u64,
    path: String,
    writable: bool,
}

/// Writes the bootstrap. The thread is stopped right after its exec.
pub fn place(
    pid: i32,
    slot_index: usize,
    image: &Image,
    segments: &Segments,
) -> Result<(), Refusal> {
    let registers = ptrace::registers(pid).map_err(Refusal::Memory)?;
    if registers.cs != CS_64 {
        return Err(Refusal::NotX86_64);
    }
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/ipc")).ok();
    if namespace(&pid.to_string()) != namespace("self") {
        return Err(Refusal::IpcNamespace);
    }
    segments.admit(kin::owner(pid).map_err(Refusal::Memory)?);
    let memory = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{pid}/mem"))
        .map_err(Refusal::Memory)?;
    let entry = registers.rip;
    let mut saved = [0u8; SAVED_MAX];
    let stage1_len = image.stage1.len();
    assert!(stage1_len <= SAVED_MAX, "stage 1 must fit its save area");
    memory.read_exact_at(&mut saved[..stage1_len], entry).map_err(Refusal::Memory)?;
    let mappings = executable_mappings(pid).map_err(Refusal::Memory)?;
    let page = entry & !(PAGE - 1);
    // As it was, however unusual: packed programs have text that can be written.
    let writable = mappings.iter().any(|m| (m.start..m.end).contains(&entry) && m.writable);
    let page_prot = if writable { 7 } else { 5 };
    let page_len = (entry + stage1_len as u64).next_multiple_of(PAGE) - page;
    let mut words = vec![
        segments.image_id() as u64,
        segments.arena_id() as u64,
        image.bytes.len() as u64,
        image.total_len as u64,
        image.start,
        slot_index as u64,
        entry,
        page,
        page_len,
        page_prot,
        stage1_len as u64,
    ];
    let maps = mappings.iter().filter(|mapping| !mapping.writable).filter_map(|mapping| {
        let key = modules::key_of(&open_mapped(pid, mapping)?)?;
        Some([mapping.start, mapping.end, mapping.offset, key[0], key[1], key[2], key[3]])
    });
    let maps: Vec<[u64; MAP_WORDS]> = maps.take(MAPS_MAX).collect();
    words.extend(maps.iter().flatten());
    words.resize(words.len() + (MAPS_MAX - maps.len()) * MAP_WORDS, 0);
    let mut stage2 = image.stage2.clone();
    stage2.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    stage2.extend(saved);
    assert!(stage2.len() <= STAGE2_ROOM, "stage 2 must fit its room");
    memory
        .write_all_at(&stage2, registers.rsp - STAGE2_BELOW)
        .and_then(|()| memory.write_all_at(&image.stage1, entry))
        .map_err(Refusal::Memory)
}

fn executable_mappings(pid: i32) -> io::Result<Vec<Mapping>> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    Ok(text.lines().filter_map(parse_mapping).collect())
}

/// One line of /proc/PID/maps, if it is an executable mapping of a file.
fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let rights = fields.next()?;
    let offset = fields.next()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let ino = fields.next()?.parse().ok()?;
    let path = fields.next()?.trim_start().to_owned();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mapping = Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        dev: (hex(major)?, hex(minor)?),
        ino,
        path,
        writable: rights.as_bytes().get(1) == Some(&b'w'),
    };
    (rights.as_bytes().get(2) == Some(&b'x') && mapping.path.starts_with('/')).then_some(mapping)
}

/// Opens the file behind a mapping as the process sees it, if it still is that file.
fn open_mapped(pid: i32, mapping: &Mapping) -> Option<File> {
    let file = File::open(format!("/proc/{pid}/root{}", mapping.path)).ok()?;
    let meta = file.metadata().ok()?;
    let dev = (u64::from(libc::major(meta.dev())), u64::from(libc::minor(meta.dev())));
    (meta.ino() == mapping.ino && dev == mapping.dev).then_some(file)
}

/// Opens the file whose text is mapped at an address of a process.
pub fn open_mapped_at(pid: i32, address: u64) -> Option<File> {
    let mappings = executable_mappings(pid).ok()?;
    let mapping = mappings.iter().find(|m| (m.start..m.end).contains(&address))?;
    open_mapped(pid, mapping)
}

/// What a slot tells about its thread, for messages.
pub fn process_number(slot: &Slot) -> u32 {
    slot.process.load(std::sync::atomic::Ordering::Relaxed)
}
