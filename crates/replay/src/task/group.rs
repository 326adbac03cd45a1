//! Who belongs to a process, so that each task's end is told once, however the process ends; and
//! what happens to panics.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use super::{End, Ended};

/// The tasks of one process that have not ended.
#[derive(Default)]
pub struct Group {
    members: Mutex<Members>,
}

#[derive(Default)]
struct Members {
    next: u64,
    ended: HashMap<u64, Ended>,
}

/// One task in its group.
pub struct Member {
    group: Arc<Group>,
    number: u64,
}

thread_local! {
    /// The group of the task that runs on this thread.
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

    /// Tells the end of all tasks that a signal has taken away.
    pub fn killed(&self, signal: i32) {
        let left = std::mem::take(&mut self.members().ended);
        left.into_values().for_each(|ended| ended(End::Killed(signal)));
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// From here on this thread is the task.
    pub fn is_this_thread(&self) {
        GROUP.set(Some(self.group.clone()));
        IS_TASK.set(true);
    }

    /// Tells the end of the task.
    pub fn end(self, end: End) {
        let ended = self.group.members().ended.remove(&self.number);
        if let Some(ended) = ended {
            ended(end);
        }
        IS_TASK.set(false);
        GROUP.set(None);
    }

    /// A task that never started has no end to tell.
    pub fn resign(self) {
        self.group.members().ended.remove(&self.number);
    }
}

/// The group of the task that runs here; the host's own threads are a group of their own.
pub fn of_this_thread() -> Arc<Group> {
    GROUP.with_borrow_mut(|group| group.get_or_insert_default().clone())
}

/// Makes panics of tasks silent: the descriptor that messages go to is the recorded program's.
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

/// The message of the last panic on this thread, and where it was.
pub fn last_panic() -> String {
    LAST_PANIC.take()
}
