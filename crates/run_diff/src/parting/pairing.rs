//! Which thread of one run is which of the other: by how they descend from the first one, by kind, and
//! by the command line that they begin with.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

/// What a thread is known by among those that one thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The thread that began it, by its number in the trace.
    pub parent: u32,
    /// It is a thread of its parent's process.
    pub is_thread: bool,
    /// Hashes of the first program and command line that it begins, if it does.
    pub began: Option<(u64, u64)>,
}

/// Threads in the order in which they began.
pub type Family = Vec<(u32, Origin)>;

/// Returns the threads that are the same in both runs. Those with one command line are brought together
/// first, in their order, then those with one program, and then what is left if there are as many of them.
pub fn pairs(families: [&Family; 2]) -> Vec<(u32, u32)> {
    let [of_a, of_b] = families.map(children);
    let mut found = Vec::new();
    let mut parents = VecDeque::from([(None, None)]);
    let nobody = Vec::new();
    while let Some((a, b)) = parents.pop_front() {
        let mut left =
            [of_a.get(&a).unwrap_or(&nobody).clone(), of_b.get(&b).unwrap_or(&nobody).clone()];
        let mut same = Vec::new();
        same.extend(alike(&mut left, |of| (of.is_thread, of.began)));
        same.extend(alike(&mut left, |of| (of.is_thread, of.began.map(|(program, _)| program))));
        let count = |side: usize, is_thread: bool| {
            left[side].iter().filter(|(_, of)| of.is_thread == is_thread).count()
        };
        if [false, true].into_iter().all(|kind| count(0, kind) == count(1, kind)) {
            same.extend(alike(&mut left, |of| of.is_thread));
        }
        parents.extend(same.iter().map(|(a, b)| (Some(*a), Some(*b))));
        found.extend(same);
    }
    found
}

/// Returns the threads that each one began; `None` began those whose parents are not known.
fn children(family: &Family) -> HashMap<Option<u32>, Family> {
    let known: HashSet<u32> = family.iter().map(|(thread, _)| *thread).collect();
    let mut children: HashMap<Option<u32>, Family> = HashMap::new();
    for (thread, origin) in family {
        let parent = known.contains(&origin.parent).then_some(origin.parent);
        let parent = parent.filter(|parent| parent != thread);
        children.entry(parent).or_default().push((*thread, *origin));
    }
    children
}

/// Takes those out that have one key on both sides, in their order.
fn alike<K: Eq + Hash>(left: &mut [Family; 2], key: impl Fn(&Origin) -> K) -> Vec<(u32, u32)> {
    let mut waiting: HashMap<K, VecDeque<u32>> = HashMap::new();
    for (thread, origin) in &left[1] {
        waiting.entry(key(origin)).or_default().push_back(*thread);
    }
    let mut same = Vec::new();
    left[0].retain(|(thread, origin)| {
        let other = waiting.get_mut(&key(origin)).and_then(VecDeque::pop_front);
        same.extend(other.map(|other| (*thread, other)));
        other.is_none()
    });
    let taken: HashSet<u32> = same.iter().map(|(_, other)| *other).collect();
    left[1].retain(|(thread, _)| !taken.contains(thread));
    same
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread, its parent, and what it begins.
    type Member = (u32, u32, Option<(u64, u64)>);

    fn family(of: &[Member]) -> Family {
        let origin = |parent, began| Origin { parent, is_thread: false, began };
        of.iter().map(|&(thread, parent, began)| (thread, origin(parent, began))).collect()
    }

    #[test]
    fn one_process_more_does_not_shift_those_behind_it() {
        let [make, cc, ld, grep] = [(1, 1), (2, 1), (3, 1), (4, 1)].map(Some);
        let a = family(&[(1, 0, make), (2, 1, cc), (3, 1, ld), (4, 3, cc)]);
        let b = family(&[(1, 0, make), (2, 1, grep), (3, 1, cc), (4, 1, ld), (5, 4, cc)]);
        let mut found = pairs([&a, &b]);
        found.sort_unstable();
        assert_eq!(found, [(1, 1), (2, 3), (3, 4), (4, 5)]);
    }

    #[test]
    fn other_arguments_and_other_programs_are_counterparts_where_nothing_is_better() {
        let a = family(&[(1, 0, None), (2, 1, Some((2, 1))), (3, 1, Some((2, 2)))]);
        let b = family(&[(7, 0, None), (8, 7, Some((2, 2))), (9, 7, Some((2, 3)))]);
        let mut found = pairs([&a, &b]);
        found.sort_unstable();
        assert_eq!(found, [(1, 7), (2, 9), (3, 8)]);
        let other = family(&[(7, 0, None), (8, 7, Some((2, 2))), (9, 7, Some((5, 1)))]);
        assert!(pairs([&a, &other]).contains(&(2, 9)));
        // Of two other programs nobody knows which is it.
        let two = [&other[..], &family(&[(10, 7, Some((6, 1)))])].concat();
        assert!(!pairs([&a, &two]).iter().any(|(a, _)| *a == 2));
    }

    #[test]
    fn families_that_are_told_wrongly_end() {
        let a = family(&[(1, 1, None), (2, 3, None), (3, 2, None)]);
        assert_eq!(pairs([&a, &a]), [(1, 1)]);
    }
}
