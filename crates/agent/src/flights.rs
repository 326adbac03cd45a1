//! Operations that were submitted and are not known to be completed: a table of bounded size, mapped
//! when a program first asks for one. Nothing in it is memory of the program.

use syscalls::operations::Request;
use syscalls::requests::Chooses;

use crate::sys;

/// Maximum number of operations in flight; those beyond are not captured.
pub const FLIGHTS_MAX: usize = 64 << 10;
/// Maximum number of operations that are submitted or completed together: who takes a lock waits for all
/// stores before it, so data is copied after that for several.
pub const TOGETHER: usize = 8;
const BUCKETS: usize = 4096;
/// Buffers of a vector that is kept, and how many vectors are. The kernel reads a vector when it is
/// submitted, and programs use the memory again.
pub const VECTOR_MAX: usize = 64;
const VECTORS: usize = 4096;

/// One operation.
#[derive(Clone, Copy)]
pub struct Flight {
    /// Where it was submitted: a context of Linux AIO.
    pub owner: u64,
    /// Its name there: the address of its control block.
    pub tag: u64,
    /// What the program gets back with its completion.
    pub data: u64,
    /// Its number in the recording.
    pub id: u64,
    pub nr: u16,
    /// The call that submits it, and its place there.
    pub batch: u32,
    pub order: u32,
    pub args: [u64; 6],
    /// What the kernel chooses, from this group.
    pub chooses: Chooses,
    pub group: u16,
    /// Room for the address of who sends a message.
    pub room: u32,
    /// It was completed before: more comes of it.
    pub has_come: bool,
    /// Another operation, which is done first, may fill what goes into it.
    pub is_filled_first: bool,
    /// A vector that is kept; 0: none.
    vector: u32,
    next: u32,
}

#[repr(C)]
struct Table {
    /// Numbers + 1 of the first flight of each chain; 0: none.
    buckets: [u32; BUCKETS],
    /// Numbers + 1 of the first free flight and the first free vector.
    free: u32,
    free_vector: u32,
    used: u32,
    used_vectors: u32,
    sequence: u32,
    batch: u32,
    name: u32,
    flights: [Flight; FLIGHTS_MAX],
    vectors: [Vector; VECTORS],
}

/// Buffers as the kernel read them: addresses and lengths.
pub type Buffers = [[u64; 2]; VECTOR_MAX];

#[derive(Clone, Copy)]
struct Vector {
    next: u32,
    buffers: Buffers,
}

/// The table, which is there once something was submitted.
pub struct Flights(Option<&'static mut Table>);

impl Flights {
    /// Maps the table. Without it nothing is captured.
    pub fn prepare(&mut self) {
        if self.0.is_none() && !sys::is_quiet() {
            let at = sys::map_memory(size_of::<Table>());
            // SAFETY: fresh zeroed memory of that size, which is never unmapped; the table is made of
            // integers.
            self.0 = at.map(|at| unsafe { &mut *at.cast::<Table>() });
        }
    }

    /// Forgets all. For the single thread of a process that was just forked, whose memory is a copy.
    pub fn clear(&mut self) {
        let Some(table) = &mut self.0 else { return };
        table.buckets.fill(0);
        (table.free, table.free_vector, table.used, table.used_vectors) = (0, 0, 0, 0);
    }

    /// Returns a number for a call that submits operations.
    pub fn next_batch(&mut self) -> Option<u32> {
        let table = self.0.as_mut()?;
        table.batch = table.batch.wrapping_add(1).max(1);
        Some(table.batch)
    }

    /// Adds an operation. Returns its number in the recording, which begins with that of a process;
    /// `None` if there is no room.
    pub fn add(&mut self, process: u32, request: &Request, mut flight: Flight) -> Option<u64> {
        let table = self.0.as_mut()?;
        let place = match table.free {
            0 if table.used as usize >= FLIGHTS_MAX => return None,
            0 => {
                table.used += 1;
                table.used
            }
            free => {
                table.free = table.flights[free as usize - 1].next;
                free
            }
        };
        flight.id = table.next_id(process);
        flight.nr = request.nr;
        let bucket = &mut table.buckets[bucket(flight.owner, flight.tag)];
        flight.next = *bucket;
        *bucket = place;
        table.flights[place as usize - 1] = flight;
        Some(flight.id)
    }

    /// Keeps the vector of an operation that was just added.
    pub fn keep_vector(&mut self, id: u64, owner: u64, tag: u64, buffers: &Buffers) {
        let Some(table) = &mut self.0 else { return };
        let Some(flight) = table.find(owner, tag, |flight| flight.id == id) else { return };
        let place = match table.free_vector {
            0 if table.used_vectors as usize >= VECTORS => return,
            0 => {
                table.used_vectors += 1;
                table.used_vectors
            }
            free => {
                table.free_vector = table.vectors[free as usize - 1].next;
                free
            }
        };
        table.vectors[place as usize - 1].buffers = *buffers;
        table.flights[flight as usize - 1].vector = place;
    }

    /// Takes out the operation of this name that was submitted first.
    pub fn take(&mut self, owner: u64, tag: u64, data: Option<u64>) -> Option<Flight> {
        let table = self.0.as_mut()?;
        let is_it = |flight: &Flight| data.is_none_or(|data| flight.data == data);
        let place = table.find(owner, tag, is_it)?;
        table.remove(place)
    }

    /// Returns the operation of this name that was submitted first, of which more will come.
    pub fn look(&mut self, owner: u64, tag: u64) -> Option<Flight> {
        let table = self.0.as_mut()?;
        let place = table.find(owner, tag, |_| true)?;
        let flight = table.flights.get_mut(place as usize - 1)?;
        let found = *flight;
        flight.has_come = true;
        Some(found)
    }

    /// Returns a number in the recording for an operation that is not kept.
    pub fn next_id(&mut self, process: u32) -> Option<u64> {
        Some(self.0.as_mut()?.next_id(process))
    }

    /// Whether an operation has this name.
    pub fn has(&self, owner: u64, tag: u64) -> bool {
        self.0.as_ref().is_some_and(|table| table.find(owner, tag, |_| true).is_some())
    }

    /// Returns another name of an operation with this data, above `than`.
    pub fn other_name(&self, owner: u64, data: u64, than: u64) -> Option<u64> {
        let table = self.0.as_ref()?;
        let all = table.flights.iter().take(table.used as usize);
        let others = all.filter(|flight| {
            flight.owner == owner && flight.data == data && flight.tag != data && flight.tag > than
        });
        others.map(|flight| flight.tag).min()
    }

    /// Returns a number for an operation whose name another one has.
    pub fn next_name(&mut self) -> u32 {
        let Some(table) = &mut self.0 else { return 0 };
        table.name = table.name.wrapping_add(1);
        table.name
    }

    /// Takes out some operation of an owner.
    pub fn take_any(&mut self, owner: u64) -> Option<Flight> {
        let table = self.0.as_mut()?;
        let used = table.used as usize;
        let all = table.flights.iter().take(used).zip(1..);
        let (_, place) = all.into_iter().find(|(flight, _)| flight.owner == owner)?;
        table.remove(place)
    }

    /// Removes those that a call has not submitted after all.
    pub fn take_back(&mut self, batch: u32, from: u32) {
        let Some(table) = &mut self.0 else { return };
        for at in 0..(table.used as usize).min(FLIGHTS_MAX) {
            let Flight { owner, batch: of, order, vector, .. } = table.flights[at];
            if owner != 0 && of == batch && order >= from {
                table.remove(at as u32 + 1);
                table.release(vector);
            }
        }
    }

    /// The buffers of an operation, if they were kept.
    pub fn buffers(&self, flight: &Flight) -> Option<*const Buffers> {
        let table = self.0.as_ref()?;
        let vector = table.vectors.get((flight.vector as usize).checked_sub(1)?)?;
        Some(&raw const vector.buffers)
    }

    /// Gives back what was kept for an operation that was taken out.
    pub fn release(&mut self, flight: &Flight) {
        if let Some(table) = &mut self.0 {
            table.release(flight.vector);
        }
    }
}

impl Table {
    fn next_id(&mut self, process: u32) -> u64 {
        self.sequence = self.sequence.wrapping_add(1);
        u64::from(process) << 32 | u64::from(self.sequence)
    }

    /// Returns the place of the oldest operation of a name.
    fn find(&self, owner: u64, tag: u64, is_it: impl Fn(&Flight) -> bool) -> Option<u32> {
        let mut next = self.buckets[bucket(owner, tag)];
        let mut oldest: Option<(u64, u32)> = None;
        while next != 0 {
            let flight = &self.flights[next as usize - 1];
            let fits = flight.owner == owner && flight.tag == tag && is_it(flight);
            if fits && oldest.is_none_or(|(id, _)| flight.id < id) {
                oldest = Some((flight.id, next));
            }
            next = flight.next;
        }
        oldest.map(|(_, place)| place)
    }

    fn remove(&mut self, place: u32) -> Option<Flight> {
        let flight = self.flights[place as usize - 1];
        let chain = bucket(flight.owner, flight.tag);
        let mut next = self.buckets[chain];
        if next == place {
            self.buckets[chain] = flight.next;
        } else {
            while next != 0 && self.flights[next as usize - 1].next != place {
                next = self.flights[next as usize - 1].next;
            }
            self.flights[(next as usize).checked_sub(1)?].next = flight.next;
        }
        let free = &mut self.flights[place as usize - 1];
        (free.owner, free.next) = (0, self.free);
        self.free = place;
        Some(flight)
    }

    fn release(&mut self, vector: u32) {
        if let Some(kept) = (vector as usize).checked_sub(1) {
            self.vectors[kept].next = self.free_vector;
            self.free_vector = vector;
        }
    }
}

fn bucket(owner: u64, tag: u64) -> usize {
    let mixed = (owner ^ tag.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 52) as usize % BUCKETS
}

impl Flight {
    /// Whether its vector is kept.
    pub const fn has_vector(&self) -> bool {
        self.vector != 0
    }

    /// An operation that is about to be submitted.
    pub fn new(
        owner: u64,
        tag: u64,
        data: u64,
        (batch, order): (u32, u32),
        args: [u64; 6],
    ) -> Flight {
        Flight {
            owner,
            tag,
            data,
            id: 0,
            nr: 0,
            batch,
            order,
            args,
            chooses: Chooses::Nothing,
            group: 0,
            room: 0,
            has_come: false,
            is_filled_first: false,
            vector: 0,
            next: 0,
        }
    }
}
