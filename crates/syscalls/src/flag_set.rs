//! Names of bits and values, and how a combination is taken apart.

use crate::abi::files::AT_EMPTY_PATH;

/// Returns a value and its name by a number that counts from 0.
pub type PairByNumber = fn(usize) -> Option<(u64, &'static str)>;

/// Names of bits or values.
///
/// Members within `value_mask` are values of that one field. All others are flags of one or more
/// bits; a flag is set if all of its bits are. Flags that contain others come first. Numbers that
/// are negative in C are stored as 32-bit patterns.
pub struct FlagSet {
    /// Name of the set: the prefix in the header, or the word in the manual.
    pub name: &'static str,
    /// Bits of a field that holds one of the values in `members`; 0: there is no such field.
    pub value_mask: u64,
    /// Value and name, in the order in which they are printed.
    pub members: &'static [(u64, &'static str)],
    /// Further values with their names, by number from 0: those of rows that bring them along.
    pub of_rows: Option<PairByNumber>,
}

impl FlagSet {
    /// Returns all values with their names.
    pub fn pairs(&self) -> impl Iterator<Item = (u64, &'static str)> + use<> {
        let of_rows = self.of_rows;
        let numbers = (0..).map_while(move |number| of_rows.and_then(|pair| pair(number)));
        numbers.chain(self.members.iter().copied())
    }

    /// Returns the name of a whole value, compared in 64 bits and then in the lower 32.
    pub fn name_of(&self, value: u64) -> Option<&'static str> {
        let find = |wanted| self.pairs().find(|m| m.0 == wanted).map(|m| m.1);
        find(value).or_else(|| find(u64::from(value as u32)))
    }

    /// Returns true if one of its flags says that an empty path stands for the descriptor.
    pub fn allows_empty_path(&self) -> bool {
        self.members.contains(&(AT_EMPTY_PATH, "AT_EMPTY_PATH"))
    }

    /// Returns true if a combination asks for descriptors that an exec closes.
    pub fn asks_for_close_on_exec(&self, value: u64) -> bool {
        let asks =
            |bits: u64, name: &str| bits != 0 && value & bits == bits && name.ends_with("CLOEXEC");
        self.members.iter().any(|(bits, name)| asks(*bits, name))
    }

    /// Returns an iterator over the names in a combination, in the order in which they are printed.
    pub const fn split(&'static self, value: u64) -> Split {
        Split { set: self, whole: value, left: value, next: 0 }
    }
}

/// Iterator over the names of a combination of flags; afterwards [`Split::left`] has the rest.
#[derive(Clone)]
pub struct Split {
    set: &'static FlagSet,
    whole: u64,
    left: u64,
    next: usize,
}

impl Split {
    /// Returns the bits that none of the names so far stands for.
    pub const fn left(&self) -> u64 {
        self.left
    }
}

impl Iterator for Split {
    type Item = &'static str;

    fn next(&mut self) -> Option<&'static str> {
        let field = self.set.value_mask;
        while let Some(&(value, name)) = self.set.members.get(self.next) {
            self.next += 1;
            let matches = if value & !field == 0 && (value != 0 || field != 0) {
                self.whole & field == value
            } else if value == 0 {
                self.whole == 0
            } else {
                self.left & value == value
            };
            if matches {
                self.left &= !value;
                return Some(name);
            }
        }
        None
    }
}
