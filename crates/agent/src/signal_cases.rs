//! What is done with the call that a signal interrupts, by where it hit.

use crate::arch::head::phase;
use crate::arch::places::Place;

/// What is done with the current call before a signal is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    /// There is none: the program runs.
    NoCall,
    /// The entry code is undone.
    UndoEntry,
    /// The call is undone, as if the program had not reached it.
    Undo,
    /// The interruption is recorded, and the program is back at the call site.
    RecordRestart,
    /// Mask and alternate stack become what they were, and the program is back at the call site.
    ForgetReturn,
    /// The same, but the program is behind the call.
    FailReturn,
    /// The signal waits until the call is recorded.
    Hold,
    /// The call is recorded: the program is behind it.
    Finish,
}

/// Decides it. `phase`: that of the thread. `is_busy`: something is being changed that must be
/// finished first, or the call is made though the phase does not say so yet.
pub fn case_of(place: Place, phase: u32, is_busy: bool) -> Case {
    match place {
        Place::Program => Case::NoCall,
        Place::Entry => Case::UndoEntry,
        Place::Call => Case::Undo,
        Place::RestartedCall => Case::RecordRestart,
        Place::Return => Case::ForgetReturn,
        Place::RefusedReturn => Case::FailReturn,
        Place::Agent if is_busy || phase == phase::IN_CALL => Case::Hold,
        Place::Agent if phase == phase::BEFORE => Case::Undo,
        Place::Agent => Case::Finish,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_not_made_is_undone() {
        assert_eq!(case_of(Place::Entry, phase::RECORDED, false), Case::UndoEntry);
        assert_eq!(case_of(Place::Agent, phase::BEFORE, false), Case::Undo);
        assert_eq!(case_of(Place::Call, phase::IN_CALL, false), Case::Undo);
    }

    #[test]
    fn a_call_that_is_made_is_recorded_first() {
        assert_eq!(case_of(Place::Agent, phase::IN_CALL, false), Case::Hold);
        assert_eq!(case_of(Place::RestartedCall, phase::IN_CALL, false), Case::RecordRestart);
        for left_or_not in [phase::RECORDED, phase::LEFT_ALONE] {
            assert_eq!(case_of(Place::Agent, left_or_not, false), Case::Finish);
        }
    }

    #[test]
    fn what_is_being_changed_is_finished_first() {
        for phase in [phase::RECORDED, phase::BEFORE, phase::IN_CALL, phase::LEFT_ALONE] {
            assert_eq!(case_of(Place::Agent, phase, true), Case::Hold);
            assert_eq!(case_of(Place::Program, phase, true), Case::NoCall);
        }
    }

    #[test]
    fn a_return_from_a_handler_is_forgotten() {
        assert_eq!(case_of(Place::Return, phase::RECORDED, false), Case::ForgetReturn);
        assert_eq!(case_of(Place::RefusedReturn, phase::RECORDED, false), Case::FailReturn);
    }
}
