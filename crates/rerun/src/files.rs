//! Calls on files that are made while the program is executed again.

/// Makes calls on files beside the program.
pub trait Files {
    /// The program makes this call.
    fn begin(&mut self, seq: u64);

    /// The recorded end of this call has come: waits until it has ended here as well. Returns how many
    /// nanoseconds it took, or `None` if it is none that is made, or one that waits for others.
    fn end(&mut self, seq: u64) -> Result<Option<u64>, String>;
}
