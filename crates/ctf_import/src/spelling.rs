//! Names of LTTng, and what they are here.

use std::collections::HashMap;
use std::sync::LazyLock;

use model::kernel_events::kernel_rows;
use syscalls::shape::Syscall;

/// How names of events begin that tell of a call, and whether it begins.
const OF_CALLS: [(&str, bool); 4] =
    [("syscall_entry_", true), ("syscall_exit_", false), ("sys_", true), ("exit_syscall_", false)];
/// Calls that LTTng has by names of the kernel's functions.
const OTHER_NAMES: [(&str, &str); 8] = [
    ("newstat", "stat"),
    ("newfstat", "fstat"),
    ("newlstat", "lstat"),
    ("newuname", "uname"),
    ("umount", "umount2"),
    ("sendfile64", "sendfile"),
    ("fadvise64_64", "fadvise64"),
    ("sysctl", "_sysctl"),
];

/// The kernel's names of events, by LTTng's.
static KERNEL_NAMES: LazyLock<HashMap<String, (&'static str, &'static str)>> =
    LazyLock::new(|| {
        let named = |(system, name)| (ctf_export::event_name(system, name), (system, name));
        kernel_rows().map(|row| (row.system, row.name)).map(named).collect()
    });

/// What an event says of a call: its row, if it is known, and whether it begins.
pub fn call(name: &str) -> Option<(Option<&'static Syscall>, bool)> {
    let (call, is_entry) = OF_CALLS
        .iter()
        .find_map(|(prefix, is_entry)| Some((name.strip_prefix(prefix)?, *is_entry)))?;
    let row = syscalls::by_name(call).or_else(|| {
        let (_, ours) = OTHER_NAMES.iter().find(|(theirs, _)| *theirs == call)?;
        syscalls::by_name(ours)
    });
    Some((row, is_entry))
}

/// The system and the name of an event.
pub fn event(name: &str) -> (String, String) {
    if let Some((system, name)) = KERNEL_NAMES.get(name) {
        return ((*system).into(), (*name).into());
    }
    let (system, rest) = match name.split_once(':') {
        // Of a program's own: provider and name.
        Some((provider, rest)) => (provider, rest),
        None => (name.split_once('_').map_or("ctf", |(system, _)| system), name),
    };
    (tidy(system), tidy(rest))
}

/// The name of a field.
pub fn field(system: &str, event: &str, name: &str) -> String {
    let row = kernel_rows().find(|row| row.system == system && row.name == event);
    let is_it = |ours: &&&str| ctf_export::field_name(system, event, ours) == name;
    let ours = row.and_then(|row| row.tasks.iter().find(is_it));
    ours.map_or_else(|| tidy(name), |ours| (*ours).to_string())
}

/// A name that can be asked for.
fn tidy(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    name.chars().take(128).map(fits).collect()
}

/// What stands beside an event: process, thread, name; those of the first namespace before others.
pub const PROCESS: [&str; 2] = ["pid", "vpid"];
/// The thread.
pub const THREAD: [&str; 2] = ["tid", "vtid"];
/// What is at the beginning of each packet, and says where it belongs.
pub const MAGIC: &str = "magic";
/// The stream's number.
pub const STREAM: &str = "stream_id";
/// The CPU of a packet.
pub const CPU: &str = "cpu_id";
/// Bits of a packet, and of what is in it.
pub const SIZES: [&str; 2] = ["packet_size", "content_size"];
/// When a packet begins.
pub const BEGIN: &str = "timestamp_begin";
/// Events that were dropped, up to a packet.
pub const DISCARDED: &str = "events_discarded";
/// Of an event's header: the number of its kind, and its time.
pub const KIND_AND_TIME: [&str; 2] = ["id", "timestamp"];
/// The result of a call.
pub const RESULT: &str = "ret";
/// The thread that is switched to, by which it is known who runs where nothing else tells.
pub const SWITCHED_TO: (&str, &str) = ("sched_switch", "next_tid");
/// What a request does, which is a number here and letters in the kernel.
pub const REQUEST: (&str, &str) = ("block", "rwbs");
/// The part of the environment that says what was traced, and what stands there for the kernel.
pub const DOMAIN: (&str, &str) = ("domain", "kernel");
/// And what our own exports have there if threads did more than is in them.
pub const PARTIAL: (&str, &str) = ("reenact_scope", "partial");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernel() {
        let pair = |system: &str, name: &str| (system.to_string(), name.to_string());
        assert_eq!(event("sched_switch"), pair("sched", "sched_switch"));
        assert_eq!(event("irq_softirq_entry"), pair("irq", "softirq_entry"));
        assert_eq!(event("my_app:it happens"), pair("my_app", "it_happens"));
        assert_eq!(event("rcu_utilization"), pair("rcu", "rcu_utilization"));
        assert_eq!(field("sched", "sched_switch", "prev_tid"), "prev_pid");
        assert_eq!(field("sched", "sched_switch", "prev_comm"), "prev_comm");
        let of = |name: &str| call(name).and_then(|(row, is_entry)| Some((row?.name, is_entry)));
        assert_eq!(of("syscall_entry_newfstat"), Some(("fstat", true)));
        assert_eq!(of("syscall_exit_openat"), Some(("openat", false)));
        assert!(matches!(call("syscall_entry_none_such"), Some((None, true))));
        assert!(call("sched_switch").is_none());
    }
}
