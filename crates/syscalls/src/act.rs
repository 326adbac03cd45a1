//! Effects of calls on names, descriptors and tasks that are not visible in arguments and result.

/// A thread's user ids, or its group ids: a real, an effective and a saved one, and one for access to
/// files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ids {
    /// Of users.
    User,
    /// Of groups.
    Group,
}

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
    /// Removes a name, of a directory only if a flag says so.
    Remove,
    /// Removes the name of a directory.
    RemoveDirectory,
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
    /// Returns whether access is allowed.
    Access,
    /// Makes a file durable.
    SyncFile,
    /// Makes the content of a file durable.
    SyncData,
    /// Makes all files of a file system, or of all of them, durable.
    SyncAll,
    /// Takes or releases a lock on an open file.
    Lock,
    /// Takes or releases a lock on a range of a file.
    RecordLock {
        /// The call waits until the range is free.
        waits: bool,
    },
    /// Tells whether another process has a lock on a range of a file.
    AskRecordLock,
    /// Returns the target of a link.
    ReadLink,
    /// Executes a file.
    Execute,
    /// Lists a directory.
    List,
    /// Sets the position in a file.
    Seek,
    /// Copies from the source to the target.
    Copy,
    /// Copies from a pipe to another one, and leaves the bytes in the first.
    Tee,
    /// Gives memory to a pipe, or takes bytes out of it, depending on how it was opened (vmsplice).
    GivePages,
    /// Sends memory that the kernel reads later, when the sender may have changed it.
    LendMemory,
    /// Moves data of which nothing is known but what asks for it.
    MoveUnseen,
    /// Clones the source's content to the target (FICLONE).
    CloneFile,
    /// Clones a part of another file's content, which a struct describes (FICLONERANGE).
    CloneRange,
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
    /// Sets the flags of a descriptor: whether an exec closes it.
    SetDescriptorFlags,
    /// Has a descriptor closed by an exec.
    SetCloseOnExec,
    /// Has a descriptor kept by an exec.
    ClearCloseOnExec,
    /// Returns how many bytes can be read.
    TellQueued,
    /// Sets the flags of an open file.
    SetStatusFlags,
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
    /// Waits until another task changes a word in memory (futex).
    WaitOnWord,
    /// Copies a descriptor of another process, given by a pidfd and the number there.
    TakeDescriptor,
    /// Stops sharing descriptors, directories or namespaces.
    Unshare,
    /// Enters another task's namespaces.
    EnterNamespace,
    /// Moves a process to a process group.
    SetProcessGroup,
    /// Returns the process group of a process.
    TellProcessGroup,
    /// Makes the process the first one of a new session and a new process group, and returns its id.
    StartSession,
    /// Returns the session of a process.
    TellSession,
    /// Returns the parent.
    TellParent,
    /// Sets the effective id, and with the right to take any id also the real and the saved one.
    TakeId(Ids),
    /// Sets the ids that its arguments name. If none of them is the saved one, that follows the
    /// effective one when the real one is set, or the effective one differs from it.
    SetIds(Ids),
    /// Sets the user or group for access to files, and returns the former one, also if it failed.
    SetFileId(Ids),
    /// Returns the real id.
    TellRealId(Ids),
    /// Returns the effective id.
    TellEffectiveId(Ids),
    /// Stores the ids that its arguments name.
    TellIds(Ids),
    /// Sets the supplementary groups.
    SetGroups,
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
                | Act::RemoveDirectory
                | Act::Bind
        )
    }

    /// Returns true if the call may change the process group, the session, or what is known about
    /// them and the parent.
    pub const fn changes_ties(self) -> bool {
        matches!(
            self,
            Act::SetProcessGroup
                | Act::TellProcessGroup
                | Act::StartSession
                | Act::TellSession
                | Act::TellParent
        )
    }

    /// Returns true if the call may change user or group ids, or what is known about them.
    pub const fn changes_credentials(self) -> bool {
        matches!(
            self,
            Act::TakeId(_)
                | Act::SetIds(_)
                | Act::SetFileId(_)
                | Act::TellRealId(_)
                | Act::TellEffectiveId(_)
                | Act::TellIds(_)
                | Act::SetGroups
        )
    }

    /// Returns true if the call may change descriptors, what is known about them, directories, ids
    /// or ties of a process, in a way that arguments and result do not show.
    pub const fn changes_process(self) -> bool {
        matches!(
            self,
            Act::Bind
                | Act::SetDescriptorFlags
                | Act::SetCloseOnExec
                | Act::ClearCloseOnExec
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
        ) || self.changes_ties()
            || self.changes_credentials()
    }
}
