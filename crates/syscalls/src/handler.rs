//! How the agent makes a call: what else it must do so that the program stays recorded and notices
//! nothing.

/// What stores to mapped files a call concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// All of them.
    All,
    /// Those to the file of the first argument.
    File,
    /// Those in the memory of the first two arguments.
    Memory,
}

/// What is special about making a call, a column of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handler {
    /// The call is made as it is.
    Plain,
    /// Changes files that it names by path. Compiled from the rest of the row.
    ChangeFiles,
    /// Truncates a file that it names by path.
    Truncate,
    /// Makes data durable, or takes it away: what was stored to mapped files is collected before.
    Settle {
        /// What it concerns.
        of: Settled,
    },
    /// Opens a userfaultfd: the program's own may watch the memory that the recorder watches.
    WatchMemory,
    /// Opens a file; see [`OpenFlags`](crate::shape::OpenFlags).
    Open,
    /// Reads into one buffer, possibly a file whose text the agent corrects.
    Read {
        /// Argument with the offset; `None`: the file's own.
        offset: Option<u8>,
    },
    /// Reads into the buffers of a vector.
    ReadVector {
        /// Argument with the offset, where -1 means the file's own.
        offset: Option<u8>,
    },
    /// Creates a process.
    Fork,
    /// Creates a process that shares the memory until it leaves it.
    Vfork,
    /// Creates a task as flags say.
    Clone,
    /// Creates a task as a struct says.
    CloneByStruct,
    /// Ends the thread.
    ExitThread,
    /// Ends the process.
    ExitProcess,
    /// Executes a program.
    Exec,
    /// Executes a program in a directory, with flags.
    ExecAt,
    /// Returns from a signal handler.
    SignalReturn,
    /// Sets the action of a signal.
    SignalAction,
    /// Sets the signal mask.
    SignalMask,
    /// Returns the pending signals.
    SignalPending,
    /// Sets the alternate signal stack.
    SignalStack,
    /// Waits with a signal mask of its own.
    MaskedWait {
        /// Argument that points to the mask.
        mask: u8,
        /// The argument points to a pair: the address of the mask, and its size.
        in_pair: bool,
    },
    /// Options of a process, among them filters and user dispatch.
    Prctl,
    /// Installs filters.
    Seccomp,
    /// Sets segment bases.
    ArchPrctl,
    /// Changes the user.
    ChangeUser,
    /// Registers the area in which the kernel notes on which CPU a thread is.
    RegisterArea,
    /// Locks all memory.
    LockAll,
    /// Unlocks all memory.
    UnlockAll,
    /// Traces another program.
    Trace,
    /// Maps a file or memory.
    Map,
    /// Removes mappings.
    Unmap,
    /// Moves a mapping, or changes its length.
    Remap,
    /// Has mapped memory show other pages of its file.
    Reorder,
    /// Changes the protection of mapped memory.
    Protect,
    /// Makes a context of Linux AIO.
    AioSetup,
    /// Submits control blocks to one.
    AioSubmit,
    /// Waits for completions.
    AioReap,
    /// Removes a context.
    AioDestroy,
    /// Makes a ring of io_uring.
    RingSetup,
    /// Submits entries to one, and waits for completions.
    RingEnter,
    /// Gives a ring buffers, files and much else.
    RingRegister,
    /// Closes a descriptor, which may be that of a ring.
    Close,
    /// Closes many.
    CloseRange,
    /// Gives a file another descriptor.
    Duplicate,
    /// Waits for descriptors, among which rings may be.
    Wait,
}
