//! Texts for why a program, or part of it, is not recorded.

use syscalls::record::{own_gs, unfollowed};

/// Text for the `detail` of a gap: a reason, or the error of an attempt to attach.
pub fn text(detail: u64) -> String {
    let known = match detail {
        0 => return String::new(),
        unfollowed::FILTER => "its own seccomp filter forbids what recording needs",
        unfollowed::GAINS_RIGHTS => "it gains rights when it starts (set-user-id, capabilities)",
        unfollowed::NO_CODE => "its memory may not be made executable (PR_SET_MDWE)",
        unfollowed::SHARED_MEMORY => {
            "a process shared its memory with one that became another user, and goes on unrecorded"
        }
        unfollowed::APPEARED => "its file was made in the instant in which it was started",
        _ => {
            let errno = i32::try_from(detail).unwrap_or(libc::EINVAL);
            let error = std::io::Error::from_raw_os_error(errno);
            return format!("it cannot be attached to: {error}");
        }
    };
    known.to_string()
}

/// Text for a process that uses `%gs` itself, by what its agent does then.
pub fn with_own_gs(how: u16) -> &'static str {
    match how {
        own_gs::GOES_ON => {
            "it has several threads and goes on with the recorder's: what sets it fails"
        }
        _ => "it is not recorded from there",
    }
}
