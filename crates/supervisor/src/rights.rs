//! Detects programs that gain rights at an exec. Programs without those rights could read in the
//! arena what such a program does, so it is not recorded. The kernel is asked, not the agent.

use std::io;

use kin::{Credentials, status};

/// The rights of a thread that an exec can extend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rights {
    users: [u32; 3],
    groups: [u32; 3],
    /// Capabilities, as a bit mask.
    permitted: u64,
}

impl Rights {
    /// The rights of a thread before its exec.
    pub fn before(tid: i32, credentials: &Credentials) -> Rights {
        let Rights { users, groups, .. } = Rights::of_ids(credentials);
        let same = |ids: [u32; 3]| ids == [ids[0]; 3];
        // If all ids are equal, the kernel sets AT_SECURE only if rights were gained.
        let permitted = match same(users) && same(groups) {
            true => 0,
            false => status::permitted(tid).unwrap_or(0),
        };
        Rights { users, groups, permitted }
    }

    fn of_ids(credentials: &Credentials) -> Rights {
        let three = |[real, effective, saved, _]: [u32; 4]| [real, effective, saved];
        Rights { users: three(credentials.uids), groups: three(credentials.gids), permitted: 0 }
    }

    fn include(&self, other: &Rights) -> bool {
        other.users.iter().all(|id| self.users.contains(id))
            && other.groups.iter().all(|id| self.groups.contains(id))
            && other.permitted & !self.permitted == 0
    }

    /// Whether a process that is stopped at the beginning of a program, with these ids, has gained
    /// rights.
    pub fn are_exceeded(&self, pid: i32, now: &Credentials) -> io::Result<bool> {
        // Root can take all rights anyway.
        if self.users.contains(&0) || !status::is_secure(pid)? {
            return Ok(false);
        }
        let permitted = status::permitted(pid).unwrap_or(u64::MAX);
        Ok(!self.include(&Rights { permitted, ..Rights::of_ids(now) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(users: [u32; 3], groups: [u32; 3], permitted: u64) -> Rights {
        Rights { users, groups, permitted }
    }

    #[test]
    fn what_was_there_before_is_not_gained() {
        let before = rights([1000, 33, 33], [5, 6, 6], 0b110);
        assert!(before.include(&rights([33; 3], [6; 3], 0b100)));
        assert!(before.include(&before));
        assert!(!before.include(&rights([33, 0, 0], [6; 3], 0)));
        assert!(!before.include(&rights([33; 3], [6, 42, 42], 0)));
        assert!(!before.include(&rights([33; 3], [6; 3], 0b1000)));
    }

    #[test]
    fn this_program_has_gained_nothing() {
        let own = kin::own_credentials();
        let tid = std::process::id() as i32;
        assert!(!Rights::before(tid, &own).are_exceeded(tid, &own).unwrap());
    }
}
