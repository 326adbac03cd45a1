//! What protects from the inmate.

use std::fmt;

/// Protection of this jail, to be shown to the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Capabilities are valid in a namespace only.
    pub user_namespace: bool,
    /// The enforced version of Landlock.
    pub landlock: Option<u32>,
    /// A seccomp filter is installed.
    pub filter: bool,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = if self.user_namespace { "user, " } else { "" };
        write!(f, "{user}mount, pid, network and IPC namespaces, pivot_root, ")?;
        match self.landlock {
            Some(version) => write!(f, "Landlock {version}")?,
            None => write!(f, "no Landlock (this kernel has none)")?,
        }
        if self.filter { write!(f, ", seccomp") } else { Ok(()) }
    }
}
