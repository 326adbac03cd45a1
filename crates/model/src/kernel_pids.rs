//! To which process each thread of the machine belongs, by the numbers that the kernel's events have.

use std::fmt;

use trace::event::{KernelEvent, OtherEvent};
use trace::kernel::{KernelLayout, KernelLayouts};

use crate::kernel_births::{KernelBirths, Owner};
use crate::kernel_tasks::KernelTask;

/// Highest id of a thread, and one more: the kernel gives no higher ones.
const IDS_MAX: usize = 1 << 22;

/// The processes of threads, as far as the events of the kernel have been read, in their order.
#[derive(Default)]
pub struct KernelPids {
    /// By thread; 0 if it is not known.
    of: Vec<u32>,
    births: KernelBirths,
}

impl fmt::Debug for KernelPids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelPids").field("threads", &self.of.len()).finish_non_exhaustive()
    }
}

impl KernelPids {
    /// The process of a thread, if it is known.
    #[inline]
    pub fn of(&self, task: u32) -> Option<u32> {
        self.of.get(task as usize).copied().filter(|pid| *pid != 0)
    }

    /// Learns of a kind of event.
    pub fn layout(&mut self, layout: &KernelLayout, all: &KernelLayouts) {
        self.births.layout(layout, all);
    }

    /// Takes what the recorder says of a thread.
    pub fn told(&mut self, event: &OtherEvent) {
        if let Some(task) = KernelTask::of(event) {
            self.note(task.task, task.process);
        }
    }

    /// Takes an event of the kernel.
    #[inline]
    pub fn event(&mut self, event: &KernelEvent) {
        match self.births.of_kernel(event) {
            None => {}
            Some((task, Owner::Process(process))) => self.note(task, process),
            Some((task, Owner::Maker(maker))) => self.note(task, self.of(maker).unwrap_or(0)),
        }
    }

    fn note(&mut self, task: u32, process: u32) {
        let at = task as usize;
        if at == 0 || at >= IDS_MAX {
            return;
        }
        if at >= self.of.len() {
            self.of.resize((at + 1).next_power_of_two(), 0);
        }
        self.of[at] = process;
    }
}

#[cfg(test)]
mod tests {
    use syscalls::abi::tasks::CLONE_THREAD;
    use trace::event_table::row_of;
    use trace::format::event_number;
    use trace::kernel::{KernelField, KernelKind, KernelValue, put_value};

    use super::*;

    #[test]
    fn threads_and_processes_are_told_apart() {
        let field = |name: &str| KernelField {
            name: name.into(),
            c_type: String::new(),
            kind: KernelKind::Unsigned,
            size: 8,
        };
        let layout = KernelLayout {
            number: 5,
            system: "task".into(),
            name: "task_newtask".into(),
            fields: ["pid", "clone_flags"].map(field).to_vec(),
            words: Vec::new(),
        };
        let (mut all, mut pids) = (KernelLayouts::default(), KernelPids::default());
        all.add(&layout);
        pids.layout(&layout, &all);
        let row = row_of(event_number::KERNEL_TASK).unwrap();
        let known = KernelTask { task: 7, process: 6, ..KernelTask::default() };
        pids.told(&known.event(row));
        let makes = |task: u64, flags: u64| {
            let mut values = Vec::new();
            for number in [task, flags] {
                put_value(&mut values, KernelValue::Unsigned(number));
            }
            KernelEvent { layout: 5, task: 7, flags: 0, values }
        };
        pids.event(&makes(8, CLONE_THREAD));
        pids.event(&makes(9, 0));
        pids.event(&makes(u64::from(u32::MAX), 0));
        assert_eq!(
            [7, 8, 9, 10, u32::MAX].map(|task| pids.of(task)),
            [Some(6), Some(6), Some(9), None, None]
        );
    }
}
