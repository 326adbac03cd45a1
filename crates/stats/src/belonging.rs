//! To which process each thread of the machine belongs, by its id: of all events, in whatever order they
//! come.

use std::collections::HashMap;

use model::kernel_births::{KernelBirths, Owner};
use trace::event::Event;
use trace::kernel::KernelLayouts;

use crate::pass::{Visit, Watch};

/// Threads that are known.
const TASKS_MAX: usize = 1 << 16;
/// Threads that made one another, from the last one back.
const MAKERS_MAX: usize = 64;

/// What is known of threads. An id that was given again is its last one's.
pub struct Belonging {
    /// With the time from which it holds.
    known: HashMap<u32, (u64, Owner)>,
    births: KernelBirths,
}

impl Belonging {
    /// Nothing yet.
    pub fn new(layouts: &KernelLayouts) -> Belonging {
        Belonging { known: HashMap::new(), births: KernelBirths::new(layouts) }
    }

    /// Learns from an event.
    pub fn event(&mut self, event: &Event) {
        if let Some((task, owner)) = self.births.of(&event.kind) {
            self.note(task, event.tsc, owner);
        }
    }

    fn note(&mut self, task: u32, since: u64, to: Owner) {
        if self.known.len() >= TASKS_MAX && !self.known.contains_key(&task) {
            return;
        }
        let known = self.known.entry(task).or_insert((since, to));
        *known = (*known).max((since, to));
    }

    /// Learns what another one knows.
    pub fn merge(&mut self, other: Belonging) {
        for (task, (since, to)) in other.known {
            self.note(task, since, to);
        }
    }

    /// The process of a thread, if it is known.
    pub fn process_of(&self, task: u32) -> Option<u32> {
        let mut thread = task;
        for _ in 0..MAKERS_MAX {
            match self.known.get(&thread)?.1 {
                Owner::Process(process) => return Some(process),
                Owner::Maker(maker) => thread = maker,
            }
        }
        None
    }
}

impl Watch for Belonging {
    fn add(&mut self, visit: &mut Visit<'_>) {
        self.event(visit.moment.event);
    }
}

#[cfg(test)]
mod tests {
    use syscalls::abi::tasks::CLONE_THREAD;
    use trace::event::{CPU_STREAM, EventKind, KernelEvent};
    use trace::kernel::{KernelField, KernelKind, KernelLayout, KernelValue, put_value};

    use super::*;

    fn layouts() -> KernelLayouts {
        let field = |name: &str| KernelField {
            name: name.into(),
            c_type: String::new(),
            kind: KernelKind::Unsigned,
            size: 8,
        };
        let mut layouts = KernelLayouts::default();
        layouts.add(&KernelLayout {
            number: 5,
            system: "task".into(),
            name: "task_newtask".into(),
            fields: ["pid", "clone_flags"].map(field).to_vec(),
            words: Vec::new(),
        });
        layouts
    }

    fn makes(at: u64, maker: u32, task: u64, flags: u64) -> Event {
        let mut values = Vec::new();
        for number in [task, flags] {
            put_value(&mut values, KernelValue::Unsigned(number));
        }
        let kernel = KernelEvent { layout: 5, task: maker, flags: 0, values };
        Event::new(CPU_STREAM, at, EventKind::Kernel(kernel))
    }

    #[test]
    fn threads_belong_to_the_process_of_their_maker() {
        let layouts = layouts();
        let (mut of_all, mut of_other) = (Belonging::new(&layouts), Belonging::new(&layouts));
        // Known in another order than it happened: 9 was a process before it was a thread.
        of_all.event(&makes(40, 8, 9, CLONE_THREAD));
        of_all.event(&makes(20, 7, 8, CLONE_THREAD));
        of_other.event(&makes(30, 7, 9, 0));
        of_other.event(&makes(10, 1, 7, 0));
        of_all.merge(of_other);
        assert_eq!(
            [7, 8, 9, 10].map(|task| of_all.process_of(task)),
            [Some(7), Some(7), Some(7), None]
        );
    }

    #[test]
    fn who_made_itself_belongs_to_nobody() {
        let mut belonging = Belonging::new(&layouts());
        belonging.event(&makes(1, 7, 7, CLONE_THREAD));
        assert_eq!(belonging.process_of(7), None);
    }
}
