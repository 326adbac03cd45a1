//! What a trace says of the machine's threads as events of the kernel began to be taken, and whose
//! events were.

use trace::event::{FieldValue, OtherEvent};
use trace::event_table::EventRow;
use trace::format::event_number;

/// A thread, as /proc has shown it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelTask {
    /// Its id.
    pub task: u32,
    /// Its process.
    pub process: u32,
    /// The process that made it.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// The letter of its state.
    pub state: u8,
    /// The CPU on which it ran last.
    pub cpu: u32,
    /// It is one of the kernel's own.
    pub is_kernel: bool,
    /// Its events are in the trace, also if not all are.
    pub is_followed: bool,
    /// Its name.
    pub name: Vec<u8>,
    /// Its cgroup.
    pub cgroup: Vec<u8>,
}

/// Whose events were taken.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelScope {
    /// Those of all threads.
    pub is_whole: bool,
    /// The condition, as it was asked for.
    pub text: String,
    /// The recorder's process; 0 if it is not known.
    pub recorder: u32,
    /// What may be missing of what threads did.
    pub missing: Missing,
}

/// What events of the kernel do not tell of threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Missing {
    /// They tell when each one got a CPU, lost it and was woken.
    #[default]
    Nothing,
    /// What happened on CPUs that were not asked for.
    OtherCpus,
    /// Switches from one to another: they were not asked for, or not all, or are cut out.
    Switches,
}

impl Missing {
    fn of(number: u32) -> Missing {
        match number {
            0 => Missing::Nothing,
            1 => Missing::OtherCpus,
            _ => Missing::Switches,
        }
    }
}

impl KernelTask {
    /// What an event says, if it is of this kind.
    pub fn of(event: &OtherEvent) -> Option<KernelTask> {
        let mut fields = Fields::of(event, event_number::KERNEL_TASK)?;
        Some(KernelTask {
            task: fields.small(),
            process: fields.small(),
            parent: fields.small(),
            group: fields.small(),
            uid: fields.small(),
            gid: fields.small(),
            state: fields.bytes().first().copied().unwrap_or(0),
            cpu: fields.small(),
            is_kernel: fields.small() != 0,
            is_followed: fields.small() != 0,
            name: fields.bytes(),
            cgroup: fields.bytes(),
        })
    }

    /// The event that says it.
    pub fn event(&self, row: &'static EventRow) -> OtherEvent {
        let number = |number: u32| FieldValue::Unsigned(number.into());
        let values = vec![
            number(self.task),
            number(self.process),
            number(self.parent),
            number(self.group),
            number(self.uid),
            number(self.gid),
            FieldValue::Bytes(vec![self.state]),
            number(self.cpu),
            number(self.is_kernel.into()),
            number(self.is_followed.into()),
            FieldValue::Bytes(self.name.clone()),
            FieldValue::Bytes(self.cgroup.clone()),
        ];
        OtherEvent { row, values }
    }
}

impl KernelScope {
    /// What an event says, if it is of this kind.
    pub fn of(event: &OtherEvent) -> Option<KernelScope> {
        let mut fields = Fields::of(event, event_number::KERNEL_SCOPE)?;
        Some(KernelScope {
            is_whole: fields.small() != 0,
            text: fields.text(),
            recorder: fields.small(),
            missing: Missing::of(fields.small()),
        })
    }

    /// The event that says it.
    pub fn event(&self, row: &'static EventRow) -> OtherEvent {
        let values = vec![
            FieldValue::Unsigned(self.is_whole.into()),
            FieldValue::Text(self.text.clone()),
            FieldValue::Unsigned(self.recorder.into()),
            FieldValue::Unsigned(self.missing as u64),
        ];
        OtherEvent { row, values }
    }
}

/// The values of an event, one after the other.
pub(crate) struct Fields<'a>(std::slice::Iter<'a, FieldValue>);

impl<'a> Fields<'a> {
    pub(crate) fn of(event: &'a OtherEvent, number: u8) -> Option<Fields<'a>> {
        (event.row.number == number).then(|| Fields(event.values.iter()))
    }

    pub(crate) fn small(&mut self) -> u32 {
        match self.0.next() {
            Some(FieldValue::Unsigned(number)) => u32::try_from(*number).unwrap_or(u32::MAX),
            _ => 0,
        }
    }

    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        match self.0.next() {
            Some(FieldValue::Bytes(bytes)) => bytes.clone(),
            _ => Vec::new(),
        }
    }

    fn text(&mut self) -> String {
        match self.0.next() {
            Some(FieldValue::Text(text)) => text.clone(),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use trace::event_table::row_of;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let task = KernelTask {
            task: 1,
            process: 2,
            parent: 3,
            group: 4,
            uid: 5,
            gid: 6,
            state: b'S',
            cpu: 7,
            is_kernel: true,
            is_followed: false,
            name: b"cat".into(),
            cgroup: b"/a".into(),
        };
        let row = row_of(event_number::KERNEL_TASK).unwrap();
        assert_eq!(task.event(row).values.len(), row.fields.len());
        assert_eq!(KernelTask::of(&task.event(row)), Some(task.clone()));
        assert_eq!(KernelScope::of(&task.event(row)), None);
        let row = row_of(event_number::KERNEL_SCOPE).unwrap();
        let (is_whole, missing) = (true, Missing::Switches);
        let scope = KernelScope { is_whole, text: "uid=0".into(), recorder: 7, missing };
        assert_eq!(scope.event(row).values.len(), row.fields.len());
        assert_eq!(KernelScope::of(&scope.event(row)), Some(scope));
    }
}
