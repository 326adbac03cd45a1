//! What refused calls in the recording and is not there in a replay: rules that a program gave itself
//! (Landlock), leases of files, and users that a namespace of the program's does not know.

use events::{Act, Arg, Classes, Kind, Ret};

use super::Planner;
use crate::order::Index;
use crate::treatment::Said;

impl Planner<'_> {
    /// Takes note of a call by which a thread gives itself rules.
    pub(super) fn follow_rules(&mut self, index: Index, said: &Said, ret: i64) {
        self.lines[index].confined |= said.row.act == Act::Confine && ret == 0;
    }

    /// Whether a call was refused, or had another meaning, by what is not here.
    pub(super) fn was_refused(
        &self,
        index: Index,
        said: &Said,
        ret: i64,
        paths: &[(u8, Vec<u8>)],
    ) -> bool {
        let line = &self.lines[index];
        match -ret as i32 {
            // Ids of a namespace of its own are others here.
            _ if line.foreign && said.row.classes.intersects(Classes::CREDS) => true,
            libc::EACCES | libc::EPERM => line.foreign || line.confined,
            // What is opened or cut off by its path waits for nothing else.
            libc::EAGAIN => !paths.is_empty(),
            // What is made of flags alone (memory files) fails for those that the kernel does not know.
            libc::EINVAL => {
                let names_one = |arg: &Arg| matches!(arg.kind, Kind::Fd | Kind::DirFd | Kind::Path);
                said.ret == Ret::Fd && !said.args.iter().any(names_one)
            }
            _ => false,
        }
    }
}
