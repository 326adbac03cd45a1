//! Keeps our threads off a processor to which a program was bound, while there are others: whatever they
//! did there, the program would wait for. The threads that programs do wait for, as at each exec, stay with
//! them: to wake another processor takes longer than what they do, in a virtual machine several times.

use std::collections::BTreeMap;
use std::fs::read_dir;

use rustix::process::{Pid, test_kill_process};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

/// A thread that is made by one which has not moved yet is met the second time.
const PASSES: usize = 2;

/// The processors to which programs are bound.
pub struct Elsewhere {
    /// Where our threads may run.
    allowed: CpuSet,
    /// Processors with a program bound to each alone.
    bound: BTreeMap<usize, Pid>,
    /// Threads that programs wait for.
    awaited: Vec<Pid>,
}

impl Elsewhere {
    /// Begins with the processors of the calling thread, for which programs wait, as for this one.
    pub fn here(awaited: Option<u32>) -> Elsewhere {
        let allowed = sched_getaffinity(None).unwrap_or_default();
        let thread = awaited.and_then(|tid| Pid::from_raw(tid.cast_signed()));
        let awaited = thread.into_iter().chain([gettid()]).collect();
        Elsewhere { allowed, bound: BTreeMap::new(), awaited }
    }

    /// Looks at a process that begins a program.
    pub fn look(&mut self, pid: u32) {
        let Some(pid) = Pid::from_raw(pid.cast_signed()) else { return };
        let Ok(its) = sched_getaffinity(Some(pid)) else { return };
        match only_one(&its) {
            Some(cpu) if self.bound.insert(cpu, pid).is_some() => {}
            Some(_) => self.settle(),
            // Programs run elsewhere again: perhaps none is bound any more.
            None => self.ended(),
        }
    }

    /// Looks at who is left, after the end of a program.
    pub fn ended(&mut self) {
        let before = self.bound.len();
        self.bound.retain(|_, pid| test_kill_process(*pid).is_ok());
        if self.bound.len() != before {
            self.settle();
        }
    }

    fn settle(&self) {
        move_all(&self.free());
        for &thread in &self.awaited {
            // Where this is refused, it is a matter of speed alone.
            let _ = sched_setaffinity(Some(thread), &self.with_programs());
        }
    }

    /// The processor of the programs that are bound; all, if there is none or if there are several.
    fn with_programs(&self) -> CpuSet {
        let mut cpus = CpuSet::new();
        let ours = self.bound.keys().filter(|&&cpu| self.allowed.is_set(cpu));
        ours.for_each(|&cpu| cpus.set(cpu));
        if self.bound.len() == 1 && cpus.count() == 1 { cpus } else { self.allowed }
    }

    /// The processors that are left for us; all, if that would be none.
    fn free(&self) -> CpuSet {
        let mut free = self.allowed;
        self.bound.keys().for_each(|&cpu| free.unset(cpu));
        if free.count() == 0 { self.allowed } else { free }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if !self.bound.is_empty() {
            move_all(&self.allowed);
        }
    }
}

/// The processor, if there is one alone.
fn only_one(cpus: &CpuSet) -> Option<usize> {
    (cpus.count() == 1).then(|| (0..CpuSet::MAX_CPU).find(|&cpu| cpus.is_set(cpu)))?
}

/// Moves all threads of this process.
fn move_all(to: &CpuSet) {
    for _ in 0..PASSES {
        let Ok(tasks) = read_dir("/proc/self/task") else { return };
        let tids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
        for tid in tids.filter_map(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = sched_setaffinity(Some(tid), to);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeping_on(cpus: &CpuSet) -> (Child, u32) {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id();
        sched_setaffinity(Pid::from_raw(pid.cast_signed()), cpus).unwrap();
        (child, pid)
    }

    /// A thread, its id, and where it may run now.
    fn other_thread() -> (impl Fn() -> CpuSet, u32, std::thread::JoinHandle<()>) {
        let (ask, asked) = std::sync::mpsc::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let (name, named) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            name.send(gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
            for () in asked {
                tell.send(sched_getaffinity(None).unwrap()).unwrap();
            }
        });
        let now = move || {
            ask.send(()).unwrap();
            told.recv().unwrap()
        };
        (now, named.recv().unwrap(), thread)
    }

    #[test]
    fn we_stay_away_while_a_program_is_bound() {
        let all = sched_getaffinity(None).unwrap();
        let (others, _, thread) = other_thread();
        let (awaited, tid, other_thread) = other_thread();
        let mut elsewhere = Elsewhere::here(Some(tid));
        let first = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        let (mut bound, pid) = sleeping_on(&one);
        elsewhere.look(pid);
        elsewhere.ended();
        assert_eq!(others().is_set(first), all.count() == 1, "where there are others we are there");
        let of_awaited = [awaited(), sched_getaffinity(None).unwrap()];
        assert_eq!(of_awaited, [one, one], "the program waits for these threads");
        let (mut free, other) = sleeping_on(&all);
        elsewhere.look(other);
        assert_eq!(others().is_set(first), all.count() == 1, "the program is still bound");
        bound.kill().unwrap();
        bound.wait().unwrap();
        elsewhere.ended();
        assert_eq!([others(), sched_getaffinity(None).unwrap()], [all, all]);
        sched_setaffinity(Pid::from_raw(other.cast_signed()), &one).unwrap();
        elsewhere.look(other);
        assert_eq!(sched_getaffinity(None).unwrap(), one);
        drop(elsewhere);
        assert_eq!([others(), awaited(), sched_getaffinity(None).unwrap()], [all; 3], "it is over");
        free.kill().unwrap();
        free.wait().unwrap();
        drop((others, awaited));
        thread.join().unwrap();
        other_thread.join().unwrap();
    }

    #[test]
    fn a_program_on_each_processor_leaves_us_all() {
        let mut elsewhere = Elsewhere::here(None);
        let own = Pid::from_raw(std::process::id().cast_signed()).unwrap();
        let all = elsewhere.allowed;
        elsewhere.bound =
            (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu)).map(|cpu| (cpu, own)).collect();
        assert_eq!(
            (elsewhere.free(), elsewhere.with_programs().count() > 1),
            (all, all.count() > 1)
        );
        let (first, _) = elsewhere.bound.pop_first().unwrap();
        assert_eq!(elsewhere.free().count(), 1);
        elsewhere.allowed.unset(first);
        elsewhere.bound = [(first, own)].into();
        assert_eq!(elsewhere.with_programs(), elsewhere.allowed, "we may not go there");
        // Nothing was moved, and nothing is to be moved back: other tests run meanwhile.
        elsewhere.bound.clear();
    }
}
