//! Groups of tasks, to report each task's end once, however its process ends; and silent panics.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use super::end::{End, Ended};

/// Tasks of one process that have not ended.
#[derive(Default)]
pub struct Group {
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    next: u64,
    ended: HashMap<u64, Ended>,
}

/// Membership of one task.
pub struct Member {
    group: Arc<Group>,
    number: u64,
}

thread_local! {
    /// The group of the task on this thread.
    static GROUP: RefCell<Option<Arc<Group>>> = const { RefCell::new(None) };
    static IS_TASK: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Group {
    /// Adds a task; `ended` is called at its end.
    pub fn join(self: &Arc<Group>, ended: Ended) -> Member {
        let mut members = self.members();
        let number = members.next;
        members.next += 1;
        members.ended.insert(number, ended);
        Member { group: self.clone(), number }
    }

    /// Reports the end of all tasks left, which were killed by a signal.
    pub fn killed(&self, signal: i32) {
        let left = std::mem::take(&mut self.members().ended);
        left.into_values().for_each(|ended| ended(End::Killed(signal)));
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Makes this thread the task.
    pub fn is_this_thread(&self) {
        GROUP.set(Some(self.group.clone()));
        IS_TASK.set(true);
    }

    /// Reports the end of the task.
    pub fn end(self, end: End) {
        let ended = self.group.members().ended.remove(&self.number);
        if let Some(ended) = ended {
            ended(end);
        }
        IS_TASK.set(false);
        GROUP.set(None);
    }

    /// Removes a task that never started, without a report.
    pub fn resign(self) {
        self.group.members().ended.remove(&self.number);
    }
}

/// Returns the group of the task on this thread; the host's own threads form a group.
pub fn of_this_thread() -> Arc<Group> {
    GROUP.with_borrow_mut(|group| group.get_or_insert_default().clone())
}

/// Silences panics of tasks: stderr is the recorded program's.
pub fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| match IS_TASK.get() {
            true => LAST_PANIC.set(info.to_string().replace('\n', " ")),
            false => others(info),
        }));
    });
}

/// Returns message and location of the last panic on this thread.
pub fn last_panic() -> String {
    LAST_PANIC.take()
}
