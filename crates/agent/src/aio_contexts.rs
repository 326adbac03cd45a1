//! Contexts of Linux AIO, and how far the rings of their completions were read.

/// Maximum number of contexts that are followed.
const CONTEXTS: usize = 64;

/// A context. Its number is the address of its ring.
#[derive(Clone, Copy)]
pub struct AioContext {
    /// 0: none.
    pub id: u64,
    /// Places in the ring.
    pub places: u32,
    /// The place behind the last completion that was recorded.
    pub known: u32,
    /// The process that made it.
    pub process: u32,
}

pub struct AioContexts([AioContext; CONTEXTS]);

impl AioContexts {
    /// Adds a context. It is not followed if there are too many.
    pub fn add(&mut self, context: AioContext) {
        if let Some(free) = self.0.iter_mut().find(|known| known.id == 0 || known.id == context.id)
        {
            *free = context;
        }
    }

    pub fn get(&mut self, id: u64) -> Option<&mut AioContext> {
        self.0.iter_mut().find(|context| context.id == id && id != 0)
    }

    pub fn remove(&mut self, id: u64) {
        if let Some(context) = self.get(id) {
            context.id = 0;
        }
    }

    /// Returns a context of a process, if it has one left.
    pub fn of_process(&self, process: u32) -> Option<u64> {
        let mut all = self.0.iter();
        all.find(|context| context.id != 0 && context.process == process).map(|context| context.id)
    }

    pub fn clear(&mut self) {
        self.0.iter_mut().for_each(|context| context.id = 0);
    }
}
