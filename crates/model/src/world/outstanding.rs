//! Effects of calls that have returned, until the time of their return is reached.

use std::collections::BTreeMap;

use crate::step::Effect;

/// When a call returns, and its thread.
type Due = (u64, u32);

/// Effects by their time. Most often there are those of one call.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// Those that are due first.
    first: Option<(Due, Vec<Effect>)>,
    others: BTreeMap<Due, Vec<Effect>>,
}

impl Outstanding {
    /// Adds the effects of a thread's call. A thread has one at a time.
    pub fn add(&mut self, tsc: u64, thread: u32, effects: Vec<Effect>) {
        let due = (tsc, thread);
        match &mut self.first {
            None => self.first = Some((due, effects)),
            Some((first, of_first)) if due < *first => {
                let later = std::mem::replace(of_first, effects);
                self.others.insert(std::mem::replace(first, due), later);
            }
            Some(_) => _ = self.others.insert(due, effects),
        }
    }

    /// Takes the next effects that are due, with their thread.
    pub fn due(&mut self, tsc: u64) -> Option<(u32, Vec<Effect>)> {
        self.first.as_ref().filter(|((at, _), _)| *at <= tsc)?;
        self.take_first().map(|((_, thread), effects)| (thread, effects))
    }

    /// Takes the effects of a thread's call.
    pub fn take(&mut self, tsc: u64, thread: u32) -> Option<Vec<Effect>> {
        match &self.first {
            Some((due, _)) if *due == (tsc, thread) => {
                self.take_first().map(|(_, effects)| effects)
            }
            _ => self.others.remove(&(tsc, thread)),
        }
    }

    fn take_first(&mut self) -> Option<(Due, Vec<Effect>)> {
        let next = if self.others.is_empty() { None } else { self.others.pop_first() };
        std::mem::replace(&mut self.first, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_taken_in_the_order_of_time() {
        let mut outstanding = Outstanding::default();
        let effects = |fd| vec![Effect::Close { fd }];
        for (tsc, thread) in [(30, 3), (10, 1), (20, 2), (40, 4), (20, 5)] {
            outstanding.add(tsc, thread, effects(thread as i32));
        }
        let of = |effects: Option<Vec<Effect>>| match effects.as_deref() {
            Some([Effect::Close { fd }]) => Some(*fd),
            _ => None,
        };
        assert_eq!(of(outstanding.take(40, 4)), Some(4));
        assert_eq!(of(outstanding.take(10, 1)), Some(1));
        assert_eq!(of(outstanding.take(10, 1)), None);
        let due: Vec<u32> = std::iter::from_fn(|| outstanding.due(25)).map(|due| due.0).collect();
        assert_eq!(due, [2, 5]);
        assert!(outstanding.due(29).is_none());
        assert_eq!(outstanding.due(30).map(|due| due.0), Some(3));
        assert!(outstanding.due(u64::MAX).is_none());
    }
}
