//! Decodes `struct siginfo`.

use syscalls::abi::signals;

use super::value::Value;

/// Decodes `struct siginfo` field by field; signal and code select the union member.
pub fn decode(bytes: &[u8]) -> Value {
    let mut info = Info { bytes, fields: Vec::new(), cut: false };
    let (signal, code) = (info.i32_at(0).unwrap_or(0), info.i32_at(8).unwrap_or(0));
    info.field("si_signo", 0, Info::signal_at);
    let code_value = match signals::code_name(signal, code) {
        Some(name) => Value::Named { value: code.into(), name },
        None => Value::Int(code.into()),
    };
    if bytes.len() >= 12 {
        info.fields.push(("si_code", code_value));
    }
    if info.i32_at(4).is_some_and(|errno| errno != 0) {
        info.field("si_errno", 4, Info::int_at);
    }
    match (signal, code) {
        (_, signals::SI_TIMER) => {
            info.field("si_timerid", 16, Info::int_at);
            info.field("si_overrun", 20, Info::int_at);
            info.field("si_value", 24, Info::hex_at);
        }
        (_, ..=0) => {
            info.field("si_pid", 16, Info::int_at);
            info.field("si_uid", 20, Info::int_at);
            if code != signals::SI_USER && code != signals::SI_TKILL {
                info.field("si_value", 24, Info::hex_at);
            }
        }
        (signals::SIGCHLD, _) => {
            info.field("si_pid", 16, Info::int_at);
            info.field("si_uid", 20, Info::int_at);
            let status = if code == signals::CLD_EXITED { Info::int_at } else { Info::signal_at };
            info.field("si_status", 24, status);
            info.field("si_utime", 32, Info::long_at);
            info.field("si_stime", 40, Info::long_at);
        }
        (
            signals::SIGILL
            | signals::SIGFPE
            | signals::SIGSEGV
            | signals::SIGBUS
            | signals::SIGTRAP,
            _,
        ) if code != signals::SI_KERNEL => {
            info.field("si_addr", 16, |info, at| info.u64_at(at).map(Value::Address));
        }
        (signals::SIGPOLL, _) => {
            info.field("si_band", 16, Info::long_at);
            info.field("si_fd", 24, Info::int_at);
        }
        (signals::SIGSYS, _) => {
            info.field("si_call_addr", 16, |info, at| info.u64_at(at).map(Value::Address));
            info.field("si_syscall", 24, Info::int_at);
            info.field("si_arch", 28, |info, at| {
                Some(Value::Hex((info.i32_at(at)? as u32).into()))
            });
        }
        _ => {}
    }
    Value::Struct { fields: info.fields, cut: info.cut }
}

struct Info<'a> {
    bytes: &'a [u8],
    fields: Vec<(&'static str, Value)>,
    cut: bool,
}

impl Info<'_> {
    fn field(&mut self, name: &'static str, at: usize, read: fn(&Self, usize) -> Option<Value>) {
        match read(self, at) {
            Some(value) => self.fields.push((name, value)),
            None => self.cut = true,
        }
    }

    fn i32_at(&self, at: usize) -> Option<i32> {
        Some(i32::from_ne_bytes(self.bytes.get(at..at + 4)?.try_into().ok()?))
    }

    fn u64_at(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes.get(at..at + 8)?.try_into().ok()?))
    }

    fn int_at(&self, at: usize) -> Option<Value> {
        self.i32_at(at).map(|n| Value::Int(n.into()))
    }

    fn long_at(&self, at: usize) -> Option<Value> {
        self.u64_at(at).map(|n| Value::Int(n as i64))
    }

    fn hex_at(&self, at: usize) -> Option<Value> {
        self.u64_at(at).map(Value::Hex)
    }

    fn signal_at(&self, at: usize) -> Option<Value> {
        self.i32_at(at).map(Value::Signal)
    }
}
