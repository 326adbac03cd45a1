//! Waits of the program on real descriptors: they are made without waiting, as what they wait for is
//! recorded.

use std::mem::offset_of;

use libc::c_long;
use ring::REPLY_PATH;
use syscalls::{Handler, WaitsOn};

use super::{Driver, Led};
use crate::divergence::{Ending, unreachable};
use crate::network::is_queue;

/// Memory for what the kernel writes, before a time limit of 0.
const ROOM: usize = REPLY_PATH - LIMIT_BYTES;
const LIMIT_BYTES: usize = 16;
/// Sizes of an entry of a list, of an event, and of a set, and how many of these there are.
const ENTRY: usize = size_of::<libc::pollfd>();
const EVENT: usize = 12;
const SET: usize = size_of::<libc::fd_set>();
const SETS: usize = 3;
/// Maximum number of descriptors that are looked up in a list.
const LOOKED_AT: usize = 64;

impl Driver<'_> {
    /// Makes a wait, if it is on real descriptors.
    pub(super) fn look(
        &mut self,
        led: &mut Led<'_>,
        on: WaitsOn,
        (limit, is_behind): (u8, bool),
    ) -> Result<(), Ending> {
        let mut args = led.call.args;
        let limit_at = led.scratch.wrapping_add(ROOM as u64);
        args[usize::from(limit)] = if is_behind { limit_at } else { 0 };
        // All signals are blocked, and have to stay so.
        if let Handler::MaskedWait { mask, .. } = led.row.handler {
            args[usize::from(mask)] = 0;
        }
        let is_real = match on {
            WaitsOn::List => self.list(led, &mut args)?,
            WaitsOn::Sets => self.sets(led, &mut args)?,
            WaitsOn::Queue => {
                args[1] = led.scratch;
                args[2] = args[2].clamp(1, (ROOM / EVENT) as u64);
                self.copy(led.pid, args[0]).is_some_and(|copy| is_queue(&copy))
            }
        };
        if is_real {
            self.write(led, limit_at, &[0; LIMIT_BYTES])?;
            let number: c_long = led.call.nr.into();
            self.lead(led, number, args)?;
            led.count();
        }
        Ok(())
    }

    fn write(&self, led: &Led<'_>, at: u64, bytes: &[u8]) -> Result<(), Ending> {
        led.memory.write(at, bytes).map_err(|error| unreachable(led.seq, led.recorded, &error))
    }

    fn list(&mut self, led: &Led<'_>, args: &mut [u64; 6]) -> Result<bool, Ending> {
        let count = usize::try_from(args[1] as u32).unwrap_or(0).min(ROOM / ENTRY);
        let read = led.memory.read(args[0], count * ENTRY);
        let list = read.map_err(|error| unreachable(led.seq, led.recorded, &error))?;
        let fd_at = offset_of!(libc::pollfd, fd);
        let fds = list.chunks_exact(ENTRY).filter_map(|entry| entry[fd_at..].first_chunk());
        let fds: Vec<u32> = fds.take(LOOKED_AT).map(|fd| u32::from_le_bytes(*fd)).collect();
        if !fds.into_iter().any(|fd| self.has_real(led.pid, fd.into())) {
            return Ok(false);
        }
        self.write(led, led.scratch, &list)?;
        (args[0], args[1]) = (led.scratch, count as u64);
        Ok(true)
    }

    fn sets(&mut self, led: &Led<'_>, args: &mut [u64; 6]) -> Result<bool, Ending> {
        const WORD: usize = u64::BITS as usize;
        let numbers = usize::try_from(args[0] as u32).unwrap_or(0).min(8 * SET);
        let bytes = numbers.div_ceil(WORD) * size_of::<u64>();
        let mut is_real = false;
        for (number, set) in args[1..=SETS].iter_mut().enumerate().filter(|(_, set)| **set != 0) {
            let read = led.memory.read(*set, bytes);
            let found = read.map_err(|error| unreachable(led.seq, led.recorded, &error))?;
            let is_in =
                |fd: &usize| found.get(fd / 8).is_some_and(|byte| byte >> (fd % 8) & 1 != 0);
            // A set with a descriptor that is none is refused as a whole: those that are answered are out.
            let mut real = vec![0u8; SET];
            for fd in (0..numbers).filter(is_in).take(LOOKED_AT) {
                if self.has_real(led.pid, fd as u64) {
                    real[fd / 8] |= 1 << (fd % 8);
                    is_real = true;
                }
            }
            let at = led.scratch.wrapping_add((number * SET) as u64);
            self.write(led, at, &real)?;
            *set = at;
        }
        args[0] = numbers as u64;
        Ok(is_real)
    }
}
