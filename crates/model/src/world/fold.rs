//! How events change a world.

use syscalls::abi::tasks::CLONE_NEWNS;
use trace::event::{Call, Event, EventKind, Outcome, RECORDER};

use super::World;
use super::spawned::push;
use crate::contents::Contents;
use crate::effects;
use crate::operations::submitted;
use crate::step::Step;

impl World {
    /// Processes one event.
    pub fn apply(&mut self, event: &Event, contents: &mut dyn Contents) {
        let step = self.step(event, contents);
        self.finish(step);
    }

    /// Does the work of [`World::apply`] for a call that has no effect on a world.
    #[inline]
    pub fn pass(&mut self, event: &Event) {
        self.open_ids.forget();
        self.advance(event.tsc);
        if let Some(thread) = self.threads.get_mut(&event.thread) {
            thread.fresh = false;
            if thread.outstanding.is_some() {
                self.settle(event.thread);
            }
        }
    }

    /// Does the work of [`World::apply`] for an event that is no thread's.
    #[inline]
    pub fn comes_to(&mut self, tsc: u64) {
        self.open_ids.forget();
        self.advance(tsc);
    }

    /// First half of [`World::apply`]: advances the world to the start of the event and returns the
    /// changes it will make. A call can be decoded between the two halves.
    pub fn step(&mut self, event: &Event, contents: &mut dyn Contents) -> Step {
        self.advance(event.tsc);
        self.settle(event.thread);
        let mut step = Step { thread: event.thread, ..Step::default() };
        match &event.kind {
            EventKind::Call(call) => {
                if let Some(thread) = self.threads.get_mut(&event.thread) {
                    thread.fresh = false;
                }
                step.answered = self.is_answered(event.thread, call);
                if step.answered || effects::changes_nothing(call) {
                    return step;
                }
                if let Some(flags) = effects::spawn_flags(call, contents) {
                    self.spawn(event.thread, flags, call);
                }
                effects::of_call(self, call, submitted(event), contents, &mut step);
            }
            EventKind::Start { how, process, parent, pid, tid } => {
                self.start(event.thread, *how, *process, *parent, *pid, *tid);
            }
            EventKind::Image { tid, data } => self.image(event.thread, *tid, data, contents),
            EventKind::State(state) if event.thread != RECORDER => self.correct(state),
            EventKind::State(state) => self.announce(state),
            EventKind::End { .. } => step.ended = true,
            EventKind::Exit { process, .. } => step.exited = Some(*process),
            EventKind::KernelLayout(layout) => {
                self.kernel_layouts.add(layout);
                self.kernel_pids.layout(layout, &self.kernel_layouts);
            }
            EventKind::Other(other) => {
                self.kernel_pids.told(other);
                self.kernel_devices.told(other);
            }
            EventKind::Signal { .. }
            | EventKind::Stall { .. }
            | EventKind::Gap { .. }
            | EventKind::Kernel(_)
            | EventKind::Unknown(_) => {}
        }
        step
    }

    /// Second half of [`World::apply`]: makes the changes.
    pub fn finish(&mut self, step: Step) {
        self.open_ids.forget();
        if self.given.is_followed()
            && let (Some(thread), Some(tsc)) = (self.threads.get(&step.thread), step.exit_tsc)
        {
            step.gives().for_each(|(fd, _)| self.given.note(thread.process, fd, tsc));
        }
        for effect in step.at_entry {
            self.effect(step.thread, effect);
        }
        if let (Some(exit_tsc), Some(thread)) = (step.exit_tsc, self.threads.get_mut(&step.thread))
            && !step.at_exit.is_empty()
        {
            thread.outstanding = Some(exit_tsc);
            self.outstanding.add(exit_tsc, step.thread, step.at_exit);
        }
        if step.ended {
            self.end(step.thread);
        }
        if let Some(process) = step.exited {
            self.exit(process);
        }
    }

    /// Saves the inheritance of the task that a call creates, unless that has begun.
    fn spawn(&mut self, creator: u32, flags: u64, call: &Call) {
        let tid = match call.outcome {
            Outcome::Returned { ret, .. } if ret < 0 => return,
            Outcome::Returned { ret, .. } => Some(ret),
            Outcome::Unfinished => None,
        };
        let leaves = !self.follows_mounts && flags & CLONE_NEWNS != 0;
        let Some(thread) = self.threads.get(&creator) else { return };
        let is_it = |task: &u32| {
            self.threads.get(task).is_some_and(|task| Some(i64::from(task.tid)) == tid)
        };
        if let Some(at) = thread.begun.iter().position(is_it) {
            let begun = self.threads.get_mut(&creator).and_then(|thread| thread.begun.remove(at));
            if let Some(task) = begun.filter(|_| leaves) {
                self.go_to(task, self.directory_elsewhere(&self.cwd(task)));
            }
            return;
        }
        let maker = self.processes.get(&thread.process);
        let ties = maker.map(|maker| maker.ties.of_child(maker.pid, thread.process, flags));
        let given = thread.give(flags, tid, ties.unwrap_or_default());
        if leaves {
            let path = given.cwd.borrow().path.clone();
            *given.cwd.borrow_mut() = self.directory_elsewhere(&path);
        }
        if let Some(thread) = self.threads.get_mut(&creator) {
            push(&mut thread.spawned, given);
        }
    }
}
