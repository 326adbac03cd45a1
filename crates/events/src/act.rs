//! What a call does to names, descriptors and tasks, beyond what its arguments and its result tell.

/// The column of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// What the rest of the row says: paths are there, links are followed, buffers are read or
    /// written.
    Plain,
    /// The same, but a link at the end of a path is not followed.
    OnLink,

    // Names.
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
    /// Binds a socket to an address, which makes a name if that is a path.
    Bind,

    // Files.
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
    /// Executes a file.
    Execute,
    /// Lists a directory.
    List,
    /// Sets a position.
    Seek,
    /// Copies between descriptors: numbers of the arguments of the source, its offset, the target
    /// and its offset.
    Copy {
        /// The source.
        from: u8,
        /// Where in it.
        from_at: Option<u8>,
        /// The target.
        to: u8,
        /// Where in it.
        to_at: Option<u8>,
    },
    /// Gives a file, the first argument, the content of another one, whose descriptor this argument
    /// has.
    CloneFile {
        /// The source.
        from: u8,
    },
    /// The same with a part of another file's content; which one, a struct tells.
    CloneRange,
    /// Whatever the operation says.
    Ioctl,
    /// Whatever the command says.
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

    // Descriptors and directories of a process.
    /// Gives a descriptor another number.
    Duplicate,
    /// Closes a descriptor.
    Close,
    /// Closes or marks a range of descriptors.
    CloseRange,
    /// Connects a socket to an address.
    Connect,
    /// Tells a socket's own address.
    TellAddress,
    /// Tells the address that a socket is connected to.
    TellPeer,
    /// Changes the working directory.
    Directory,
    /// Tells the working directory.
    TellDirectory,
    /// Changes the root directory.
    Root,
    /// Changes the root directory of all, and mounts the old one elsewhere.
    PivotRoot,
    /// Mounts something at the second path, or changes what is mounted there.
    Mount,
    /// Moves a mount to the second path.
    MoveMount,
    /// Takes the mount at a path away.
    Unmount,

    // Tasks and memory.
    /// Makes a task.
    Spawn,
    /// Ends all threads of a process.
    EndProcess,
    /// Waits for a process, and tells which.
    Reap,
    /// Takes a copy of another process's descriptor: by a descriptor of that process, and its number
    /// there.
    TakeDescriptor,
    /// Stops sharing descriptors, directories or namespaces.
    Unshare,
    /// Enters another task's namespaces.
    EnterNamespace,
    /// Gives the thread rules of its own about what it may do (Landlock).
    Confine,
    /// Maps a file or memory.
    Map,
    /// Takes mappings away.
    Unmap,
    /// Changes what may be done with mapped memory.
    Protect,
    /// Attaches memory that processes share.
    AttachMemory,

    // What moves data beside the calls.
    /// Makes a ring through which the kernel is asked to read and write (io_uring).
    SetUpRing,
    /// Asks the kernel to look at such a ring. The result: how many requests it took.
    SubmitToRing,
    /// Makes a context for asynchronous reads and writes (Linux AIO).
    SetUpAio,
    /// Hands reads and writes over to such a context. The result: how many it took.
    SubmitToAio,
    /// Tells which of them are done, and how many bytes each moved.
    ReapFromAio,
}

impl Act {
    /// Whether a link at the end of a path is meant itself, whatever the flags say.
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

    /// Whether the call names an extended attribute.
    pub const fn is_of_attribute(self) -> bool {
        matches!(self, Act::GetXattr | Act::GetLinkXattr | Act::ChangeXattr | Act::ChangeLinkXattr)
    }

    /// Whether the call changes names: its effect counts from its beginning.
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

    /// Whether it may change descriptors, what is known of them, or directories of a process, in a
    /// way that the row's arguments and result do not show.
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
