//! Processes in their own user namespaces, where owners have other ids.

use std::collections::HashSet;

use model::Contents;
use syscalls::Act;
use syscalls::abi::tasks::CLONE_NEWUSER;
use trace::event::{Call, Outcome};

/// Most threads whose process in a new namespace has not shown up.
const MAKERS_MAX: usize = 4096;

/// The set of these processes.
#[derive(Default)]
pub struct Foreign {
    processes: HashSet<u32>,
    /// Threads whose next child is in a new namespace.
    makers: HashSet<u32>,
}

impl Foreign {
    /// Whether a process is in its own namespace.
    pub fn has(&self, process: u32) -> bool {
        self.processes.contains(&process)
    }

    /// Notes a call that enters such a namespace, or creates a process in one.
    pub fn called(
        &mut self,
        thread: u32,
        process: Option<u32>,
        call: &Call,
        contents: &mut dyn Contents,
    ) {
        let Outcome::Returned { ret: 0.., .. } = call.outcome else { return };
        match syscalls::by_number(u64::from(call.nr)).map_or(Act::Plain, |row| row.act) {
            Act::Unshare if call.args[0] & CLONE_NEWUSER != 0 => self.processes.extend(process),
            Act::Spawn if self.makers.len() < MAKERS_MAX => {
                let flags = model::spawn_flags(call, contents);
                if flags.is_some_and(|flags| flags & CLONE_NEWUSER != 0) {
                    self.makers.insert(thread);
                }
            }
            _ => {}
        }
    }

    /// A process starts, created by the thread `parent` of the process `maker`.
    pub fn started(&mut self, process: u32, parent: u32, maker: Option<u32>) {
        let made_so = self.makers.remove(&parent);
        if made_so || maker.is_some_and(|maker| self.has(maker)) {
            self.processes.insert(process);
        }
    }

    /// A process has ended.
    pub fn exited(&mut self, process: u32) {
        self.processes.remove(&process);
    }
}
