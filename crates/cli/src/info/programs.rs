//! Which process and program a gap is about.

use std::collections::HashMap;

use model::World;
use trace::event::{Event, EventKind, GapWhy, Outcome, RECORDER};

/// Processes of which it is remembered what they executed.
const PROCESSES_MAX: usize = 64 << 10;
/// Gaps whose process is looked for by its id.
const LOOKS_MAX: usize = 1000;

/// What is needed to tell that.
#[derive(Default)]
pub struct Programs {
    /// What processes executed by a call that did not come back.
    executed: HashMap<u32, Vec<u8>>,
    looks: usize,
}

impl Programs {
    /// Takes note of what an event tells; `paths` are those of its call.
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

    /// The id of the process that a gap is about, and its program; as far as they are known.
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
        // The recorder tells the id.
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

    fn program_of(&self, number: u32, process: &model::Process) -> Vec<u8> {
        self.executed.get(&number).cloned().unwrap_or_else(|| process.exe.to_vec())
    }
}

fn executes(nr: u16) -> bool {
    events::by_number(nr.into()).is_some_and(|row| row.name.starts_with("execve"))
}
