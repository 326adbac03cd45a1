//! Buffers that a program gives to a ring, of which the kernel then chooses.

use syscalls::abi::rings::{
    BUFFER_RING_IS_MAPPED, BUFFER_RING_IS_USED_UP, BufferRing, ListedBuffer,
};
use syscalls::requests::Provided;

/// Maximum number of groups with a list in memory, and of stretches given by entries; the oldest are
/// forgotten.
const GROUPS: usize = 32;
const STRETCHES: usize = 128;
/// Maximum number of entries of a list, as in the kernel.
const LISTED_MAX: u32 = 1 << 15;

/// The buffers of a ring.
pub struct Buffers {
    /// Lists; no entries: none.
    lists: [BufferRing; GROUPS],
    next_list: usize,
    /// Stretches; no count: none.
    stretches: [Provided; STRETCHES],
    next_stretch: usize,
}

impl Buffers {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.lists.iter_mut().for_each(|list| list.entries = 0);
        self.stretches.iter_mut().for_each(|stretch| stretch.count = 0);
    }

    /// A list was registered.
    pub fn list(&mut self, mut list: BufferRing) {
        if !list.entries.is_power_of_two() || list.entries > LISTED_MAX {
            return;
        }
        if list.flags & BUFFER_RING_IS_MAPPED != 0 {
            list.at = 0;
        }
        self.unlist(list.group);
        let free = self.lists.iter().position(|list| list.entries == 0);
        let place = free.unwrap_or(self.next_list % GROUPS);
        self.lists[place] = list;
        self.next_list = place + 1;
    }

    /// A list was taken back.
    pub fn unlist(&mut self, group: u16) {
        let its = self.lists.iter_mut().filter(|list| list.group == group);
        its.for_each(|list| list.entries = 0);
    }

    /// The program has mapped a list.
    pub fn mapped(&mut self, group: u16, at: u64) {
        let mut all = self.lists.iter_mut();
        if let Some(list) = all.find(|list| list.group == group && list.entries != 0) {
            list.at = at;
        }
    }

    /// An entry gives buffers.
    pub fn provide(&mut self, given: Provided) {
        // Most are given back as they were.
        let last = given.first.saturating_add(given.count.saturating_sub(1) as u16);
        let newest =
            |number| self.newest().position(|one| one.buffer(given.group, number).is_some());
        if let (Some(place), Some(same)) = (newest(given.first), newest(last))
            && place == same
            && self.newest().nth(place).and_then(|one| one.buffer(given.group, given.first))
                == Some((given.at, given.bytes))
            && (given.count == 1 || self.is_one(&given, place))
        {
            return;
        }
        // What is given anew is found first: a stretch ends where it begins.
        for stretch in &mut self.stretches {
            let inside = given.buffer(given.group, stretch.first).is_some();
            if stretch.group == given.group && inside && stretch.count <= given.count {
                stretch.count = 0;
            }
        }
        self.stretches[self.next_stretch % STRETCHES] = given;
        self.next_stretch = (self.next_stretch + 1) % STRETCHES;
    }

    /// Returns address and length of a buffer. `read` reads an entry of a list.
    pub fn find(
        &self,
        (group, number): (u16, u16),
        read: impl Fn(u64) -> Option<ListedBuffer>,
    ) -> Option<(u64, u32)> {
        if let Some(list) = self.list_of(group) {
            let (_, buffer) = listed(list, number, read)?;
            return Some((buffer.at, buffer.bytes));
        }
        self.newest().find_map(|stretch| stretch.buffer(group, number))
    }

    /// Finds the buffers from one on that so many bytes fill. Returns how many they are; none if
    /// there is no room for all.
    pub fn find_all(
        &self,
        (group, number): (u16, u16),
        bytes: u64,
        found: &mut [[u64; 2]],
        read: impl Fn(u64) -> Option<ListedBuffer>,
    ) -> Option<usize> {
        let list = self.list_of(group)?;
        let (first, _) = listed(list, number, &read)?;
        let mut left = bytes;
        for (place, to) in found.iter_mut().enumerate() {
            let buffer = read(entry_at(list, (first + place as u32) & (list.entries - 1)))?;
            let here = left.min(buffer.bytes.into());
            *to = [buffer.at, here];
            left -= here;
            if left == 0 {
                return Some(place + 1);
            }
        }
        None
    }

    /// Returns the list of a group. Where the kernel uses buffers piece by piece, it changes the list:
    /// nothing is known of that.
    fn list_of(&self, group: u16) -> Option<&BufferRing> {
        self.lists.iter().find(|list| {
            let is_its = list.group == group && list.entries != 0 && list.at != 0;
            is_its && list.flags & BUFFER_RING_IS_USED_UP == 0
        })
    }

    /// All stretches, the newest first.
    fn newest(&self) -> impl Iterator<Item = &Provided> {
        (0..STRETCHES)
            .map(|back| &self.stretches[(self.next_stretch + 2 * STRETCHES - 1 - back) % STRETCHES])
    }

    /// Whether no newer stretch than the one at this place has any of these buffers.
    fn is_one(&self, given: &Provided, place: usize) -> bool {
        let within = |one: &Provided| {
            one.group == given.group && given.buffer(given.group, one.first).is_some()
        };
        !self.newest().take(place).any(|one| one.count != 0 && within(one))
    }
}

/// Looks a buffer up in a list, with its place: most are at that of their number.
fn listed(
    list: &BufferRing,
    number: u16,
    read: impl Fn(u64) -> Option<ListedBuffer>,
) -> Option<(u32, ListedBuffer)> {
    let look = |place: u32| {
        let buffer = read(entry_at(list, place))?;
        (buffer.number == number && buffer.at != 0).then_some((place, buffer))
    };
    let first = u32::from(number) & (list.entries - 1);
    look(first).or_else(|| (0..list.entries).find_map(look))
}

fn entry_at(list: &BufferRing, place: u32) -> u64 {
    list.at.wrapping_add(size_of::<ListedBuffer>() as u64 * u64::from(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffers() -> std::boxed::Box<Buffers> {
        // SAFETY: zeros are a value: numbers alone.
        unsafe { std::boxed::Box::<Buffers>::new_zeroed().assume_init() }
    }

    fn given(first: u16, count: u32, at: u64) -> Provided {
        Provided { at, bytes: 16, count, group: 7, first }
    }

    #[test]
    fn what_was_given_last_counts() {
        let mut buffers = buffers();
        let nothing = |_| None;
        assert_eq!(buffers.find((7, 2), nothing), None);
        buffers.provide(given(0, 8, 0x1000));
        assert_eq!(buffers.find((7, 2), nothing), Some((0x1020, 16)));
        // Given back as it was: nothing is forgotten for that.
        for _ in 0..2 * STRETCHES {
            buffers.provide(given(2, 1, 0x1020));
        }
        buffers.provide(given(3, 1, 0x9000));
        assert_eq!(buffers.find((7, 3), nothing), Some((0x9000, 16)));
        assert_eq!(buffers.find((7, 4), nothing), Some((0x1040, 16)));
        assert_eq!(buffers.find((8, 4), nothing), None);
        buffers.provide(given(3, 1, 0x1030));
        assert_eq!(buffers.find((7, 3), nothing), Some((0x1030, 16)), "as it was at first");
        buffers.clear();
        assert_eq!(buffers.find((7, 4), nothing), None);
    }

    #[test]
    fn lists_are_searched() {
        let mut buffers = buffers();
        let list = BufferRing { at: 0x100, entries: 4, group: 1, flags: 0 };
        buffers.list(list);
        let entry = |at: u64| {
            let place = (at - 0x100) / 16;
            let number = [3, 1, 9, 0][place as usize];
            // SAFETY: numbers alone.
            let mut entry: ListedBuffer = unsafe { core::mem::zeroed() };
            (entry.at, entry.bytes, entry.number) = (0x1000 * (place + 1), 64, number);
            Some(entry)
        };
        assert_eq!(buffers.find((1, 1), entry), Some((0x2000, 64)), "at its place");
        assert_eq!(buffers.find((1, 9), entry), Some((0x3000, 64)), "somewhere");
        assert_eq!(buffers.find((1, 2), entry), None);
        let mut found = [[0; 2]; 3];
        assert_eq!(buffers.find_all((1, 9), 150, &mut found, entry), Some(3), "over the end");
        assert_eq!(found, [[0x3000, 64], [0x4000, 64], [0x1000, 22]]);
        assert_eq!(buffers.find_all((1, 9), 300, &mut found, entry), None, "no room for them");
        assert_eq!(buffers.find_all((1, 2), 1, &mut found, entry), None);
        buffers.unlist(1);
        assert_eq!(buffers.find((1, 1), entry), None);
        buffers.list(BufferRing { flags: BUFFER_RING_IS_MAPPED, ..list });
        assert_eq!(buffers.find((1, 1), entry), None, "nobody knows where it is");
        buffers.mapped(1, 0x100);
        assert_eq!(buffers.find((1, 1), entry), Some((0x2000, 64)));
    }
}
