//! A page of a CPU's buffer: the events in it, with their time stamps.
//!
//! ```text
//! u64 time stamp | u64 length and flags | events ...                   | lost (if there is room)
//!
//! event: u32 = 5 bits of type, 27 bits of time since the event before
//!   1 ..= 28   that many words of data follow
//!   0          u32 length (its own 4 bytes included), data
//!   29         padding: to the end of the page, or over an event that was taken back
//!   30         u32: upper bits of a long time since the event before
//!   31         u32: upper bits of a whole time stamp
//! ```

/// Bytes before the events.
const HEAD_BYTES: usize = 16;
/// Events before this page were lost.
const MISSED: u64 = 1 << 31;
/// Their number stands behind the events.
const MISSED_STORED: u64 = 1 << 30;
/// The length of the events.
const LENGTH: u64 = MISSED_STORED - 1;
/// Bits of time in the first word of an event.
const TIME_BITS: u32 = 27;
/// Bits that a whole time stamp has; those above are those of the page.
const STAMP_BITS: u32 = 2 * TIME_BITS + 5;
/// Bytes that all events begin with: type, flags, depth, task.
const COMMON_BYTES: usize = 8;

/// A page that was read, and how far it was decoded.
#[derive(Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    /// Where the next event begins.
    at: usize,
    /// Where the events end.
    end: usize,
    /// Time stamp of the event before.
    time: u64,
    /// The next event, once it was looked for.
    next: Option<Place>,
    /// Events lost before it: the kernel's count, at least 1 if it gave none.
    lost: u64,
    /// Bytes that made no sense: the rest of the page is given up.
    pub broken: bool,
}

/// Where an event stands.
#[derive(Clone, Copy, Debug)]
struct Place {
    time: u64,
    start: usize,
    len: usize,
}

/// An event as the kernel wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent<'a> {
    /// When, in ticks of the trace clock.
    pub time: u64,
    /// Number of its format.
    pub id: u16,
    /// Interrupts off, reschedule wanted, in an interrupt or softirq: bits of the kernel.
    pub flags: u8,
    /// How deeply preemption was disabled.
    pub depth: u8,
    /// Id of the thread that ran.
    pub task: u32,
    /// All of it, from the common fields on.
    pub bytes: &'a [u8],
}

impl Page {
    /// Reuses the memory of a page for `read`, which fills it and returns how many bytes it has.
    /// False if it has none.
    pub fn fill<E>(
        &mut self,
        page_bytes: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<bool, E> {
        self.bytes.resize(page_bytes, 0);
        (self.at, self.end, self.next, self.time) = (0, 0, None, 0);
        (self.lost, self.broken) = (0, false);
        let len = read(&mut self.bytes)?.min(page_bytes);
        if len == 0 {
            return Ok(false);
        }
        if len < HEAD_BYTES {
            self.broken = true;
            return Ok(true);
        }
        let head = word(&self.bytes, 8);
        self.time = word(&self.bytes, 0);
        self.end = HEAD_BYTES.saturating_add((head & LENGTH) as usize);
        self.broken = self.end > len;
        self.end = self.end.min(len);
        self.at = HEAD_BYTES;
        if head & MISSED != 0 {
            let is_stored = head & MISSED_STORED != 0 && self.end + 8 <= len;
            self.lost = if is_stored { word(&self.bytes, self.end).max(1) } else { 1 };
        }
        self.advance();
        Ok(true)
    }

    /// Bytes of events in it.
    pub fn bytes(&self) -> u64 {
        self.end as u64
    }

    /// The events lost before this page, once: 0 from then on.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// Events lost before this page.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Time stamp of the next event, or of the last one.
    pub fn time(&self) -> u64 {
        self.next.map_or(self.time, |next| next.time)
    }

    /// Returns true if there are no more events.
    pub fn is_read(&self) -> bool {
        self.next.is_none()
    }

    /// The next event.
    pub fn peek(&self) -> Option<RawEvent<'_>> {
        let place = self.next?;
        let bytes = self.bytes.get(place.start..place.start + place.len)?;
        let &[id_low, id_high, flags, depth, a, b, c, d, ..] = bytes else { return None };
        Some(RawEvent {
            time: place.time,
            id: u16::from_le_bytes([id_low, id_high]),
            flags,
            depth,
            task: u32::from_le_bytes([a, b, c, d]),
            bytes,
        })
    }

    /// Goes on to the event after it.
    pub fn advance(&mut self) {
        self.next = self.look();
        if self.next.is_none() {
            self.broken |= self.at != self.end;
            self.at = self.end;
        }
    }

    fn look(&mut self) -> Option<Place> {
        while self.at + 4 <= self.end {
            let first = half_word(&self.bytes, self.at);
            let (kind, delta) = (first & 31, u64::from(first >> 5));
            let data = self.at + 4;
            // The second word, which all but short events have.
            let second = (data + 4 <= self.end).then(|| half_word(&self.bytes, data));
            match kind {
                29 if delta == 0 => {
                    self.at = self.end;
                    return None;
                }
                29 => {
                    self.time = self.time.wrapping_add(delta);
                    self.at = data.checked_add(second? as usize)?;
                }
                30 => {
                    let delta = u64::from(second?) << TIME_BITS | delta;
                    self.time = self.time.wrapping_add(delta);
                    self.at = data + 4;
                }
                31 => {
                    let upper = self.time >> STAMP_BITS << STAMP_BITS;
                    let stamp = u64::from(second?) << TIME_BITS | delta;
                    self.time = upper | stamp & ((1 << STAMP_BITS) - 1);
                    self.at = data + 4;
                }
                _ => {
                    let (start, end) = match kind {
                        0 => (data + 4, data.checked_add(second? as usize)?),
                        words => (data, data + 4 * words as usize),
                    };
                    let len = end.checked_sub(start)?;
                    if end > self.end || len < COMMON_BYTES {
                        return None;
                    }
                    self.time = self.time.wrapping_add(delta);
                    self.at = end;
                    return Some(Place { time: self.time, start, len });
                }
            }
        }
        None
    }
}

/// Lays out a page as the kernel would.
pub(crate) struct PageMaker<'a> {
    bytes: &'a mut [u8],
    at: usize,
    time: u64,
    lost: u64,
}

impl<'a> PageMaker<'a> {
    /// Begins a page in this memory.
    pub fn new(bytes: &'a mut [u8]) -> PageMaker<'a> {
        PageMaker { bytes, at: HEAD_BYTES, time: 0, lost: 0 }
    }

    /// Adds events that were lost, which only stand before all others; false if there are others.
    pub fn lost(&mut self, count: u64) -> bool {
        let is_first = self.at == HEAD_BYTES;
        self.lost += if is_first { count } else { 0 };
        is_first
    }

    /// Adds an event; false if there is no room for it. It comes not before the one before.
    pub fn add(&mut self, time: u64, event: &[u8]) -> bool {
        let len = event.len().next_multiple_of(4);
        // With a time that is far from that before, and the number of losses.
        if self.at + 16 + len + 8 > self.bytes.len() {
            // One that fits in no page is left out.
            return self.at == HEAD_BYTES;
        }
        if self.at == HEAD_BYTES {
            self.time = time;
            self.bytes[..8].copy_from_slice(&time.to_le_bytes());
        }
        let delta = time.saturating_sub(self.time).min((1 << STAMP_BITS) - 1);
        self.time += delta;
        let low = (delta & ((1 << TIME_BITS) - 1)) as u32;
        if delta >> TIME_BITS != 0 {
            self.put(low << 5 | 30);
            self.put((delta >> TIME_BITS) as u32);
            self.put(0);
        } else {
            self.put(low << 5);
        }
        self.put(len as u32 + 4);
        self.bytes[self.at..self.at + event.len()].copy_from_slice(event);
        self.bytes[self.at + event.len()..self.at + len].fill(0);
        self.at += len;
        true
    }

    /// Ends the page; returns its length, 0 if there is nothing in it.
    pub fn finish(mut self) -> usize {
        if self.at == HEAD_BYTES && self.lost == 0 {
            return 0;
        }
        let mut head = (self.at - HEAD_BYTES) as u64;
        if self.at == HEAD_BYTES {
            self.bytes[..8].fill(0);
        }
        if self.lost != 0 {
            head |= MISSED | MISSED_STORED;
            self.bytes[self.at..self.at + 8].copy_from_slice(&self.lost.to_le_bytes());
            self.at += 8;
        }
        self.bytes[8..HEAD_BYTES].copy_from_slice(&head.to_le_bytes());
        self.at
    }

    fn put(&mut self, word: u32) {
        self.bytes[self.at..self.at + 4].copy_from_slice(&word.to_le_bytes());
        self.at += 4;
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
}

fn half_word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Format, Value, tests::SWITCH};

    /// A page of switches as Linux 6.18 gave it.
    const KEPT: &[u8] = include_bytes!("../tests/kept/switches.page");

    fn page(bytes: &[u8]) -> Page {
        let mut page = Page::default();
        let filled = page.fill(4096, |into| {
            into[..bytes.len()].copy_from_slice(bytes);
            Ok::<_, ()>(bytes.len())
        });
        assert_eq!(filled, Ok(!bytes.is_empty()));
        page
    }

    fn events(mut page: Page) -> (Vec<(u64, u16, usize)>, bool) {
        let mut all = Vec::new();
        while let Some(event) = page.peek() {
            all.push((event.time, event.id, event.bytes.len()));
            page.advance();
        }
        (all, page.broken)
    }

    fn made(flags: u64, words: &[u32], behind: &[u8]) -> Page {
        let mut bytes = 1000u64.to_le_bytes().to_vec();
        bytes.extend_from_slice(&(flags | (4 * words.len() as u64)).to_le_bytes());
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(behind);
        page(&bytes)
    }

    #[test]
    fn a_kept_page_holds_switches() {
        let format = Format::parse("sched", SWITCH).unwrap();
        let mut page = page(KEPT);
        let (mut count, mut before, mut runs) = (0, 0, None);
        while let Some(event) = page.peek() {
            assert_eq!(event.id, format.id);
            assert!(event.time >= before);
            let pid = |name: &str| format.field(name).unwrap().unsigned(event.bytes) as u32;
            // Who is switched to is who is switched from next, and who runs then.
            assert_eq!(pid("prev_pid"), event.task);
            assert!(runs.is_none_or(|runs| runs == event.task));
            runs = Some(pid("next_pid"));
            let comm = format.field("next_comm").unwrap().value(event.bytes);
            assert!(matches!(comm, Value::Text(text) if !text.is_empty()));
            (count, before) = (count + 1, event.time);
            page.advance();
        }
        assert!(count > 30 && !page.broken && page.lost() == 0);
    }

    #[test]
    fn times_add_up() {
        // 2 words of data after 5 ticks, an extension, a whole stamp, and padding.
        let words = [
            5 << 5 | 2,
            7,
            9, //
            3 << 5 | 30,
            2, //
            1 << 5 | 2,
            7,
            9, //
            8 << 5 | 31,
            1, //
            2,
            7,
            9, //
            29,
            0,
            0,
        ];
        let extended = 1005 + (2 << 27) + 3 + 1;
        let stamped = (1 << 27) + 8;
        let expected = vec![(1005, 7, 8), (extended, 7, 8), (stamped, 7, 8)];
        assert_eq!(events(made(0, &words, &[])), (expected, false));
    }

    #[test]
    fn long_events_and_those_taken_back() {
        let words = [
            4 << 5,
            16,
            1,
            2,
            3, // 12 bytes, with a length of their own
            6 << 5 | 29,
            8,
            0, // taken back: its time counts
            1 << 5 | 2,
            1,
            2,
        ];
        assert_eq!(events(made(0, &words, &[])), (vec![(1004, 1, 12), (1011, 1, 8)], false));
    }

    #[test]
    fn losses_are_counted() {
        let one = [1 << 5 | 2, 1, 2];
        assert_eq!(made(0, &one, &[]).lost(), 0);
        assert_eq!(made(MISSED, &one, &[]).lost(), 1);
        let stored = MISSED | MISSED_STORED;
        assert_eq!(made(stored, &one, &77u64.to_le_bytes()).lost(), 77);
        assert_eq!(made(stored, &one, &[]).lost(), 1);
    }

    #[test]
    fn pages_that_are_made_are_read_again() {
        let mut bytes = [0; 256];
        let mut maker = PageMaker::new(&mut bytes);
        assert!(maker.lost(7) && maker.lost(2));
        assert!(maker.add(1000, &[1, 0, 0, 0, 5, 0, 0, 0]) && !maker.lost(3));
        assert!(maker.add(1 << 40, &[2; 12]) && maker.add(900, &[3; 9]));
        while maker.add(1 << 41, &[4; 16]) {}
        let len = maker.finish();
        let made = page(&bytes[..len]);
        assert_eq!(made.lost(), 9);
        let (found, broken) = events(made);
        let far = (1 << 40, 0x0202, 12);
        assert_eq!(found[..3], [(1000, 1, 8), far, (1 << 40, 0x0303, 12)]);
        assert!(!broken && found.len() > 3 && found[3] == (1 << 41, 0x0404, 16));
        assert_eq!(PageMaker::new(&mut bytes).finish(), 0);
        // Losses alone.
        let mut maker = PageMaker::new(&mut bytes);
        assert!(maker.lost(4));
        let len = maker.finish();
        let made = page(&bytes[..len]);
        assert!(made.lost() == 4 && made.is_read() && !made.broken);
    }

    #[test]
    fn nonsense_ends_a_page() {
        // Lengths that lead out of the page, are too short, or lack their word.
        let bad: [&[u32]; 7] = [
            &[28],
            &[0, 3, 1, 2],
            &[0, u32::MAX, 1, 2],
            &[1, 2],
            &[1 << 5 | 29, u32::MAX, 0],
            &[30],
            &[31],
        ];
        for words in bad {
            let (found, broken) = events(made(0, words, &[]));
            assert!(found.is_empty() && broken, "{words:?}");
        }
        assert!(page(&[1; 5]).broken);
        assert!(made(1 << 20, &[], &[]).broken);
        // Whatever bytes it has, a page ends.
        let mut noise = KEPT.to_vec();
        for at in 0..noise.len() {
            noise[at] ^= (at as u8).wrapping_mul(151) | 1;
            let (found, _) = events(page(&noise));
            assert!(found.len() <= 4096 / 8);
        }
    }
}
