//! Which events of the kernel say to whom a thread belongs.

use std::fmt;

use syscalls::abi::tasks::CLONE_THREAD;
use trace::event::{EventKind, KernelEvent};
use trace::kernel::{KernelLayout, KernelLayouts};

use crate::happenings::{Happening, Happenings};
use crate::kernel_tasks::KernelTask;

/// To whom a thread belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Owner {
    /// A process.
    Process(u32),
    /// The process of the thread that made it.
    Maker(u32),
}

/// Reads what events say of threads.
#[derive(Default)]
pub struct KernelBirths {
    /// Numbers of the layouts that tell of new threads and programs: of few events only it is looked what
    /// they mean.
    telling: Vec<u32>,
    happenings: Happenings,
}

impl fmt::Debug for KernelBirths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelBirths").field("telling", &self.telling).finish_non_exhaustive()
    }
}

impl KernelBirths {
    /// Knows these kinds of events.
    pub fn new(layouts: &KernelLayouts) -> KernelBirths {
        let telling = layouts.iter().filter(|layout| tells(layout)).map(|layout| layout.number);
        KernelBirths { telling: telling.collect(), happenings: Happenings::new(layouts) }
    }

    /// Learns of a kind of event, the last one of `all`.
    pub fn layout(&mut self, layout: &KernelLayout, all: &KernelLayouts) {
        if tells(layout) && !self.telling.contains(&layout.number) {
            *self = KernelBirths::new(all);
        }
    }

    /// Returns the thread of which an event says to whom it belongs.
    #[inline]
    pub fn of(&self, event: &EventKind) -> Option<(u32, Owner)> {
        match event {
            EventKind::Kernel(kernel) => self.of_kernel(kernel),
            EventKind::Other(other) => {
                let told = KernelTask::of(other)?;
                Some((told.task, Owner::Process(told.process)))
            }
            _ => None,
        }
    }

    /// The same of an event of the kernel.
    #[inline]
    pub fn of_kernel(&self, event: &KernelEvent) -> Option<(u32, Owner)> {
        if self.telling.contains(&event.layout) { self.read(event) } else { None }
    }

    fn read(&self, event: &KernelEvent) -> Option<(u32, Owner)> {
        match self.happenings.read(event.layout, &event.values)? {
            Happening::Make { task, flags } if flags & CLONE_THREAD != 0 => {
                Some((task, Owner::Maker(event.task)))
            }
            Happening::Make { task, .. } => Some((task, Owner::Process(task))),
            // Who begins a program is the first thread of its process from then on.
            Happening::Exec { task, .. } => Some((task, Owner::Process(task))),
            _ => None,
        }
    }
}

fn tells(layout: &KernelLayout) -> bool {
    let names = (layout.system.as_str(), layout.name.as_str());
    matches!(names, ("task", "task_newtask") | ("sched", "sched_process_exec"))
}
