//! What it proves if the result of a call differs from the recorded one. One value goes along with
//! each call, from the planner through the batch to the comparison.

/// Why a result that differs proves less than usual.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Reason {
    /// Data of which the trace has but a hash may be filler of the image.
    HashOfFiller = 1,
    /// Any data may be filler, or stores to memory changed it.
    Filler = 1 << 1,
    /// The result counts only when no call that overlapped it is under way any more, and even then
    /// its order among them is not known.
    OnceAlone = 1 << 2,
    /// It depends on what overlapping calls did, and when.
    Raced = 1 << 3,
    /// Overlapping calls changed its names: nobody knows which files they refer to.
    Names = 1 << 4,
    /// The file may have been written by requests that are not in the trace.
    Unseen = 1 << 5,
    /// The call had not returned, so there is no result.
    NotReturned = 1 << 6,
}

/// All reasons why a result that differs proves less than usual; usually none.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Certainty(u8);

/// What a result that differs counts as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excuse {
    /// It depends on overlapping calls.
    Raced,
    /// The file may have been written unseen.
    Unseen,
}

impl Certainty {
    /// A result that differs is a mismatch.
    pub const EXACT: Certainty = Certainty(0);

    /// Adds a reason, if there is one.
    #[must_use]
    pub fn weakened(self, reason: Option<Reason>) -> Certainty {
        Certainty(self.0 | reason.map_or(0, |reason| reason as u8))
    }

    /// Adds a reason if `holds`.
    #[must_use]
    pub fn weakened_if(self, holds: bool, reason: Reason) -> Certainty {
        self.weakened(holds.then_some(reason))
    }

    /// Whether this is one of the reasons.
    pub fn has(self, reason: Reason) -> bool {
        self.0 & reason as u8 != 0
    }

    /// Whether repeating the call may help once overlapping calls have ended.
    pub fn may_be_repeated(self) -> bool {
        !self.has(Reason::Raced)
    }

    /// What data that differs, or another result that is no error, counts as; `None`: a mismatch.
    pub fn excuse(self) -> Option<Excuse> {
        let raced = [Reason::OnceAlone, Reason::Raced, Reason::Names];
        match raced.into_iter().any(|reason| self.has(reason)) {
            true => Some(Excuse::Raced),
            false => self.has(Reason::Unseen).then_some(Excuse::Unseen),
        }
    }

    /// What an error that differs counts as: its file must be in doubt, not only its bytes.
    pub fn excuse_of_error(self) -> Option<Excuse> {
        let of_file = self.has(Reason::Names) || self.has(Reason::Unseen);
        self.excuse().filter(|_| of_file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_weakens_it_stays() {
        let certainty = Certainty::EXACT.weakened(None);
        assert_eq!((certainty, certainty.excuse()), (Certainty::EXACT, None));
        let once = certainty.weakened(Some(Reason::OnceAlone));
        assert!(once.may_be_repeated() && once.excuse() == Some(Excuse::Raced));
        assert_eq!(once.excuse_of_error(), None);
        let both = once.weakened(Some(Reason::Raced)).weakened(Some(Reason::OnceAlone));
        assert!(!both.may_be_repeated() && both.has(Reason::OnceAlone));
        let unseen = certainty.weakened_if(true, Reason::Unseen);
        assert_eq!(unseen.excuse_of_error(), Some(Excuse::Unseen));
        assert_eq!(unseen.weakened(Some(Reason::Names)).excuse_of_error(), Some(Excuse::Raced));
        assert_eq!(certainty.weakened_if(true, Reason::Filler).excuse(), None);
        assert_eq!(certainty.weakened_if(false, Reason::Raced), certainty);
    }
}
