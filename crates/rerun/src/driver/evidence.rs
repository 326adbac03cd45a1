//! Why a program may have left the recording: what is seen of it there, before it is ended.

use std::fs;
use std::io::Read;
use std::mem::offset_of;
use std::time::Duration;

use render::escape::escaped;
use ring::Reply;
use syscalls::record::signal_place;
use trace::event::Event;
use trace::parts::{PartValue, part_id};

use super::Driver;
use crate::divergence::{Divergence, Ending, Reason, Stood};
use crate::first_image::{ImageStack, STACK_END};
use crate::live::Asked;
use crate::memory::Memory;

/// Maximum size of a text of /proc/PID/maps.
const MAPS_MAX: u64 = 16 << 20;
/// Maximum number of bytes of a stack, and how many are read at a time.
const STACK_MAX: usize = 1 << 20;
const STACK_PIECE: usize = 4096;
/// Who has a CPU for this part of the time computes.
const COMPUTES: f64 = 0.1;

/// What was recorded of a thread, and cannot be repeated to the instruction.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Interrupted {
    /// How often it was stopped between two calls, for others to run.
    slices: u64,
    /// How often a signal arrived between two calls.
    signals: u64,
}

impl Driver<'_> {
    /// A thread was stopped between two calls.
    pub(super) fn note_slice(&mut self, recorded: u32) {
        self.interrupted.entry(recorded).or_default().slices += 1;
    }

    /// A signal has arrived.
    pub(super) fn note_signal(&mut self, event: &Event) {
        let place = event.parts().iter().find(|part| part.id == part_id::SIGNAL_PLACE);
        let between = PartValue::Number(signal_place::BETWEEN_CALLS.into());
        if place.is_some_and(|part| part.value == between) {
            self.interrupted.entry(event.thread).or_default().signals += 1;
        }
    }

    /// Has a thread wait on: who gets no answer any more ends, and could not be looked at.
    pub(super) fn keep(&mut self, asked: Asked, ending: Ending) -> Ending {
        self.left.push(asked);
        ending
    }

    /// Completes what is known of a divergence, while its thread is there.
    pub(super) fn look_around(&mut self, found: &mut Divergence) {
        found.position = self.position;
        let doubts = self.shadows.doubts();
        // Whatever files hold, it begins the same.
        if !matches!(found.reason, Reason::Image(_) | Reason::Memory { .. }) {
            found.evidence.extend(doubts);
        }
        found.evidence.extend(self.own_evidence(found));
        found.stood = self.stood(found.thread).map(Box::new);
        if let Some(text) = found.stood.as_ref().and_then(|stood| self.shared(stood)) {
            found.evidence.push(text);
        }
    }

    fn own_evidence(&self, found: &Divergence) -> Vec<String> {
        let mut all = Vec::new();
        match &found.reason {
            Reason::Stuck { seconds, had } => {
                all.extend(had.map(|had| why_stuck(*seconds, had)));
                return all;
            }
            Reason::Peer(_) if self.player.as_ref().is_some_and(|player| player.is_live()) => all
                .push(
                    "another client, one that asks by time or chance, or one with several \
                     connections at a time, which come in another order: it was run again"
                        .into(),
                ),
            Reason::Memory { is_forbidden: true, .. } => {
                all.push("ptrace is forbidden here".into())
            }
            _ => {}
        }
        if self.other_processor {
            all.push("the processor has other features than the recorded one".into());
        }
        let mine = |recorded: &u32| self.is_of_same_process(*recorded, found.thread);
        let of_process = self.interrupted.iter().filter(|(recorded, _)| mine(recorded));
        let slices: u64 = of_process.map(|(_, of)| of.slices).sum();
        if slices > 0 {
            all.push(format!(
                "its threads race: {slices} times before, one that made no call was stopped for others to run, \
                 which is not repeated to the instruction"
            ));
        }
        let signals = self.interrupted.get(&found.thread).map_or(0, |of| of.signals);
        if signals > 0 {
            all.push(format!(
                "{signals} signals before had arrived in its code, between two calls: they come at the end of \
                 the call before"
            ));
        }
        all
    }

    fn is_of_same_process(&self, one: u32, other: u32) -> bool {
        let pid = |recorded: u32| {
            let thread = self.numbers.get(&recorded)?;
            self.threads.get(thread).map(|live| live.pid)
        };
        one == other || pid(one).is_some_and(|pid_of_one| pid(other) == Some(pid_of_one))
    }

    /// The stack of a thread that waits for an answer.
    fn stood(&mut self, recorded: u32) -> Option<Stood> {
        let live = self.live(recorded)?;
        let (pid, memory, reply_at) = (live.pid, Memory { tid: live.tid }, live.reply_at?);
        let at = reply_at.wrapping_add(offset_of!(Reply, site) as u64);
        let bytes = memory.read(at, size_of::<[u64; 3]>()).ok()?;
        let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        let (site, sp, fp) = (words.next()?, words.next()?, words.next()?);
        let mut stack = Vec::new();
        while stack.len() < STACK_MAX {
            let from = sp.wrapping_add(stack.len() as u64);
            let piece = STACK_PIECE - (from as usize & (STACK_PIECE - 1));
            match memory.read(from, piece) {
                Ok(bytes) => stack.extend(bytes),
                Err(_) => break,
            }
        }
        let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        Some(Stood { pid, exe, site, sp, fp, stack, maps: maps(pid)? })
    }

    /// Whether a thread shares memory, that it may write to, with another process that is there.
    fn shared(&self, stood: &Stood) -> Option<String> {
        let own: Vec<&[u8]> = writable_shared(&stood.maps).collect();
        if own.is_empty() {
            return None;
        }
        let others = self.threads.values().map(|live| live.pid).filter(|pid| *pid != stood.pid);
        let mut others: Vec<i32> = others.collect();
        others.sort_unstable();
        others.dedup();
        let has_same = |pid: &i32| {
            maps(*pid).is_some_and(|text| writable_shared(&text).any(|file| own.contains(&file)))
        };
        others.iter().any(has_same).then(|| {
            "it shares memory with another process, and it is not recorded who was first there"
                .into()
        })
    }
}

/// Why a program may begin otherwise than it did: its stack begins here.
pub(super) fn why_otherwise(
    expected: &ImageStack,
    memory: Memory,
    pid: i32,
    stack: u64,
) -> Vec<String> {
    let mut all = Vec::new();
    let text = maps(pid).unwrap_or_default();
    let mut lines = text.split(|byte| *byte == b'\n');
    let of_stack = lines.find(|line| line.ends_with(b"[stack]"));
    let end = of_stack.and_then(|line| {
        let range = line.split(|byte| *byte == b' ').next()?;
        let (_, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
        u64::from_str_radix(end, 16).ok()
    });
    let Some(end) = end else { return all };
    if end != STACK_END {
        all.push("its addresses are random, which cannot be turned off here".into());
    }
    let size = end.saturating_sub(stack).min(STACK_MAX as u64) as usize;
    let Ok(bytes) = memory.read(stack, size) else { return all };
    let found = ImageStack { bytes, at: stack };
    if let (Some(was), Some(is)) = (expected.first_argument(), found.first_argument())
        && was != is
    {
        let [was, is] = [was, is].map(|word| escaped(word.as_bytes()));
        all.push(format!(
            "it is executed as {is}, and was as {was}, as the first line of a script may say (#!)"
        ));
    }
    all
}

fn why_stuck(seconds: u64, had: Duration) -> String {
    let had = had.as_secs_f64();
    match had >= seconds as f64 * COMPUTES {
        true => format!(
            "it computes ({had:.1} s of CPU time meanwhile): for something in its memory that no call changes, \
             or much longer than when it was recorded"
        ),
        false => format!(
            "it hardly computes ({had:.1} s of CPU time meanwhile): it is stopped, or has no CPU"
        ),
    }
}

fn maps(pid: i32) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = fs::File::open(format!("/proc/{pid}/maps")).ok()?;
    file.take(MAPS_MAX).read_to_end(&mut text).ok()?;
    (!text.is_empty()).then_some(text)
}

/// Device and inode of what is mapped to be written to and shared, but for our own memory.
fn writable_shared(maps: &[u8]) -> impl Iterator<Item = &[u8]> {
    // No program is executed again that has segments of its own.
    const SEGMENT: &[u8] = b"/SYSV";
    maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line.splitn(6, |byte| *byte == b' ');
        let (_, rights, _) = (words.next()?, words.next()?, words.next()?);
        let (device, inode, path) = (words.next()?, words.next()?, words.next().unwrap_or(b""));
        let is_it = rights.starts_with(b"rw") && rights.get(3) == Some(&b's');
        if !is_it || path.trim_ascii_start().starts_with(SEGMENT) {
            return None;
        }
        // Both stand beside each other.
        let from = device.as_ptr() as usize - line.as_ptr() as usize;
        line.get(from..from + device.len() + 1 + inode.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_told_from_private_and_own_memory() {
        let text = b"1000-2000 rw-s 00000000 00:01 77   /dev/zero (deleted)\n\
            2000-3000 rw-p 00000000 08:01 78   /lib/a\n3000-4000 r--s 00000000 08:01 79   /lib/b\n\
            4000-5000 rw-s 00000000 00:01 80   /SYSV00000000 (deleted)\nnothing\n";
        assert_eq!(writable_shared(text).collect::<Vec<_>>(), [b"00:01 77"]);
    }

    #[test]
    fn who_is_stuck_computes_or_not() {
        assert!(why_stuck(10, Duration::from_secs(9)).starts_with("it computes (9.0 s"));
        assert!(why_stuck(10, Duration::from_millis(900)).starts_with("it hardly computes"));
    }
}
