//! Words that several threads, or a thread and its signal handlers, read and write.
//!
//! State of a thread is reached by shared references only, for a handler may run at any
//! instruction, and other threads look at some of it. What the thread alone and its handlers use is
//! a [`Cell`](core::cell::Cell); what other threads read too is one of these. Nothing is ever
//! borrowed from them: accesses are single loads and stores, or one instruction that does both.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

macro_rules! shared_word {
    ($(#[$about:meta])* $name:ident, $atomic:ty, $value:ty) => {
        $(#[$about])*
        #[repr(transparent)]
        pub struct $name($atomic);

        impl $name {
            #[inline(always)]
            pub fn get(&self) -> $value {
                self.0.load(Ordering::Relaxed)
            }

            #[inline(always)]
            pub fn set(&self, value: $value) {
                self.0.store(value, Ordering::Relaxed);
            }
        }
    };
}

shared_word!(
    /// A 64-bit number.
    Word,
    AtomicU64,
    u64
);
impl Word {
    /// Makes it as large as a value, if it is smaller. The same from several threads at a time.
    pub fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

shared_word!(
    /// A 32-bit number.
    Number,
    AtomicU32,
    u32
);
shared_word!(
    /// A condition.
    Flag,
    AtomicBool,
    bool
);

/// A pointer.
#[repr(transparent)]
pub struct Pointer<T>(AtomicPtr<T>);

impl<T> Pointer<T> {
    #[inline(always)]
    pub fn get(&self) -> *mut T {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub fn set(&self, value: *mut T) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// A 64-bit number, or nothing.
pub struct OptionalWord {
    word: Word,
    is_some: Flag,
}

impl OptionalWord {
    pub fn get(&self) -> Option<u64> {
        self.is_some.get().then(|| self.word.get())
    }

    pub fn set(&self, value: Option<u64>) {
        self.is_some.set(false);
        if let Some(value) = value {
            self.word.set(value);
            self.is_some.set(true);
        }
    }

    pub fn take(&self) -> Option<u64> {
        let value = self.get();
        self.set(None);
        value
    }
}
