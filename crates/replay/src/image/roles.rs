//! What calls do to names and contents, as far as their rows cannot tell.

use std::sync::LazyLock;

use events::table::NUMBER_LIMIT;

/// What a call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Whatever its row says: paths are there, links are followed, buffers are read or written.
    Plain,
    /// The same, but a link at the end of a path is not followed.
    OnLink,
    /// Opens or makes a file.
    Open,
    /// Makes a directory.
    MakeDirectory,
    /// Makes a file of the type in the mode.
    MakeNode,
    /// Makes a symbolic link.
    MakeLink,
    /// Gives a file one more name.
    HardLink,
    /// Moves a name.
    Rename,
    /// Takes a name away.
    Remove,
    /// Makes a socket with a path.
    Bind,
    /// Cuts or extends.
    Truncate,
    /// Allocates, punches, zeroes, collapses, inserts.
    Allocate,
    /// Changes permissions.
    Mode,
    /// Changes the owner.
    Owner,
    /// Changes the owner of a link itself.
    LinkOwner,
    /// Changes times.
    Times,
    /// Tells where a link leads.
    ReadLink,
    /// Needs a directory.
    Directory,
    /// Changes the root directory.
    Root,
    /// Executes a file.
    Execute,
    /// Lists a directory.
    List,
    /// Sets a position.
    Seek,
    /// Copies between descriptors: numbers of the arguments of the source, its offset, the target
    /// and its offset.
    Copy { from: u8, from_at: Option<u8>, to: u8, to_at: Option<u8> },
    /// Shares content between files, if the operation says so.
    Ioctl,
    /// Changes the flags of an open file, if the operation says so.
    Fcntl,
    /// Tells an extended attribute.
    GetXattr,
    /// Tells an extended attribute of a link itself.
    GetLinkXattr,
    /// Tells the names of extended attributes.
    ListXattr,
    /// Tells the names of extended attributes of a link itself.
    ListLinkXattr,
    /// Changes an extended attribute.
    ChangeXattr,
    /// Changes an extended attribute of a link itself.
    ChangeLinkXattr,
}

const ROLES: &[(&str, Role)] = &[
    ("open", Role::Open),
    ("openat", Role::Open),
    ("openat2", Role::Open),
    ("creat", Role::Open),
    ("lstat", Role::OnLink),
    ("mkdir", Role::MakeDirectory),
    ("mkdirat", Role::MakeDirectory),
    ("mknod", Role::MakeNode),
    ("mknodat", Role::MakeNode),
    ("symlink", Role::MakeLink),
    ("symlinkat", Role::MakeLink),
    ("link", Role::HardLink),
    ("linkat", Role::HardLink),
    ("rename", Role::Rename),
    ("renameat", Role::Rename),
    ("renameat2", Role::Rename),
    ("unlink", Role::Remove),
    ("unlinkat", Role::Remove),
    ("rmdir", Role::Remove),
    ("bind", Role::Bind),
    ("truncate", Role::Truncate),
    ("ftruncate", Role::Truncate),
    ("fallocate", Role::Allocate),
    ("chmod", Role::Mode),
    ("fchmod", Role::Mode),
    ("fchmodat", Role::Mode),
    ("fchmodat2", Role::Mode),
    ("chown", Role::Owner),
    ("fchown", Role::Owner),
    ("fchownat", Role::Owner),
    ("lchown", Role::LinkOwner),
    ("utime", Role::Times),
    ("utimes", Role::Times),
    ("futimesat", Role::Times),
    ("utimensat", Role::Times),
    ("readlink", Role::ReadLink),
    ("readlinkat", Role::ReadLink),
    ("chdir", Role::Directory),
    ("fchdir", Role::Directory),
    ("chroot", Role::Root),
    ("execve", Role::Execute),
    ("execveat", Role::Execute),
    ("getdents", Role::List),
    ("getdents64", Role::List),
    ("lseek", Role::Seek),
    ("sendfile", Role::Copy { from: 1, from_at: Some(2), to: 0, to_at: None }),
    ("copy_file_range", Role::Copy { from: 0, from_at: Some(1), to: 2, to_at: Some(3) }),
    ("splice", Role::Copy { from: 0, from_at: Some(1), to: 2, to_at: Some(3) }),
    ("ioctl", Role::Ioctl),
    ("fcntl", Role::Fcntl),
    ("getxattr", Role::GetXattr),
    ("fgetxattr", Role::GetXattr),
    ("getxattrat", Role::GetXattr),
    ("lgetxattr", Role::GetLinkXattr),
    ("listxattr", Role::ListXattr),
    ("flistxattr", Role::ListXattr),
    ("listxattrat", Role::ListXattr),
    ("llistxattr", Role::ListLinkXattr),
    ("setxattr", Role::ChangeXattr),
    ("fsetxattr", Role::ChangeXattr),
    ("setxattrat", Role::ChangeXattr),
    ("removexattr", Role::ChangeXattr),
    ("fremovexattr", Role::ChangeXattr),
    ("removexattrat", Role::ChangeXattr),
    ("lsetxattr", Role::ChangeLinkXattr),
    ("lremovexattr", Role::ChangeLinkXattr),
];

static BY_NUMBER: LazyLock<[Role; NUMBER_LIMIT]> = LazyLock::new(|| {
    let mut roles = [Role::Plain; NUMBER_LIMIT];
    for (name, role) in ROLES {
        if let Some(row) = events::by_name(name) {
            roles[usize::from(row.nr)] = *role;
        }
    }
    roles
});

/// The role of a call.
pub fn of(nr: u16) -> Role {
    BY_NUMBER.get(usize::from(nr)).copied().unwrap_or(Role::Plain)
}

impl Role {
    /// Whether a link at the end of a path is meant itself, whatever the flags say.
    pub fn is_on_link(self) -> bool {
        matches!(
            self,
            Role::OnLink
                | Role::MakeDirectory
                | Role::MakeNode
                | Role::MakeLink
                | Role::HardLink
                | Role::Rename
                | Role::Remove
                | Role::Bind
                | Role::LinkOwner
                | Role::ReadLink
                | Role::GetLinkXattr
                | Role::ListLinkXattr
                | Role::ChangeLinkXattr
        )
    }

    /// Whether the call changes names: its effect counts from its beginning.
    pub fn changes_names(self) -> bool {
        matches!(
            self,
            Role::MakeDirectory
                | Role::MakeNode
                | Role::MakeLink
                | Role::HardLink
                | Role::Rename
                | Role::Remove
                | Role::Bind
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_row() {
        for (name, role) in ROLES {
            let row = events::by_name(name).unwrap_or_else(|| panic!("{name} has no row"));
            assert_eq!(of(row.nr), *role, "{name}");
        }
    }
}
