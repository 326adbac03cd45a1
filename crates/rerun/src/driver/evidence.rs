//! Why a program may have left the recording: what is seen of it there, before it is ended.

use std::fs;
use std::mem::offset_of;

use ring::Reply;
use syscalls::record::signal_place;
use trace::event::Event;
use trace::parts::{PartValue, part_id};

use super::Driver;
use crate::divergence::{Divergence, Ending, Reason, Stood};
use crate::live::Asked;
use crate::memory::Memory;
use crate::reasons::{maps, why_stuck, why_too_few_files, writable_shared};

/// Maximum number of bytes of a stack, and how many are read at a time.
const STACK_MAX: usize = 1 << 20;
const STACK_PIECE: usize = 4096;

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
        if found.evidence.is_empty() {
            found.evidence.extend(why_too_few_files(fs::read_to_string("/proc/self/limits")));
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
