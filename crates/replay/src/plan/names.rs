//! Calls that overlapped and concern the same name: what came of them tells which was first.
//!
//! A call that found something, or did not, must come before one that changed just that. (The
//! other way round nothing is to be done: a task repeats what came too early.) Only calls that
//! change nothing are waited for in this way, so no two calls wait for each other.

use events::Kind;
use trace::event::Call;

use crate::image::roles::{self, Role};
use crate::treatment::Said;

/// What a call has to do with names.
pub struct Names {
    makes: Option<usize>,
    removes: Option<usize>,
    /// It was to make its last path: that nothing is there is no reason to fail.
    would_make: bool,
    ret: i64,
    paths: Vec<(u8, Vec<u8>)>,
}

impl Names {
    /// Of a call with these absolute paths.
    pub fn of(said: &Said, call: &Call, ret: i64, paths: Vec<(u8, Vec<u8>)>) -> Option<Names> {
        let last = paths.len().checked_sub(1)?;
        let may_make = said.args.iter().any(|arg| matches!(arg.kind, Kind::Mode));
        let (would_make, would_remove) = match roles::of(call.nr) {
            Role::Open => (may_make, false),
            Role::MakeDirectory | Role::MakeNode | Role::MakeLink | Role::HardLink => (true, false),
            Role::Remove => (false, true),
            Role::Rename => (true, true),
            _ => (false, false),
        };
        let done = ret >= 0;
        let makes = (done && would_make).then_some(last);
        let removes = (done && would_remove).then_some(0);
        Some(Names { makes, removes, would_make, ret, paths })
    }

    /// Whether this call changed what the other one had found before.
    pub fn must_follow(&self, other: &Names) -> bool {
        let path = |at: Option<usize>| at.map(|at| &self.paths[at].1[..]);
        let (made, removed) = (path(self.makes), path(self.removes));
        if other.makes.is_some() || other.removes.is_some() {
            return false;
        }
        let mut asked = other.paths.iter().map(|(_, path)| &path[..]);
        match -other.ret as i32 {
            libc::ENOENT => made.is_some_and(|made| {
                asked.any(|path| match other.would_make {
                    // Its directory was missing. One further up may not be the only one.
                    true => parent(path) == made,
                    false => path == made,
                })
            }),
            libc::EEXIST => removed.is_some_and(|removed| asked.any(|path| path == removed)),
            _ if other.ret >= 0 => {
                removed.is_some_and(|removed| asked.any(|path| leads_through(path, removed)))
            }
            _ => false,
        }
    }
}

/// The directory that a path is in.
fn parent(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|&c| c == b'/').unwrap_or(0)]
}

/// Whether a path is another one, or below it.
fn leads_through(path: &[u8], other: &[u8]) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Names =
        Names { makes: None, removes: None, would_make: false, ret: 0, paths: Vec::new() };

    fn on(path: &str) -> Names {
        Names { paths: vec![(0, path.into())], ..NOTHING }
    }

    #[test]
    fn what_was_found_comes_before_what_changed_it() {
        let makes = Names { makes: Some(0), ..on("/a/b") };
        let removes = Names { removes: Some(0), ..on("/a/b") };
        let failed = |path: &str, errno: i32| Names { ret: i64::from(-errno), ..on(path) };
        let not_made = |path: &str| Names { would_make: true, ..failed(path, libc::ENOENT) };
        assert!(makes.must_follow(&failed("/a/b", libc::ENOENT)));
        assert!(makes.must_follow(&not_made("/a/b/c")));
        assert!(!makes.must_follow(&failed("/a/b/c", libc::ENOENT)), "c may be missing as well");
        assert!(!makes.must_follow(&not_made("/a/b/c/d")), "c may be missing as well");
        assert!(!makes.must_follow(&not_made("/a/b")));
        assert!(!makes.must_follow(&failed("/a", libc::ENOENT)));
        assert!(!makes.must_follow(&on("/a/b")), "that comes after");
        assert!(removes.must_follow(&on("/a/b")));
        assert!(removes.must_follow(&on("/a/b/c")));
        assert!(removes.must_follow(&failed("/a/b", libc::EEXIST)));
        assert!(!removes.must_follow(&failed("/a/b", libc::ENOENT)), "that comes after");
        assert!(!removes.must_follow(&makes) && !makes.must_follow(&removes));
    }
}
