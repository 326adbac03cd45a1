//! What predicts a call: the call before it from the same site. Writer and reader keep the same.

use crate::format::SLOTS;

/// What is remembered of the call before in a slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    /// Its number.
    pub nr: u16,
    /// Its flags.
    pub flags: u8,
    /// Its count of arguments.
    pub nargs: u8,
    /// Its site.
    pub site: u64,
    /// Its arguments.
    pub args: [u64; 6],
    /// The last result in this slot.
    pub ret: i64,
}

/// The predictor of a block: all slots are zero where it begins.
pub struct Slots {
    /// Position in `used` + 1; 0: not used yet. Most blocks of short-lived threads use few slots.
    places: [u16; SLOTS],
    used: Vec<Slot>,
}

impl Slots {
    /// Memory that it holds elsewhere.
    pub fn held_bytes(&self) -> usize {
        self.used.capacity() * size_of::<Slot>()
    }

    /// A slot.
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
