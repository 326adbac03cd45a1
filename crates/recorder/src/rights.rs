//! Follows paths that a program has named with the rights of that program. A recorder that runs as
//! root could otherwise be led to files that the program must not see.

use std::thread::Builder;

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_thread_groups};

/// A user who owns nothing.
pub(crate) const NOBODY: u32 = 65534;
/// A group that owns nothing.
const NO_GROUP: u32 = 65534;

/// Of two users who named a path, the one whose rights are used: not the recorder's, if possible.
pub(crate) fn lesser(one: u32, other: u32) -> u32 {
    if one == geteuid().as_raw() { other } else { one }
}

/// The user whose rights a program with these ids can take: root, if it can become root.
pub(crate) fn user_of(uids: &[u32; 4]) -> u32 {
    let [real, effective, saved, _] = *uids;
    real.min(effective).min(saved)
}

/// Runs `act` with the rights of a user and none of its groups. `None` if that is not possible.
pub(crate) fn with<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> Option<T> {
    if user == geteuid().as_raw() {
        return Some(act());
    }
    // Rights given up cannot be regained, so this takes a thread.
    let act = || {
        kin::has_begun();
        take(user).then(act)
    };
    std::thread::scope(|scope| {
        let thread = kin::without_signals(|| Builder::new().spawn_scoped(scope, act)).ok()?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Reduces this thread to the user's rights on files. Its user ids stay the same, so that no other
/// process gains rights over the recorder.
fn take(user: u32) -> bool {
    let set = |call, id: u32| {
        // SAFETY: takes a number and returns the former one, so the second call shows the result.
        unsafe {
            libc::syscall(call, id);
            libc::syscall(call, u32::MAX) == i64::from(id)
        }
    };
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_thread_groups(&[]).is_ok()
        && set(libc::SYS_setfsgid, NO_GROUP)
        && set(libc::SYS_setfsuid, user)
        && set_capabilities(None, none).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn who_is_not_root_sees_what_he_may() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "secret").unwrap();
        let opens = || fs::File::open(&file).is_ok();
        let own = geteuid().as_raw();
        assert_eq!(with(own, opens), Some(true));
        let other = own + 1;
        let seen = with(other, opens);
        if !geteuid().is_root() {
            return assert_eq!(seen, None, "nobody can take the rights of others");
        }
        assert_eq!(seen, Some(false));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(with(other, opens), Some(false), "a group is left");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(with(other, opens), Some(true));
        // Threads started there have no more rights either.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let further = || std::thread::scope(|scope| scope.spawn(opens).join().unwrap());
        assert_eq!(with(other, further), Some(false));
        assert!(opens(), "the recorder itself has lost its rights");
    }

    #[test]
    fn who_can_be_root_is() {
        assert_eq!(user_of(&[1000, 1000, 0, 1000]), 0);
        assert_eq!(user_of(&[1000, 33, 33, 0]), 33);
        let own = geteuid().as_raw();
        assert_eq!((lesser(own, 7), lesser(7, own), lesser(7, 8)), (7, 7, 7));
    }
}
