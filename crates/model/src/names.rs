//! Names of facts about a recording.

use trace::event::{GapWhy, StartHow};

/// Returns name and meaning of a gap's reason.
pub fn gap(why: GapWhy) -> (&'static str, &'static str) {
    match why {
        GapWhy::RecorderLost => ("recorder-lost", "the recorder was killed or gave up"),
        GapWhy::NotFollowed => ("not-followed", "a program that cannot be followed was started"),
        GapWhy::SizeLimit => ("size-limit", "the size limit of the recording was reached"),
        GapWhy::TimeLimit => ("time-limit", "the time limit of the recording was reached"),
        GapWhy::WriteFailed => ("write-failed", "the trace could not be written"),
        GapWhy::UntilExit => ("until-exit", "the program ended and left others running"),
        GapWhy::TooManyThreads => ("too-many-threads", "more threads ran than can be recorded"),
        GapWhy::Cut => ("cut", "this is a part of another trace"),
        GapWhy::Imported => ("imported", "made from a file of another tool, which proves nothing"),
        GapWhy::Traced => ("traced", "a program was traced by another one of the recording"),
        GapWhy::OwnGs => ("own-gs", "a program uses %gs itself, as the recorder does"),
        GapWhy::Unwatched => {
            ("unwatched", "what a process stores to mapped files is not recorded from here on")
        }
        GapWhy::KernelEvents => ("kernel-events", "the kernel dropped events of its own"),
        GapWhy::Repaired => ("repaired", "what was damaged or cut off is not here"),
        GapWhy::Interrupted => ("interrupted", "the recorder was asked to end"),
    }
}

/// Returns the name for how a thread was started.
pub fn start(how: StartHow) -> &'static str {
    match how {
        StartHow::Launch => "launch",
        StartHow::Fork => "fork",
        StartHow::Vfork => "vfork",
        StartHow::Thread => "thread",
    }
}
