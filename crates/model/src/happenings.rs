//! Events of the kernel as what they mean: their fields, found once for each layout.

use syscalls::abi::states::{self, Stopping};
use trace::Trace;
use trace::event::{EventKind, RECORDER};
use trace::format::kind;
use trace::kernel::{KernelLayout, KernelLayouts, KernelValue};

use crate::kernel_events::{Interrupt, KernelAct, Paging, Rest, kernel_row};

/// What a trace says of events of the kernel. That stands in the recorder's stream.
pub fn kernel_layouts(trace: &Trace) -> KernelLayouts {
    let mut layouts = KernelLayouts::default();
    let heads = trace.blocks().iter();
    for head in heads.filter(|head| head.kind == kind::EVENTS && head.thread == RECORDER) {
        // What cannot be read is told by the pass itself.
        for event in trace.decode_block(head).into_iter().flatten().flatten() {
            if let EventKind::KernelLayout(layout) = &event.kind {
                layouts.add(layout);
            }
        }
    }
    layouts
}

/// Fields of an event that are looked at, from the first one on.
const FIELDS_MAX: usize = 24;
/// Arguments of a call.
const ARGS: usize = 6;
/// The greatest power of two of pages that the kernel keeps together.
const ORDER_MAX: u64 = 30;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happening<'a> {
    /// A CPU goes from one thread to another.
    Switch {
        /// The one that stops running.
        from: u32,
        /// Why.
        why: Stopping,
        /// The one that runs now.
        to: u32,
        /// Their names.
        names: [&'a [u8]; 2],
    },
    /// A thread can go on.
    Wake {
        /// Which one.
        task: u32,
        /// Its name.
        name: &'a [u8],
    },
    /// A thread made another one.
    Fork {
        /// The maker.
        parent: u32,
        /// The new one.
        child: u32,
        /// Its name.
        name: &'a [u8],
    },
    /// The thread that runs makes another one; [`Happening::Fork`] follows.
    Make {
        /// The new one.
        task: u32,
        /// The flags of `clone`.
        flags: u64,
    },
    /// A thread began a program.
    Exec {
        /// Its id from now on.
        task: u32,
        /// Its id before.
        old: u32,
    },
    /// Something begins that interrupts what ran.
    Enter(Entered<'a>),
    /// What interrupted ends.
    Leave,
    /// A request goes to a device.
    Issue {
        /// The device and the place on it.
        request: [u64; 2],
        /// Bytes.
        bytes: u64,
        /// What is to be done, in letters.
        how: &'a [u8],
    },
    /// A request is done.
    Complete {
        /// The device and the place on it.
        request: [u64; 2],
    },
    /// The thread that runs touched memory that is not there yet.
    Fault {
        /// Where.
        address: u64,
    },
    /// It begins a call.
    Call {
        /// Its number.
        nr: u64,
        /// Its arguments.
        args: [u64; ARGS],
    },
    /// It returns from one.
    Return,
    /// It waits for a lock of the kernel.
    Contend {
        /// Which one.
        lock: u64,
    },
    /// It has the lock, or has given up.
    Contended,
    /// Something is done with pages of a file.
    Pages {
        /// What.
        what: Paging,
        /// The file's device, as the kernel numbers it, and its inode.
        file: [u64; 2],
        /// The first page.
        first: u64,
        /// How many.
        count: u64,
    },
}

/// What interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entered<'a> {
    /// A device.
    Device {
        /// The number of its interrupt.
        number: u64,
        /// The name of the handler.
        name: &'a [u8],
    },
    /// The second half of one, by its number.
    Soft(i64),
    /// A timer.
    Timer,
    /// Another one of the processor's own.
    Processor,
}

/// Reads events of the layouts of a trace.
#[derive(Clone, Default)]
pub struct Happenings {
    /// Numbers of layouts, sorted: fewer than would be worth a hash.
    numbers: Vec<u32>,
    /// In the same order.
    plans: Vec<Plan>,
}

/// Place of a field.
type Place = u8;

#[derive(Clone)]
struct Plan {
    layout: KernelLayout,
    does: Does,
    /// Fields up to the last one that is needed.
    fields: usize,
}

#[derive(Clone, Copy)]
enum Does {
    Switch([Place; 5]),
    Wake([Place; 2]),
    Fork([Place; 3]),
    Make([Place; 2]),
    Exec([Place; 2]),
    Device([Place; 2]),
    Soft([Place; 1]),
    Timer,
    Processor,
    Leave,
    Issue([Place; 4]),
    Complete([Place; 2]),
    Fault([Place; 1]),
    Call([Place; 2]),
    Return,
    Contend([Place; 1]),
    Contended,
    Pages(Paging, Unit, [Place; 4]),
}

/// What the last field of pages counts.
#[derive(Clone, Copy)]
enum Unit {
    One,
    Order,
    Until,
    Count,
}

impl Happenings {
    /// For events of these layouts.
    pub fn new(layouts: &KernelLayouts) -> Happenings {
        let plans = layouts.iter().filter_map(|layout| Some((layout.number, plan(layout)?)));
        let mut plans: Vec<(u32, Plan)> = plans.collect();
        plans.sort_by_key(|(number, _)| *number);
        let (numbers, plans) = plans.into_iter().unzip();
        Happenings { numbers, plans }
    }

    /// Returns true if events tell of switches from one thread to another.
    pub fn has_switches(&self) -> bool {
        self.plans.iter().any(|plan| matches!(plan.does, Does::Switch(_)))
    }

    /// Returns what an event means, if that is known.
    pub fn read<'a>(&'a self, layout: u32, values: &'a [u8]) -> Option<Happening<'a>> {
        let plan = &self.plans[self.numbers.binary_search(&layout).ok()?];
        let mut found = [KernelValue::Unsigned(0); FIELDS_MAX];
        let mut count = 0;
        for ((_, value), to) in plan.layout.values(values).zip(&mut found[..plan.fields]) {
            *to = value;
            count += 1;
        }
        if count < plan.fields {
            return None;
        }
        let number = |place: Place| found[usize::from(place)].number().unwrap_or(0);
        let id = |place: Place| u32::try_from(number(place)).unwrap_or(0);
        let text = |place: Place| match found[usize::from(place)] {
            KernelValue::Text(text) => text,
            _ => &[],
        };
        Some(match plan.does {
            Does::Switch([from, state, to, of_from, of_to]) => Happening::Switch {
                from: id(from),
                why: states::of_switch(number(state)),
                to: id(to),
                names: [text(of_from), text(of_to)],
            },
            Does::Wake([task, name]) => Happening::Wake { task: id(task), name: text(name) },
            Does::Fork([parent, child, name]) => {
                Happening::Fork { parent: id(parent), child: id(child), name: text(name) }
            }
            Does::Make([task, flags]) => {
                Happening::Make { task: id(task), flags: number(flags) as u64 }
            }
            Does::Exec([task, old]) => Happening::Exec { task: id(task), old: id(old) },
            Does::Device([irq, name]) => {
                Happening::Enter(Entered::Device { number: number(irq) as u64, name: text(name) })
            }
            Does::Soft([vector]) => Happening::Enter(Entered::Soft(number(vector))),
            Does::Timer => Happening::Enter(Entered::Timer),
            Does::Processor => Happening::Enter(Entered::Processor),
            Does::Leave => Happening::Leave,
            Does::Issue([device, sector, bytes, how]) => Happening::Issue {
                request: [number(device) as u64, number(sector) as u64],
                bytes: number(bytes) as u64,
                how: text(how),
            },
            Does::Complete([device, sector]) => {
                Happening::Complete { request: [number(device) as u64, number(sector) as u64] }
            }
            Does::Fault([address]) => Happening::Fault { address: number(address) as u64 },
            Does::Call([nr, args]) => Happening::Call {
                nr: number(nr) as u64,
                args: match found[usize::from(args)] {
                    KernelValue::Bytes(bytes) => arguments(bytes),
                    _ => [0; ARGS],
                },
            },
            Does::Return => Happening::Return,
            Does::Contend([lock]) => Happening::Contend { lock: number(lock) as u64 },
            Does::Contended => Happening::Contended,
            Does::Pages(what, unit, [device, inode, first, last]) => {
                let [from, to] = [number(first) as u64, number(last) as u64];
                let (first, count) = match unit {
                    Unit::One => (from, 1),
                    Unit::Order => (from, 1 << to.min(ORDER_MAX)),
                    Unit::Until => (from, to.saturating_sub(from).saturating_add(1)),
                    Unit::Count => (from, to),
                };
                let file = [number(device) as u64, number(inode) as u64];
                Happening::Pages { what, file, first, count }
            }
        })
    }
}

fn arguments(bytes: &[u8]) -> [u64; ARGS] {
    let mut args = [0; ARGS];
    for (arg, bytes) in args.iter_mut().zip(bytes.as_chunks().0) {
        *arg = u64::from_le_bytes(*bytes);
    }
    args
}

fn plan(layout: &KernelLayout) -> Option<Plan> {
    let row = kernel_row(&layout.system, &layout.name)?;
    let mut fields = 0;
    let mut place = |name: &str| {
        let at = layout.fields.iter().take(FIELDS_MAX).position(|field| field.name == name)?;
        fields = fields.max(at + 1);
        Place::try_from(at).ok()
    };
    let does = match row.does {
        KernelAct::Nothing | KernelAct::Moves { .. } => return None,
        KernelAct::Switch { from, state, to, names } => Does::Switch([
            place(from)?,
            place(state)?,
            place(to)?,
            place(names[0])?,
            place(names[1])?,
        ]),
        KernelAct::Wake { task, name } => Does::Wake([place(task)?, place(name)?]),
        KernelAct::Fork { parent, child, name } => {
            Does::Fork([place(parent)?, place(child)?, place(name)?])
        }
        KernelAct::Make { task, flags } => Does::Make([place(task)?, place(flags)?]),
        KernelAct::Exec { task, old } => Does::Exec([place(task)?, place(old)?]),
        KernelAct::Enter { kind: Interrupt::Device { fields: [number, name] }, .. } => {
            Does::Device([place(number)?, place(name)?])
        }
        KernelAct::Enter { kind: Interrupt::Soft { vector }, .. } => Does::Soft([place(vector)?]),
        KernelAct::Enter { kind: Interrupt::Timer, .. } => Does::Timer,
        KernelAct::Enter { kind: Interrupt::Processor, .. } => Does::Processor,
        KernelAct::Leave => Does::Leave,
        KernelAct::Issue { request: [device, sector], bytes, how } => {
            Does::Issue([place(device)?, place(sector)?, place(bytes)?, place(how)?])
        }
        KernelAct::Complete { request: [device, sector] } => {
            Does::Complete([place(device)?, place(sector)?])
        }
        KernelAct::Fault { address } => Does::Fault([place(address)?]),
        KernelAct::Call { call: [number, args] } => Does::Call([place(number)?, place(args)?]),
        KernelAct::Return => Does::Return,
        KernelAct::Contend { lock } => Does::Contend([place(lock)?]),
        KernelAct::Contended => Does::Contended,
        KernelAct::Pages { what, file, first, rest } => {
            let [device, inode, from] = [place(file[0])?, place(file[1])?, place(first)?];
            let (unit, last) = match rest {
                Rest::One => (Unit::One, from),
                // Older kernels have pages of one size alone.
                Rest::Order(field) => {
                    place(field).map_or((Unit::One, from), |at| (Unit::Order, at))
                }
                Rest::Until(field) => (Unit::Until, place(field)?),
                Rest::Count(field) => (Unit::Count, place(field)?),
            };
            Does::Pages(what, unit, [device, inode, from, last])
        }
    };
    Some(Plan { layout: KernelLayout::clone(layout), does, fields })
}

#[cfg(test)]
mod tests {
    use trace::kernel::{KernelField, KernelKind, put_value};

    use super::*;

    fn layout(name: &str, fields: &[(&str, KernelKind)]) -> KernelLayout {
        let fields = fields.iter().map(|&(name, kind)| KernelField {
            name: name.into(),
            c_type: String::new(),
            kind,
            size: 4,
        });
        let fields = fields.collect();
        KernelLayout {
            number: 7,
            system: "sched".into(),
            name: name.into(),
            fields,
            words: Vec::new(),
        }
    }

    fn reader(layout: &KernelLayout) -> Happenings {
        let mut layouts = KernelLayouts::default();
        layouts.add(layout);
        Happenings::new(&layouts)
    }

    #[test]
    fn fields_are_found_wherever_they_stand() {
        let waking = layout(
            "sched_waking",
            &[
                ("prio", KernelKind::Signed),
                ("pid", KernelKind::Signed),
                ("comm", KernelKind::Text),
            ],
        );
        let happenings = reader(&waking);
        let mut values = Vec::new();
        put_value(&mut values, KernelValue::Signed(-5));
        put_value(&mut values, KernelValue::Signed(77));
        put_value(&mut values, KernelValue::Text(b"cat"));
        let expected = Happening::Wake { task: 77, name: b"cat" };
        assert_eq!(happenings.read(7, &values), Some(expected));
        assert_eq!(happenings.read(8, &values), None);
        for len in 0..values.len() {
            assert_eq!(happenings.read(7, &values[..len]), None);
        }
    }

    #[test]
    fn layouts_that_lack_a_field_say_nothing() {
        let waking = layout("sched_waking", &[("pid", KernelKind::Signed)]);
        assert_eq!(reader(&waking).read(7, &[2, 2, 2]), None);
    }
}
