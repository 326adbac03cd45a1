//! What events say of operations, which a program submits without a call for each.

use trace::event::Event;
use trace::format::unzigzag;
use trace::parts::{PartValue, part_id};

fn number(event: &Event, id: u64) -> Option<u64> {
    match event.parts().iter().find(|part| part.id == id)?.value {
        PartValue::Number(number) => Some(number),
        PartValue::Bytes(_) => None,
    }
}

/// Returns how many of the operations that a call submits are events of their own.
pub fn operations_of(event: &Event) -> u64 {
    number(event, part_id::OPERATIONS).unwrap_or(0)
}

/// Returns when an operation was submitted, in ticks: never after its event.
pub fn submitted(event: &Event) -> Option<u64> {
    let ticks = unzigzag(number(event, part_id::SUBMITTED)?);
    Some(event.tsc.saturating_add_signed(ticks.min(0)))
}

/// Whether it was found completed only after the program may have used what came out.
pub fn is_late(event: &Event) -> bool {
    number(event, part_id::LATE).is_some()
}

/// Whether it is an operation that was completed, and whose submission is not in the trace.
pub fn is_unsubmitted(event: &Event) -> bool {
    number(event, part_id::COMPLETED).is_some() && number(event, part_id::SUBMITTED).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::event::{EventKind, Extras};
    use trace::format::zigzag;
    use trace::parts::Part;

    fn event(parts: Vec<Part>) -> Event {
        let extras = Some(Box::new(Extras { parts, ..Extras::default() }));
        Event { extras, ..Event::new(1, 1000, EventKind::default()) }
    }

    #[test]
    fn what_was_submitted_was_so_before() {
        let at = |ticks| submitted(&event(vec![Part::number(part_id::SUBMITTED, zigzag(ticks))]));
        assert_eq!([at(-400), at(0)], [Some(600), Some(1000)]);
        assert_eq!([at(1), at(i64::MIN)], [Some(1000), Some(0)], "no clock says so");
        let none = event(Vec::new());
        assert_eq!((submitted(&none), operations_of(&none), is_late(&none)), (None, 0, false));
        let many =
            event(vec![Part::number(part_id::OPERATIONS, 3), Part::number(part_id::LATE, 1)]);
        assert_eq!((operations_of(&many), is_late(&many)), (3, true));
        let completed = Part::number(part_id::COMPLETED, zigzag(0));
        let known = Part::number(part_id::SUBMITTED, zigzag(-1));
        assert!(is_unsubmitted(&event(vec![completed.clone()])) && !is_unsubmitted(&none));
        assert!(!is_unsubmitted(&event(vec![completed, known])));
    }
}
