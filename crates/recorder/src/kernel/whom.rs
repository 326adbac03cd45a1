//! Whose events are kept: conditions on threads.

use std::collections::HashSet;
use std::fmt;

use model::kernel_tasks::KernelTask;

/// A condition on a thread; it holds for what the thread makes as well, as long as that has what is
/// asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Its process, or one from which that comes.
    Process(u32),
    /// Its process group.
    Group(u32),
    /// Its effective user.
    User(u32),
    /// Its effective group.
    GroupId(u32),
    /// Its cgroup, or one below it.
    Cgroup(Vec<u8>),
}

impl Condition {
    /// Returns true if a thread, as it is now, is one that is asked for. Processes are known by where
    /// they come from, not by what they are.
    pub fn holds(&self, task: &KernelTask) -> bool {
        match self {
            Condition::Process(_) => false,
            Condition::Group(group) => task.group == *group && !task.is_kernel,
            Condition::User(user) => task.uid == *user,
            Condition::GroupId(group) => task.gid == *group,
            Condition::Cgroup(path) => {
                let rest = task.cgroup.strip_prefix(path.as_slice());
                rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || path.ends_with(b"/"))
            }
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Process(number) => write!(f, "pid={number}"),
            Condition::Group(number) => write!(f, "pgid={number}"),
            Condition::User(number) => write!(f, "uid={number}"),
            Condition::GroupId(number) => write!(f, "gid={number}"),
            Condition::Cgroup(path) => write!(f, "cgroup={}", String::from_utf8_lossy(path)),
        }
    }
}

/// The processes among these that were asked for by number, and those that come from them.
pub fn descendants(conditions: &[Condition], tasks: &[KernelTask]) -> HashSet<u32> {
    let named = conditions.iter().filter_map(|condition| match condition {
        Condition::Process(process) => Some(*process),
        _ => None,
    });
    let mut found: HashSet<u32> = named.collect();
    loop {
        let before = found.len();
        let of_one = |task: &&KernelTask| found.contains(&task.parent);
        let more: Vec<u32> = tasks.iter().filter(of_one).map(|task| task.process).collect();
        found.extend(more);
        if found.len() == before {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(process: u32, parent: u32) -> KernelTask {
        let cgroup = b"/a/b".to_vec();
        KernelTask {
            task: process,
            process,
            parent,
            group: 5,
            uid: 7,
            cgroup,
            ..KernelTask::default()
        }
    }

    #[test]
    fn conditions_hold_for_what_a_thread_is() {
        let task = task(100, 1);
        assert!(Condition::Group(5).holds(&task) && !Condition::Group(6).holds(&task));
        assert!(Condition::User(7).holds(&task) && !Condition::GroupId(7).holds(&task));
        for (path, holds) in
            [("/a", true), ("/a/b", true), ("/", true), ("/a/bc", false), ("/b", false)]
        {
            assert_eq!(Condition::Cgroup(path.into()).holds(&task), holds, "{path}");
        }
    }

    #[test]
    fn processes_have_descendants() {
        let tasks = [task(103, 102), task(102, 101), task(101, 1), task(104, 1)];
        let found = descendants(&[Condition::Process(101)], &tasks);
        assert_eq!(found, HashSet::from([101, 102, 103]));
    }
}
