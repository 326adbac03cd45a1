//! Finds the process and program that a gap concerns.

use std::collections::HashMap;

use model::World;
use syscalls::Act;
use trace::event::{Event, EventKind, GapWhy, Outcome, RECORDER};

/// Limit for the processes with a recorded exec.
const PROCESSES_MAX: usize = 64 << 10;
/// Limit for the gaps whose process is searched by its id.
const LOOKS_MAX: usize = 1000;

/// State to find processes and programs of gaps.
#[derive(Default)]
pub struct Programs {
    /// Programs of processes whose exec call did not return.
    executed: HashMap<u32, Vec<u8>>,
    looks: usize,
}

impl Programs {
    /// Records the program of an exec call; `paths` are the call's path arguments.
    pub fn follow(&mut self, event: &Event, world: &World, paths: &[(u8, Vec<u8>)]) {
        let EventKind::Call(call) = &event.kind else { return };
        let (Outcome::Unfinished, Some((_, path))) = (&call.outcome, paths.first()) else { return };
        if executes(call.nr)
            && self.executed.len() < PROCESSES_MAX
            && let Some(thread) = world.thread(event.thread)
        {
            self.executed.insert(thread.process, path.clone());
        }
    }

    /// Returns the process id and the program that a gap concerns, as far as known.
    pub fn behind(
        &mut self,
        world: &World,
        thread: u32,
        why: GapWhy,
        detail: u64,
    ) -> (Option<u32>, Vec<u8>) {
        let number = world.thread(thread).map(|found| found.process);
        if let Some((number, found)) = number.and_then(|n| Some((n, world.process(n)?))) {
            return (Some(found.pid), self.program_of(number, found));
        }
        // For programs that are not followed, `detail` is the process id.
        let pid = u32::try_from(detail).ok().filter(|&pid| pid != 0);
        let pid = pid.filter(|_| thread == RECORDER && why == GapWhy::NotFollowed);
        self.looks += 1;
        let has_it = |(_, process): &(u32, &model::Process)| Some(process.pid) == pid;
        let found = match pid {
            Some(_) if self.looks < LOOKS_MAX => world.processes().find(has_it),
            _ => None,
        };
        let program = found.map(|(number, process)| self.program_of(number, process));
        (pid, program.unwrap_or_default())
    }

    /// Returns the process id and the program of a process that a gap names.
    pub fn named(&self, world: &World, number: u32) -> (Option<u32>, Vec<u8>) {
        let process = world.process(number);
        process.map_or_else(Default::default, |found| {
            (Some(found.pid), self.program_of(number, found))
        })
    }

    fn program_of(&self, number: u32, process: &model::Process) -> Vec<u8> {
        self.executed.get(&number).cloned().unwrap_or_else(|| process.exe.to_vec())
    }
}

fn executes(nr: u16) -> bool {
    syscalls::by_number(nr.into()).is_some_and(|row| row.act == Act::Execute)
}
