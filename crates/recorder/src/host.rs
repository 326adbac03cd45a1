//! Describes the machine, and relates its time stamp counter to the clocks.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use trace::event::Preamble;

/// Minimum time for which the counter is compared with the clock before a recording. A pair of
/// readings is off by some 50 ns, so this gives 50 parts in a million; the totals have a better
/// figure.
const CALIBRATION: Duration = Duration::from_millis(1);

/// Below this span a second measurement is no better than the first estimate.
const REFINE_NS_MIN: u64 = 20_000_000;

/// Reads the time stamp counter.
#[inline]
pub fn tsc() -> u64 {
    // SAFETY: every x86_64 CPU has rdtsc, and it only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// One moment, as a value of the time stamp counter and of a clock.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Ticks of the counter.
    pub tsc: u64,
    /// Nanoseconds of the clock.
    pub ns: u64,
}

impl Moment {
    /// Reads both now, taking the closest of a few pairs of readings.
    pub fn now(clock: ClockId) -> Moment {
        let mut best = (u64::MAX, Moment { tsc: 0, ns: 0 });
        for _ in 0..8 {
            let before = tsc();
            let ns = clock_ns(clock);
            let spread = tsc().wrapping_sub(before);
            if spread < best.0 {
                best = (spread, Moment { tsc: before + spread / 2, ns });
            }
        }
        best.1
    }

    /// Counter ticks per second between two moments of one clock; `None` if they are too close.
    pub fn hz_until(self, later: Moment, ns_min: u64) -> Option<u64> {
        let ticks = later.tsc.checked_sub(self.tsc)?;
        let ns = later.ns.checked_sub(self.ns).filter(|&ns| ns >= ns_min.max(1))?;
        u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(ns)).ok()
    }
}

/// Measures the counter's frequency over a recording.
#[derive(Clone, Copy, Debug)]
pub struct TscClock {
    start: Moment,
    estimate_hz: u64,
}

impl TscClock {
    /// Starts with a first estimate, usually the preamble's.
    pub fn start(estimate_hz: u64) -> TscClock {
        TscClock { start: Moment::now(ClockId::MonotonicRaw), estimate_hz }
    }

    /// Ticks per second from the start until now.
    pub fn hz(&self) -> u64 {
        let now = Moment::now(ClockId::MonotonicRaw);
        self.start.hz_until(now, REFINE_NS_MIN).unwrap_or(self.estimate_hz)
    }

    /// Converts ticks to nanoseconds by the first estimate.
    pub fn ns(&self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(self.estimate_hz.max(1))) as u64
    }
}

/// The counter's frequency as the CPU reports it (leaf 0x15), if it does.
fn stated_hz() -> Option<u64> {
    use core::arch::x86_64::__cpuid;
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let leaf = __cpuid(0x15);
    let (denominator, numerator, crystal_hz) = (leaf.eax, leaf.ebx, leaf.ecx);
    if denominator == 0 || numerator == 0 || crystal_hz == 0 {
        return None;
    }
    Some(u64::from(crystal_hz) * u64::from(numerator) / u64::from(denominator))
}

/// Start of a comparison of counter and clock; other work can be done meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Calibration(Moment);

impl Calibration {
    /// Takes the first pair of readings.
    pub fn begin() -> Calibration {
        Calibration(Moment::now(ClockId::MonotonicRaw))
    }

    fn hz(self) -> u64 {
        let Calibration(before) = self;
        let passed = clock_ns(ClockId::MonotonicRaw).saturating_sub(before.ns);
        std::thread::sleep(CALIBRATION.saturating_sub(Duration::from_nanos(passed)));
        let after = Moment::now(ClockId::MonotonicRaw);
        // A clock that stands still means a broken machine; 1 GHz keeps times readable.
        before.hz_until(after, 1).unwrap_or(1_000_000_000)
    }
}

/// Returns the head of a trace recorded here and now by this command line. `trace_dev` is left 0.
pub fn preamble(
    command: Vec<Vec<u8>>,
    options: String,
    calibration: Calibration,
) -> io::Result<Preamble> {
    let uname = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let cpuinfo = String::from_utf8_lossy(&fs::read("/proc/cpuinfo")?).into_owned();
    let meminfo = fs::read_to_string("/proc/meminfo")?;
    let mounts = fs::read("/proc/self/mountinfo")?;
    let tsc_hz = stated_hz().unwrap_or_else(|| calibration.hz());
    let epoch = Moment::now(ClockId::Realtime);
    Ok(Preamble {
        command,
        recorder_version: env!("CARGO_PKG_VERSION").into(),
        host: text(uname.nodename()),
        kernel: format!("{} {}", text(uname.release()), text(uname.version())),
        cpu: cpu_model(&cpuinfo),
        cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count() as u32,
        memory_bytes: memory_bytes(&meminfo),
        page_bytes: rustix::param::page_size() as u32,
        mounts: mounts
            .split(|&b| b == b'\n')
            .filter(|l| !l.is_empty())
            .map(<[u8]>::to_vec)
            .collect(),
        trace_dev: 0,
        epoch_ns: epoch.ns,
        epoch_tsc: epoch.tsc,
        tsc_hz,
        options,
    })
}

fn cpu_model(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    model.map_or(String::new(), |rest| rest.trim_start_matches([' ', '\t', ':']).to_string())
}

fn memory_bytes(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preamble_describes_this_machine() {
        let head = preamble(vec![b"true".to_vec()], "none".into(), Calibration::begin()).unwrap();
        assert!(head.cpus >= 1 && !head.cpu.is_empty());
        assert!(head.memory_bytes > 16 << 20);
        assert!(head.kernel.starts_with(
            &fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim().to_string()
        ));
        assert!(head.mounts.iter().any(|line| line.windows(3).any(|w| w == b" / ")));
        assert!((100_000_000..20_000_000_000).contains(&head.tsc_hz), "{}", head.tsc_hz);
    }

    #[test]
    fn measured_frequencies_agree() {
        let clock = TscClock::start(1);
        assert_eq!(clock.hz(), 1, "too short a span keeps the estimate");
        std::thread::sleep(Duration::from_millis(60));
        let (long, short) = (clock.hz() as f64, Calibration::begin().hz() as f64);
        assert!((long / short - 1.0).abs() < 0.01, "{long} {short}");
    }

    #[test]
    fn a_span_gives_a_frequency() {
        let start = Moment { tsc: 1000, ns: 5 };
        let end = Moment { tsc: 1000 + 3_000_000, ns: 5 + 1_000_000 };
        assert_eq!(start.hz_until(end, 1), Some(3_000_000_000));
        assert_eq!(end.hz_until(start, 1), None);
        assert_eq!(start.hz_until(end, 2_000_000), None);
    }
}
