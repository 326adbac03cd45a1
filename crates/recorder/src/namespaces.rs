//! Processes in pid namespaces below ours: which of them has a certain id there.

use std::fs;

/// What /proc/PID/status says of a process's ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Ids {
    /// In our namespace.
    outer: u32,
    parent: u32,
    /// In its own namespace.
    inner: u32,
    /// Namespaces from ours down to its own, both included.
    depth: usize,
}

/// Finds the process that has the id `inner` in a namespace below ours. Several namespaces may
/// each have one: a child of `parent` is preferred, and those that are known already are left out.
pub fn find_process(inner: u32, parent: u32, known: impl Fn(u32) -> bool) -> Option<u32> {
    let mut found = None;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(status) = fs::read(format!("/proc/{pid}/status")) else { continue };
        let Some(ids) = parse_ids(&status) else { continue };
        if ids.inner != inner || ids.depth < 2 || known(ids.outer) {
            continue;
        }
        if ids.parent == parent {
            return Some(ids.outer);
        }
        found = found.or(Some(ids.outer));
    }
    found
}

/// Finds the thread of a process in our namespace that has the id `inner` in its own.
pub fn find_thread(process: u32, inner: u32) -> Option<u32> {
    fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten().find_map(|entry| {
        let ids = parse_ids(&fs::read(entry.path().join("status")).ok()?)?;
        (ids.inner == inner).then_some(ids.outer)
    })
}

fn parse_ids(status: &[u8]) -> Option<Ids> {
    let mut ids = Ids::default();
    for line in status.split(|&b| b == b'\n') {
        // Only a name could hold anything else, and it is of no interest.
        let Ok(line) = std::str::from_utf8(line) else { continue };
        if let Some(value) = line.strip_prefix("PPid:") {
            ids.parent = value.trim().parse().ok()?;
        } else if let Some(value) = line.strip_prefix("NSpid:") {
            let mut numbers = value.split_whitespace();
            ids.outer = numbers.next()?.parse().ok()?;
            ids.inner = numbers.next_back().map_or(Some(ids.outer), |last| last.parse().ok())?;
            ids.depth = value.split_whitespace().count();
            return Some(ids);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_nested_namespaces() {
        let status = b"Name:\ta\xff\nPPid:\t30\nNSpid:\t41\t7\t2\nThreads:\t1\n";
        let ids = Ids { outer: 41, parent: 30, inner: 2, depth: 3 };
        assert_eq!(parse_ids(status), Some(ids));
        let ids = Ids { outer: 9, parent: 1, inner: 9, depth: 1 };
        assert_eq!(parse_ids(b"PPid:\t1\nNSpid:\t9\n"), Some(ids));
        assert_eq!(parse_ids(b"Name:\tx\n"), None);
    }

    #[test]
    fn our_own_namespace_is_not_searched() {
        assert_eq!(find_process(std::process::id(), 0, |_| false), None);
    }
}
