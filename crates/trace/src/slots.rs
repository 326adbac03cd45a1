//! Predicts a call by the previous one from the same site. Writer and reader keep the same state.

use crate::format::SLOTS;

/// The previous call in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    /// Its system call number.
    pub nr: u16,
    /// Its flags.
    pub flags: u8,
    /// Its number of arguments.
    pub nargs: u8,
    /// Its site.
    pub site: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// The last result in this slot.
    pub ret: i64,
}

/// The predictor of a block. All slots are zero at the block's beginning.
pub struct Slots {
    /// Position in `used` + 1; 0 if unused. Most blocks of short-lived threads use few slots.
    places: [u16; SLOTS],
    used: Vec<Slot>,
}

impl Slots {
    /// Bytes of memory that it holds on the heap.
    pub fn held_bytes(&self) -> usize {
        self.used.capacity() * size_of::<Slot>()
    }

    /// The slot with this index.
    #[inline]
    pub fn at(&mut self, index: u8) -> &mut Slot {
        let place = &mut self.places[index as usize];
        if *place == 0 {
            self.used.push(Slot::default());
            *place = self.used.len() as u16;
        }
        &mut self.used[*place as usize - 1]
    }
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { places: [0; SLOTS], used: Vec::new() }
    }
}
