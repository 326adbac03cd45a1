//! Effects of calls on names, descriptors and tasks that are not visible in arguments and result.

/// The effect of a call, a column of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// What the rest of the row describes: takes paths, follows links, reads or writes buffers.
    Plain,
    /// Like `Plain`, but does not follow a link at the end of a path.
    OnLink,

    // Names.
    /// Opens or creates a file.
    Open,
    /// Creates a directory.
    MakeDirectory,
    /// Creates a file of the type in the mode.
    MakeNode,
    /// Creates a symbolic link.
    MakeLink,
    /// Adds a name to a file.
    HardLink,
    /// Renames a file.
    Rename,
    /// Removes a name.
    Remove,
    /// Binds a socket to an address, which creates a name if the address is a path.
    Bind,

    // Files.
    /// Truncates or extends a file.
    Truncate,
    /// Allocates, punches, zeroes, collapses or inserts ranges (fallocate).
    Allocate,
    /// Changes permissions.
    Mode,
    /// Changes the owner.
    Owner,
    /// Changes the owner of a link itself.
    LinkOwner,
    /// Changes times.
    Times,
    /// Returns the target of a link.
    ReadLink,
    /// Executes a file.
    Execute,
    /// Lists a directory.
    List,
    /// Sets the position in a file.
    Seek,
    /// Copies between descriptors. The fields are argument numbers.
    Copy {
        /// The source.
        from: u8,
        /// Its offset.
        from_at: Option<u8>,
        /// The target.
        to: u8,
        /// Its offset.
        to_at: Option<u8>,
    },
    /// Clones another file's content to the file in the first argument (FICLONE).
    CloneFile {
        /// Argument with the descriptor of the source.
        from: u8,
    },
    /// Clones a part of another file's content, which a struct describes (FICLONERANGE).
    CloneRange,
    /// Depends on the request.
    Ioctl,
    /// Depends on the command.
    Fcntl,
    /// Returns an extended attribute.
    GetXattr,
    /// Returns an extended attribute of a link itself.
    GetLinkXattr,
    /// Returns the names of extended attributes.
    ListXattr,
    /// Returns the names of extended attributes of a link itself.
    ListLinkXattr,
    /// Changes an extended attribute.
    ChangeXattr,
    /// Changes an extended attribute of a link itself.
    ChangeLinkXattr,

    // Descriptors and directories of a process.
    /// Duplicates a descriptor under another number.
    Duplicate,
    /// Closes a descriptor.
    Close,
    /// Closes or marks a range of descriptors.
    CloseRange,
    /// Connects a socket to an address.
    Connect,
    /// Returns a socket's own address.
    TellAddress,
    /// Returns the address that a socket is connected to.
    TellPeer,
    /// Changes the working directory.
    Directory,
    /// Returns the working directory.
    TellDirectory,
    /// Changes the root directory.
    Root,
    /// Changes the root directory of all processes, and mounts the old one elsewhere.
    PivotRoot,
    /// Mounts something at the second path, or changes the mount there.
    Mount,
    /// Moves a mount to the second path.
    MoveMount,
    /// Unmounts a path.
    Unmount,

    // Tasks and memory.
    /// Creates a task.
    Spawn,
    /// Ends all threads of a process.
    EndProcess,
    /// Waits for a process, and returns which one.
    Reap,
    /// Copies a descriptor of another process, given by a pidfd and the number there.
    TakeDescriptor,
    /// Stops sharing descriptors, directories or namespaces.
    Unshare,
    /// Enters another task's namespaces.
    EnterNamespace,
    /// Restricts what the thread may do (Landlock).
    Confine,
    /// Maps a file or memory.
    Map,
    /// Removes mappings.
    Unmap,
    /// Changes the protection of mapped memory.
    Protect,
    /// Attaches shared memory.
    AttachMemory,

    // Data transfers apart from calls.
    /// Creates a ring for submitting reads and writes to the kernel (io_uring).
    SetUpRing,
    /// Submits requests from such a ring. Returns the number of requests taken.
    SubmitToRing,
    /// Creates a context for asynchronous reads and writes (Linux AIO).
    SetUpAio,
    /// Submits reads and writes to such a context. Returns the number taken.
    SubmitToAio,
    /// Returns which of those are done, and how many bytes each moved.
    ReapFromAio,
}

impl Act {
    /// Returns true if a link at the end of a path is not followed, whatever the flags say.
    pub const fn is_on_link(self) -> bool {
        self.changes_names()
            || matches!(
                self,
                Act::OnLink
                    | Act::LinkOwner
                    | Act::ReadLink
                    | Act::GetLinkXattr
                    | Act::ListLinkXattr
                    | Act::ChangeLinkXattr
            )
    }

    /// Returns true if the call names an extended attribute.
    pub const fn is_of_attribute(self) -> bool {
        matches!(self, Act::GetXattr | Act::GetLinkXattr | Act::ChangeXattr | Act::ChangeLinkXattr)
    }

    /// Returns true if the call changes names: its effect is counted from its beginning.
    pub const fn changes_names(self) -> bool {
        matches!(
            self,
            Act::MakeDirectory
                | Act::MakeNode
                | Act::MakeLink
                | Act::HardLink
                | Act::Rename
                | Act::Remove
                | Act::Bind
        )
    }

    /// Returns true if the call may change descriptors, what is known about them, or directories of
    /// a process, in a way that arguments and result do not show.
    pub const fn changes_process(self) -> bool {
        matches!(
            self,
            Act::Bind
                | Act::Ioctl
                | Act::Close
                | Act::CloseRange
                | Act::Connect
                | Act::TellAddress
                | Act::TellPeer
                | Act::Directory
                | Act::TellDirectory
                | Act::Spawn
                | Act::Unshare
                | Act::EnterNamespace
        )
    }
}
