//! What agents are told by the control block of their arena.

use core::sync::atomic::Ordering;

use crate::{Arena, Control, Course, DataMode, Mappings, Rings, SKIPPED_WORDS};

/// What agents capture.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How much of each buffer.
    pub data_mode: DataMode,
    /// With [`DataMode::Chosen`]: a bit per call whose contents nobody wants.
    pub skipped: [u64; SKIPPED_WORDS],
    /// Maximum number of bytes stored per buffer.
    pub data_max: u64,
    /// True if existing files are stored whole before the first open that may change them.
    pub snapshot: bool,
    /// What becomes of io_uring.
    pub rings: Rings,
    /// What the recorder watches of mapped files.
    pub mappings: Mappings,
    /// True if agents measure what threads compute between calls.
    pub times_cpu: bool,
    /// Whether the program is recorded for a re-execution, or is one.
    pub course: Course,
    /// Bytes that are copied of the stack of each call; 0: none.
    pub stack_bytes: u32,
    /// Frequency of the time stamp counter in Hz.
    pub tsc_hz: u64,
}

impl Control {
    /// Tells the agents of this arena what to capture.
    pub fn set(&self, settings: &Settings) {
        let order = Ordering::Relaxed;
        self.data_mode.store(settings.data_mode as u32, order);
        for (word, bits) in self.skipped.iter().zip(settings.skipped) {
            word.store(bits, order);
        }
        self.data_max.store(settings.data_max, order);
        self.snapshot.store(settings.snapshot.into(), order);
        self.rings.store(settings.rings as u32, order);
        self.watches_mappings.store(settings.mappings as u32, order);
        self.times_cpu.store(settings.times_cpu.into(), order);
        self.course.store(settings.course as u32, order);
        self.stack_bytes.store(settings.stack_bytes, order);
        self.tsc_hz.store(settings.tsc_hz, order);
    }

    /// Tells the agents of this arena the same as those of another one.
    pub fn set_like(&self, other: &Control) {
        let order = Ordering::Relaxed;
        self.data_mode.store(other.data_mode.load(order), order);
        for (word, bits) in self.skipped.iter().zip(&other.skipped) {
            word.store(bits.load(order), order);
        }
        self.data_max.store(other.data_max.load(order), order);
        self.snapshot.store(other.snapshot.load(order), order);
        self.rings.store(other.rings.load(order), order);
        self.watches_mappings.store(other.watches_mappings.load(order), order);
        self.times_cpu.store(other.times_cpu.load(order), order);
        self.course.store(other.course.load(order), order);
        self.stack_bytes.store(other.stack_bytes.load(order), order);
        self.tsc_hz.store(other.tsc_hz.load(order), order);
    }
}

impl Control {
    /// Returns true if the program is recorded for a re-execution, or is one.
    pub fn is_repeatable(&self) -> bool {
        self.course.load(Ordering::Relaxed) != Course::Recorded as u32
    }

    /// Returns true if the program is re-executed.
    pub fn is_answered(&self) -> bool {
        self.course.load(Ordering::Relaxed) == Course::Answered as u32
    }

    /// Returns true if one thread of a process runs at a time.
    pub fn is_serialised(&self) -> bool {
        self.course.load(Ordering::Relaxed) == Course::Serialised as u32
    }

    /// Returns true if agents measure what threads compute between calls.
    pub fn times_cpu(&self) -> bool {
        self.times_cpu.load(Ordering::Relaxed) != 0
    }

    /// Returns true if agents leave out the contents of some calls.
    pub fn chooses(&self) -> bool {
        self.data_mode.load(Ordering::Relaxed) == DataMode::Chosen as u32
    }

    /// Returns true if the contents of calls with this number are left out.
    pub fn skips(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64).ok().and_then(|at| self.skipped.get(at));
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (number % 64) & 1 != 0)
    }

    /// Returns the number of bytes that agents copy of the stack of each call.
    pub fn stack_bytes(&self) -> u32 {
        self.stack_bytes.load(Ordering::Relaxed)
    }
}

impl Arena {
    /// Returns true if processes share descriptors or directories.
    pub fn is_state_shared(&self) -> bool {
        self.control().state_shared.load(Ordering::Relaxed) != 0
    }
}
