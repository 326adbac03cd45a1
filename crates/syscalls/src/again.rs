//! What becomes of calls when their program is executed again.

/// What a re-execution of the program does with a call that has succeeded. One that has failed has
/// changed nothing: its result is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// Its recorded result is given, with the bytes that came out.
    Given,
    /// The same; and what went in is stored in the memory of the process that it names, if that is one of the
    /// re-execution.
    GivenToAnother,
    /// It shapes the process: it is made again, and must come out as it did.
    Made,
    /// The same, also if it failed: what comes after an error has happened before it, or the result is
    /// that of the code that a signal had interrupted.
    Always,
    /// The same if it returned its first argument; else it has changed nothing.
    Reached,
    /// It is made again so that it returns the recorded address.
    Placed,
    /// It is made again; the id that it returned is given for that of the new task.
    Born,
    /// It does to memory what no trace holds: the program cannot be re-executed beyond it.
    Unknown,
}

impl Again {
    /// Whether it is not made again.
    pub const fn is_given(self) -> bool {
        matches!(self, Again::Given | Again::GivenToAnother)
    }
}
