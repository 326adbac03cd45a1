//! What a re-execution does with calls on real sockets, a column of the table.

/// What a re-execution does with a call if the program has real sockets, before its recorded result is
/// given. One that has failed is not made, but for a connect that goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// Nothing.
    Nothing,
    /// It is made with the recorded arguments, if its descriptor is a real one.
    Made,
    /// The same if these are its level and option: such as change nobody's memory and rights.
    MadeFor(&'static [(u64, u64)]),
    /// It is made whatever its arguments lead to: real descriptors are the only ones there.
    Always,
    /// It is made, and its descriptor gets the recorded number.
    Opens,
    /// The same, if it is a stream of TCP.
    OpensStream,
    /// It gives a descriptor another number, and may close what has that.
    Renumbers,
    /// It is made with an address on the loopback.
    Binds,
    /// It is made with the address of a peer that is played.
    Connects,
    /// It is made once a peer has connected, and its descriptor gets the recorded number.
    Accepts,
    /// It is made once the recorded bytes are there.
    Receives,
    /// It is made, again for the rest if fewer bytes went out.
    Sends,
    /// The same with bytes of a file.
    Copies,
    /// It is made if the descriptor that is watched is a real one.
    Watches,
    /// It is made without waiting.
    Waits {
        /// What it looks at.
        on: WaitsOn,
        /// The argument with the time limit.
        limit: u8,
        /// The limit is in the memory behind it.
        is_behind: bool,
    },
}

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitsOn {
    /// A list of descriptors.
    List,
    /// Sets of descriptors.
    Sets,
    /// What was said before.
    Queue,
}
