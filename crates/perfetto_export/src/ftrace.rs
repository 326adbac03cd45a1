//! Events of the kernel as Perfetto's ftrace packets, from which its trace processor makes tracks of CPUs
//! and states of threads.

use trace::event::KernelEvent;
use trace::kernel::{KernelLayout, KernelValue};

use crate::writer::Message;

/// Events of a packet.
pub const EVENTS_MAX: usize = 512;

/// Fields of `FtraceEventBundle` and `FtraceEvent`.
mod bundle {
    pub const CPU: u32 = 1;
    pub const EVENT: u32 = 2;
    pub const LOST: u32 = 3;
    pub const TIMESTAMP: u32 = 1;
    pub const TASK: u32 = 2;
    pub const GENERIC: u32 = 327;
}

/// Fields of `GenericFtraceEvent` and its `Field`.
mod generic {
    pub const NAME: u32 = 1;
    pub const FIELD: u32 = 2;
    pub const FIELD_NAME: u32 = 1;
    pub const FIELD_TEXT: u32 = 3;
    pub const FIELD_INT: u32 = 4;
    pub const FIELD_UINT: u32 = 5;
}

/// An event that Perfetto knows: its name, its number in `FtraceEvent`, and those of its fields.
type Row = (&'static str, u32, &'static [(&'static str, u32)]);

const WAKE: &[(&str, u32)] = &[("comm", 1), ("pid", 2), ("prio", 3), ("target_cpu", 5)];
const VECTOR: &[(&str, u32)] = &[("vec", 1)];

/// Those that its tables are made of. All others are written as generic events.
#[rustfmt::skip]
static ROWS: [Row; 19] = [
    ("sched_switch", 4, &[
        ("prev_comm", 1), ("prev_pid", 2), ("prev_prio", 3), ("prev_state", 4), ("next_comm", 5),
        ("next_pid", 6), ("next_prio", 7)]),
    ("sched_waking", 20, WAKE),
    ("sched_wakeup", 17, WAKE),
    ("sched_wakeup_new", 114, WAKE),
    ("sched_migrate_task", 491, &[("comm", 1), ("pid", 2), ("prio", 3), ("orig_cpu", 4), ("dest_cpu", 5)]),
    ("sched_process_fork", 239, &[("parent_comm", 1), ("parent_pid", 2), ("child_comm", 3), ("child_pid", 4)]),
    ("sched_process_exec", 237, &[("filename", 1), ("pid", 2), ("old_pid", 3)]),
    ("sched_process_exit", 238, &[("comm", 1), ("pid", 2), ("prio", 4)]),
    ("sched_process_free", 240, &[("comm", 1), ("pid", 2), ("prio", 3)]),
    ("task_newtask", 235, &[("pid", 1), ("comm", 2), ("clone_flags", 3), ("oom_score_adj", 4)]),
    ("irq_handler_entry", 36, &[("irq", 1), ("name", 2)]),
    ("irq_handler_exit", 37, &[("irq", 1), ("ret", 2)]),
    ("softirq_entry", 24, VECTOR),
    ("softirq_exit", 25, VECTOR),
    ("softirq_raise", 26, VECTOR),
    ("block_rq_issue", 45, &[
        ("dev", 1), ("sector", 2), ("nr_sector", 3), ("bytes", 4), ("rwbs", 5), ("comm", 6), ("cmd", 7)]),
    ("block_rq_complete", 125, &[("dev", 1), ("sector", 2), ("nr_sector", 3), ("rwbs", 5), ("cmd", 6), ("error", 7)]),
    ("sys_enter", 329, &[("id", 1), ("args", 2)]),
    ("sys_exit", 330, &[("id", 1), ("ret", 2)]),
];

/// Events of a CPU that are not written yet.
#[derive(Default)]
pub struct Bundle {
    events: Message,
    count: usize,
    has_lost: bool,
}

impl Bundle {
    /// Adds an event. Returns true if the packet is long enough.
    pub fn add(&mut self, time_ns: u64, event: &KernelEvent, layout: &KernelLayout) -> bool {
        self.events.message(bundle::EVENT, |out| {
            out.uint(bundle::TIMESTAMP, time_ns);
            out.uint(bundle::TASK, event.task.into());
            match ROWS.iter().find(|(name, ..)| *name == layout.name) {
                Some((_, number, fields)) => {
                    out.message(*number, |out| known(out, event, layout, fields));
                }
                None => out.message(bundle::GENERIC, |out| unknown(out, event, layout)),
            }
        });
        self.count += 1;
        self.count >= EVENTS_MAX
    }

    /// Events are missing before the next one.
    pub fn lose(&mut self) {
        self.has_lost = true;
    }

    /// Returns true if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && !self.has_lost
    }

    /// Fills the message of a packet, and begins the next one.
    pub fn put(&mut self, cpu: u32, out: &mut Message) {
        out.uint(bundle::CPU, cpu.into());
        out.append(&self.events);
        if self.has_lost {
            out.uint(bundle::LOST, 1);
        }
        self.events.clear();
        (self.count, self.has_lost) = (0, false);
    }
}

fn known(out: &mut Message, event: &KernelEvent, layout: &KernelLayout, fields: &[(&str, u32)]) {
    for (field, value) in layout.values(&event.values) {
        let Some((_, number)) = fields.iter().find(|(name, _)| *name == field.name) else {
            continue;
        };
        match value {
            KernelValue::Unsigned(value) => out.uint(*number, value),
            KernelValue::Signed(value) => out.uint(*number, value as u64),
            KernelValue::Text(text) => out.bytes(*number, &text_of(text)),
            // The arguments of a call.
            KernelValue::Bytes(bytes) => {
                for word in bytes.as_chunks().0 {
                    out.uint(*number, u64::from_le_bytes(*word));
                }
            }
        }
    }
}

fn unknown(out: &mut Message, event: &KernelEvent, layout: &KernelLayout) {
    out.bytes(generic::NAME, layout.name.as_bytes());
    for (field, value) in layout.values(&event.values) {
        out.message(generic::FIELD, |out| {
            out.bytes(generic::FIELD_NAME, field.name.as_bytes());
            match value {
                KernelValue::Unsigned(value) => out.uint(generic::FIELD_UINT, value),
                KernelValue::Signed(value) => out.uint(generic::FIELD_INT, value as u64),
                KernelValue::Text(text) | KernelValue::Bytes(text) => {
                    out.bytes(generic::FIELD_TEXT, &text_of(text));
                }
            }
        });
    }
}

/// Protobuf's texts are UTF-8.
fn text_of(bytes: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(bytes).into_owned().into_bytes()
}
