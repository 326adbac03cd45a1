//! Calls refused for reasons that a replay does not have: restrictions that a program gave itself
//! (Landlock), file leases, and users unknown in its user namespace.

use syscalls::{Act, Arg, ArgKind, Classes, Ret};

use super::Planner;
use crate::order::Index;
use crate::treatment::Said;

impl Planner<'_> {
    /// Notes a call by which a thread restricts itself.
    pub(super) fn follow_rules(&mut self, index: Index, said: &Said, ret: i64) {
        self.lines[index].confined |= said.row.act == Act::Confine && ret == 0;
    }

    /// Whether a call failed, or had another meaning, for a reason that the replay does not have.
    pub(super) fn was_refused(
        &self,
        index: Index,
        said: &Said,
        ret: i64,
        paths: &[(u8, Vec<u8>)],
    ) -> bool {
        let line = &self.lines[index];
        match -ret as i32 {
            // Ids inside its own user namespace are different ones here.
            _ if line.foreign && said.row.classes.intersects(Classes::CREDS) => true,
            libc::EACCES | libc::EPERM => line.foreign || line.confined,
            // Opening or truncating by path waits only for leases.
            libc::EAGAIN => !paths.is_empty(),
            // Calls that create files from flags alone (memfd) fail for flags unknown to the
            // kernel.
            libc::EINVAL => {
                let names_one =
                    |arg: &Arg| matches!(arg.kind, ArgKind::Fd | ArgKind::DirFd | ArgKind::Path);
                said.ret == Ret::Fd && !said.args.iter().any(names_one)
            }
            _ => false,
        }
    }
}
