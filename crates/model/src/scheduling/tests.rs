use std::collections::HashMap;

use trace::event::{CPU_STREAM, Call, Event, EventKind, KernelEvent, Outcome, RECORDER};
use trace::event_table::row_of;
use trace::format::event_number;
use trace::kernel::{KernelField, KernelKind, KernelLayout, KernelValue, put_value};

use super::*;

const SWITCH: u32 = 1;
const WAKE: u32 = 2;
const ENTER: u32 = 3;
const LEAVE: u32 = 4;
const COMPLETE: u32 = 5;
const TICK: u32 = 6;
const TICKED: u32 = 7;
const MAKE: u32 = 8;
const FORK: u32 = 9;
const FAULT: u32 = 10;

fn layout(number: u32, system: &str, name: &str, fields: &[&str]) -> KernelLayout {
    let field = |name: &&str| KernelField {
        name: name.to_string(),
        c_type: String::new(),
        kind: if name.contains("comm") { KernelKind::Text } else { KernelKind::Signed },
        size: 8,
    };
    let fields = fields.iter().map(field).collect();
    KernelLayout { number, system: system.into(), name: name.into(), fields, words: Vec::new() }
}

/// Keeps the pieces.
#[derive(Default)]
struct Kept(Vec<(u32, Piece)>);

impl Sink for Kept {
    fn piece(&mut self, thread: &Thread, piece: Piece) {
        self.0.push((thread.id, piece));
    }
}

/// A machine; events happen on its first CPU unless a test says otherwise.
struct Machine {
    all: Scheduling,
    layouts: KernelLayouts,
    kept: Kept,
    /// Who runs by CPU, as the events say.
    runs: HashMap<u32, u32>,
}

impl Machine {
    fn new() -> Machine {
        let switch = ["prev_comm", "prev_pid", "prev_state", "next_comm", "next_pid"];
        let fork = ["parent_pid", "child_comm", "child_pid"];
        let mut layouts = KernelLayouts::default();
        for (number, system, name, fields) in [
            (SWITCH, "sched", "sched_switch", switch.as_slice()),
            (WAKE, "sched", "sched_waking", &["comm", "pid"]),
            (ENTER, "irq_vectors", "reschedule_entry", &["vector"]),
            (LEAVE, "irq_vectors", "reschedule_exit", &["vector"]),
            (COMPLETE, "block", "block_rq_complete", &["dev", "sector"]),
            (TICK, "irq_vectors", "local_timer_entry", &["vector"]),
            (TICKED, "irq_vectors", "local_timer_exit", &["vector"]),
            (MAKE, "task", "task_newtask", &["pid", "comm", "clone_flags"]),
            (FORK, "sched", "sched_process_fork", &fork),
            (FAULT, "exceptions", "page_fault_user", &["address"]),
        ] {
            layouts.add(&layout(number, system, name, fields));
        }
        let all = Scheduling::new(&layouts);
        Machine { all, layouts, kept: Kept::default(), runs: HashMap::new() }
    }

    fn happens(&mut self, now: u64, layout: u32, numbers: &[i64]) {
        self.happens_on(0, now, layout, numbers);
    }

    fn happens_on(&mut self, cpu: u32, now: u64, layout: u32, numbers: &[i64]) {
        let fields = self.layouts.get(layout).unwrap().fields.clone();
        let (mut values, mut left) = (Vec::new(), numbers.iter());
        for field in fields {
            let value = match field.kind {
                KernelKind::Text => KernelValue::Text(b"cat"),
                _ => KernelValue::Signed(*left.next().unwrap()),
            };
            put_value(&mut values, value);
        }
        let task = self.runs.get(&cpu).copied().unwrap_or(0);
        if layout == SWITCH {
            self.runs.insert(cpu, u32::try_from(numbers[2]).unwrap_or(0));
        }
        let kernel = EventKind::Kernel(KernelEvent { layout, task, flags: 0, values });
        self.takes(CPU_STREAM | cpu, now, kernel, None, None);
    }

    fn takes(
        &mut self,
        stream: u32,
        now: u64,
        kind: EventKind,
        exit: Option<u64>,
        tid: Option<u32>,
    ) {
        self.all.event(&Event::new(stream, now, kind), now, exit, tid, &mut self.kept);
    }

    /// A thread is in a call from now on.
    fn calls(&mut self, now: u64, until: u64, tid: u32, name: &str) {
        let nr = syscalls::by_name(name).unwrap().nr;
        let outcome = Outcome::Returned { exit_tsc: until, ret: 0 };
        let call = EventKind::Call(Call { nr, outcome, ..Call::default() });
        self.takes(1, now, call, Some(until), Some(tid));
    }

    /// What a thread did, in its order.
    fn pieces(&self, tid: u32) -> Vec<(Doing, u64)> {
        let of_it = self.kept.0.iter().filter(|(id, _)| *id == tid);
        let mut pieces: Vec<(Doing, u64)> = Vec::new();
        for (_, piece) in of_it {
            match pieces.last_mut() {
                Some(last) if last.0 == piece.doing => last.1 += piece.to - piece.from,
                _ => pieces.push((piece.doing, piece.to - piece.from)),
            }
        }
        pieces
    }

    fn finish(&mut self) {
        self.all.finish(&mut self.kept);
        for thread in self.all.threads() {
            let of_it = self.kept.0.iter().filter(|(id, _)| *id == thread.id);
            let sum: u64 = of_it.map(|(_, piece)| piece.to - piece.from).sum();
            assert_eq!(sum, thread.times.life_ns(), "{thread:?}");
        }
    }
}

#[test]
fn what_a_thread_did_adds_up_to_its_life() {
    let mut machine = Machine::new();
    machine.happens(100, SWITCH, &[0, 0, 7]);
    machine.happens(150, ENTER, &[5]);
    machine.happens(160, LEAVE, &[5]);
    machine.happens(200, SWITCH, &[7, 2, 8]); // Blocked.
    machine.happens(230, WAKE, &[7]);
    machine.happens(300, SWITCH, &[8, 256, 7]); // Preempted.
    machine.happens(310, SWITCH, &[7, 1, 8]); // Asleep.
    machine.happens(350, SWITCH, &[8, 32, 0]); // Ended.
    machine.happens(400, SWITCH, &[0, 0, 0]);
    machine.finish();
    // Before it was seen to run, it was runnable: nothing has woken it.
    let expected = [
        (Doing::Woken, 100),
        (Doing::Own, 50),
        (Doing::Interrupted, 10),
        (Doing::Own, 40),
        (Doing::Lock, 30),
        (Doing::Woken, 70),
        (Doing::Own, 10),
        (Doing::Asleep, 90),
    ];
    assert_eq!(machine.pieces(7), expected);
    assert_eq!(machine.all.thread(7).unwrap().times.life_ns(), 400);
    let expected =
        [(Doing::Woken, 200), (Doing::Own, 100), (Doing::Preempted, 10), (Doing::Own, 40)];
    assert_eq!(machine.pieces(8), expected);
    let cpu = *machine.all.cpus().next().unwrap().1.times();
    let expected = CpuTimes { user_ns: 240, kernel_ns: 0, irq_ns: 10, softirq_ns: 0, idle_ns: 150 };
    assert_eq!(cpu, expected);
}

#[test]
fn waits_are_explained_by_calls_and_wakers() {
    for (call, state, timer, expected) in [
        ("futex", 1, false, Doing::Lock),
        ("read", 1, false, Doing::Peer),
        ("poll", 1, false, Doing::Peer),
        ("poll", 1, true, Doing::Asleep),
        ("nanosleep", 1, true, Doing::Asleep),
        ("wait4", 1, false, Doing::Child),
        ("flock", 1, false, Doing::Lock),
        ("fsync", 2, false, Doing::Disk),
        ("read", 2, false, Doing::Lock),
        ("vfork", 2, false, Doing::Child),
    ] {
        let mut machine = Machine::new();
        machine.happens(10, SWITCH, &[0, 0, 7]);
        machine.calls(20, 90, 7, call);
        machine.happens(30, SWITCH, &[7, state, 8]);
        if timer {
            machine.happens(60, TICK, &[1]);
        }
        machine.happens(70, WAKE, &[7]);
        if timer {
            machine.happens(71, TICKED, &[1]);
        }
        machine.happens(80, SWITCH, &[8, 1, 7]);
        machine.happens(100, SWITCH, &[7, 1, 0]);
        let pieces = machine.pieces(7);
        let expected = [
            (Doing::Woken, 10),
            (Doing::Own, 10),
            (Doing::Call, 10),
            (expected, 40),
            (Doing::Woken, 10),
            (Doing::Call, 10),
            (Doing::Own, 10),
        ];
        assert_eq!(pieces, expected, "{call}");
        machine.finish();
    }
}

#[test]
fn the_end_of_a_request_ends_a_wait_for_a_disk() {
    let mut machine = Machine::new();
    machine.happens(10, SWITCH, &[0, 0, 7]);
    machine.happens(20, SWITCH, &[7, 2, 0]);
    machine.happens(50, ENTER, &[1]);
    machine.happens(51, COMPLETE, &[8, 640]);
    machine.happens(52, WAKE, &[7]);
    machine.happens(53, LEAVE, &[1]);
    machine.happens(60, SWITCH, &[0, 0, 7]);
    assert_eq!(machine.pieces(7)[2..], [(Doing::Disk, 32), (Doing::Woken, 8)]);
    let waits = machine.kept.0.iter().find(|(_, piece)| piece.doing == Doing::Disk);
    assert_eq!(waits.unwrap().1.waker, Waker::Disk([8, 640]));
    machine.finish();
}

#[test]
fn who_runs_and_is_woken_goes_on() {
    let mut machine = Machine::new();
    machine.happens(0, SWITCH, &[0, 0, 7]);
    machine.happens(10, WAKE, &[7]);
    machine.happens(30, SWITCH, &[7, 0, 0]);
    machine.happens(40, SWITCH, &[0, 0, 7]);
    machine.happens(45, SWITCH, &[7, 4, 0]);
    machine.happens(50, WAKE, &[7]);
    machine.finish();
    let expected = [(Doing::Own, 30), (Doing::Preempted, 10), (Doing::Own, 5), (Doing::Stopped, 5)];
    assert_eq!(machine.pieces(7), expected);
}

#[test]
fn a_wakeup_that_comes_before_the_switch_is_one() {
    let mut machine = Machine::new();
    machine.happens(0, SWITCH, &[0, 0, 7]);
    // Another CPU wakes it as it goes to sleep.
    machine.happens_on(1, 10, SWITCH, &[0, 0, 9]);
    machine.happens_on(1, 20, WAKE, &[7]);
    machine.happens(21, SWITCH, &[7, 1, 8]);
    machine.happens(50, SWITCH, &[8, 1, 7]);
    assert_eq!(machine.pieces(7), [(Doing::Own, 21), (Doing::Woken, 29)]);
    // One that was woken since has slept.
    machine.happens_on(1, 60, WAKE, &[7]);
    machine.happens(70, SWITCH, &[7, 1, 8]);
    machine.happens_on(1, 90, WAKE, &[7]);
    machine.happens(95, SWITCH, &[8, 1, 7]);
    assert_eq!(machine.pieces(7)[2..], [(Doing::Own, 20), (Doing::Asleep, 20), (Doing::Woken, 5)]);
    machine.finish();
}

#[test]
fn who_left_without_an_event_is_not_said_to_run() {
    let mut machine = Machine::new();
    machine.happens(0, SWITCH, &[0, 0, 7]);
    machine.happens(10, ENTER, &[1]);
    machine.happens(20, LEAVE, &[1]);
    // Another one runs: it was switched to without an event, after 20.
    machine.runs.insert(0, 9);
    machine.happens(50, WAKE, &[8]);
    machine.happens(60, SWITCH, &[9, 1, 8]);
    machine.happens(70, WAKE, &[7]);
    machine.happens(90, SWITCH, &[8, 0, 7]);
    machine.finish();
    let expected =
        [(Doing::Own, 10), (Doing::Interrupted, 10), (Doing::Unknown, 50), (Doing::Woken, 20)];
    assert_eq!(machine.pieces(7), expected);
    assert_eq!(machine.pieces(9), [(Doing::Own, 10), (Doing::Asleep, 30)]);
}

#[test]
fn threads_belong_to_processes_and_ids_are_given_again() {
    let mut machine = Machine::new();
    machine.happens(0, SWITCH, &[0, 0, 7]);
    machine.happens(10, MAKE, &[8, i64::from(CLONE_THREAD as u32)]);
    machine.happens(10, FORK, &[7, 8]);
    machine.happens(20, MAKE, &[9, 0]);
    machine.happens(20, FORK, &[7, 9]);
    let pid = |machine: &Machine, id| machine.all.thread(id).unwrap().pid;
    assert_eq!((pid(&machine, 8), pid(&machine, 9)), (Some(7), Some(9)));
    machine.happens(30, SWITCH, &[7, 1, 9]);
    machine.happens(40, SWITCH, &[9, 32, 8]);
    machine.happens(50, MAKE, &[9, i64::from(CLONE_THREAD as u32)]);
    machine.happens(50, FORK, &[8, 9]);
    assert_eq!(machine.all.threads().filter(|thread| thread.id == 9).count(), 2);
    assert!(!machine.all.thread(9).unwrap().has_ended());
}

#[test]
fn what_proc_says_counts_until_events_know_better() {
    let mut machine = Machine::new();
    let row = row_of(event_number::KERNEL_TASK).unwrap();
    let layout = KernelLayout { number: 99, ..KernelLayout::default() };
    machine.takes(RECORDER, 100, EventKind::KernelLayout(Box::new(layout)), None, None);
    machine.happens(110, WAKE, &[8]);
    for (task, state) in [(7, b'D'), (8, b'S')] {
        let told = KernelTask { task, process: 5, state, ..KernelTask::default() };
        machine.takes(RECORDER, 120, EventKind::Other(told.event(row)), None, None);
    }
    machine.happens(130, WAKE, &[7]);
    machine.happens(140, SWITCH, &[0, 0, 7]);
    machine.happens(150, SWITCH, &[7, 0, 0]);
    machine.finish();
    let expected = [(Doing::Disk, 30), (Doing::Woken, 10), (Doing::Own, 10)];
    assert_eq!(machine.pieces(7), expected);
    assert_eq!(machine.pieces(8), [(Doing::Asleep, 10), (Doing::Woken, 40)]);
    assert_eq!(machine.all.thread(8).unwrap().pid, Some(5));
}

#[test]
fn faults_are_estimated_by_what_follows_soon() {
    let mut machine = Machine::new();
    machine.happens(0, SWITCH, &[0, 0, 7]);
    for step in 1..2000 {
        machine.happens(step * 500, FAULT, &[0x1000]);
    }
    machine.finish();
    // Each takes 500 ns with all that is done before the next.
    let times = machine.all.thread(7).unwrap().times;
    let share = times.of(Doing::Fault) as f64 / times.life_ns() as f64;
    assert!((0.8..=1.0).contains(&share), "{share}");
}

#[test]
fn time_that_goes_back_and_numbers_out_of_range_do_no_harm() {
    let mut machine = Machine::new();
    for (step, now) in [500, 100, u64::MAX, 3, 700].into_iter().enumerate() {
        machine.happens(now, SWITCH, &[step as i64, 1, step as i64 + 1]);
        machine.happens(now / 2, LEAVE, &[1]);
        machine.happens(now, SWITCH, &[-1, i64::MIN, i64::MAX]);
        machine.happens(now, MAKE, &[i64::from(u32::MAX), -1]);
        machine.happens_on(CPUS_MAX, now, SWITCH, &[1, 2, 3]);
        (0..40).for_each(|_| machine.happens(now, ENTER, &[1]));
    }
    machine.finish();
}

fn scope(missing: Missing) -> EventKind {
    let row = row_of(event_number::KERNEL_SCOPE).unwrap();
    let scope = KernelScope { is_whole: true, missing, ..KernelScope::default() };
    EventKind::Other(scope.event(row))
}

#[test]
fn what_events_that_are_missing_would_tell_is_unknown() {
    let pieces = |missing| {
        let mut machine = Machine::new();
        machine.takes(0, 0, scope(missing), None, None);
        machine.happens(100, SWITCH, &[0, 0, 7]);
        machine.happens(150, SWITCH, &[7, 1, 0]); // Asleep.
        machine.happens(170, WAKE, &[7]);
        machine.happens(200, SWITCH, &[0, 0, 7]);
        machine.happens(220, SWITCH, &[7, 32, 0]); // Ended.
        machine.finish();
        machine.pieces(7)
    };
    use Doing::{Asleep, Own, Unknown, Woken};
    let known = pieces(Missing::Nothing);
    assert_eq!(known[known.len() - 4..], [(Own, 50), (Asleep, 20), (Woken, 30), (Own, 20)]);
    let of_a_cpu = pieces(Missing::OtherCpus);
    assert_eq!(of_a_cpu[of_a_cpu.len() - 3..], [(Own, 50), (Unknown, 50), (Own, 20)]);
    assert!(pieces(Missing::Switches).iter().all(|(doing, _)| *doing == Unknown));
    // Nor is anything known if there are no switches at all.
    let mut layouts = KernelLayouts::default();
    layouts.add(&layout(FAULT, "exceptions", "page_fault_user", &["address"]));
    assert_eq!(Scheduling::new(&layouts).missing(), Missing::Switches);
}

#[test]
fn a_part_of_a_recording_tells_of_its_own_time() {
    let mut machine = Machine::new();
    machine.takes(0, 0, scope(Missing::Nothing), None, None);
    let state = b'R';
    let row = row_of(event_number::KERNEL_TASK).unwrap();
    let task = KernelTask { task: 9, process: 9, state, ..KernelTask::default() };
    machine.takes(0, 0, EventKind::Other(task.event(row)), None, None);
    let cut = || EventKind::Gap { why: GapWhy::Cut, detail: 5, text: String::new() };
    machine.takes(CPU_STREAM, 1000, cut(), None, None);
    machine.happens(1000, SWITCH, &[7, 1, 8]);
    machine.takes(CPU_STREAM | 1, 1010, cut(), None, None);
    machine.happens_on(1, 1010, SWITCH, &[6, 1, 5]);
    machine.happens(1050, SWITCH, &[8, 1, 0]);
    machine.finish();
    assert_eq!(machine.pieces(8), [(Doing::Own, 50)]);
    assert_eq!(machine.pieces(9), [(Doing::Unknown, 50)], "what it did was long ago");
    assert!(machine.all.threads().all(|thread| thread.times.life_ns() <= 50));
}
