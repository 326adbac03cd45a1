//! Calls after which the kernel goes on to read the caller's memory.

use crate::abi::files::MSG_ZEROCOPY;
use crate::act::Act;
use crate::flags;
use crate::shape::{ArgKind, Classes, Syscall};

impl Syscall {
    /// Returns true if a call with these arguments may lend memory to the kernel. One that gives pages
    /// to a pipe does so only where its descriptor can be written to.
    pub fn lends(&self, args: &[u64; 6]) -> bool {
        match self.act {
            Act::GivePages | Act::LendMemory => true,
            _ if !self.may_lend() => false,
            _ => self.flags_of_messages(args) & MSG_ZEROCOPY != 0,
        }
    }

    /// Returns true if calls of this row may lend memory.
    pub fn may_lend(&self) -> bool {
        let sends = self.classes.intersects(Classes::WRITE);
        sends && self.args.iter().any(|arg| arg.is_of_set(&flags::MSG))
            || matches!(self.act, Act::GivePages | Act::LendMemory)
    }

    fn flags_of_messages(&self, args: &[u64; 6]) -> u64 {
        let flags = self.args.iter().zip(args).filter(|(arg, _)| match arg.kind {
            ArgKind::Flags(_) => arg.is_of_set(&flags::MSG),
            _ => false,
        });
        flags.fold(0, |all, (_, value)| all | value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_sent_without_a_copy_is_lent() {
        let row = |name| crate::by_name(name).unwrap();
        let lends = |name, args: [u64; 6]| row(name).lends(&args);
        assert!(lends("sendto", [3, 0, 10, MSG_ZEROCOPY, 0, 0]));
        assert!(lends("sendmsg", [3, 0, MSG_ZEROCOPY, 0, 0, 0]));
        assert!(lends("sendmmsg", [3, 0, 1, MSG_ZEROCOPY | 2, 0, 0]));
        assert!(!lends("sendto", [MSG_ZEROCOPY, MSG_ZEROCOPY, MSG_ZEROCOPY, 0, 0, 0]));
        assert!(!lends("recvmsg", [3, 0, MSG_ZEROCOPY, 0, 0, 0]));
        assert!(lends("vmsplice", [0; 6]) && lends("io_uring:SEND_ZC", [0; 6]));
        assert!(!lends("write", [u64::MAX; 6]));
    }
}
