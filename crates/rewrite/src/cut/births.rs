//! Start events of threads and processes, repeated before their first kept event.

use trace::event::{Content, Data, Event, EventKind, StartHow};

/// Limit for the bytes of a program's arguments and environment kept per process.
const IMAGE_BYTES_MAX: usize = 64 << 10;

/// The events that describe a process.
#[derive(Default)]
pub struct Births {
    /// Start of its first thread.
    first: Option<Event>,
    /// Start of the thread that executed its program, if it is another one.
    other: Option<Event>,
    /// Start of its program.
    image: Option<Event>,
}

impl Births {
    /// Records the start of a thread.
    pub fn start(&mut self, event: &Event) {
        if self.first.is_none() || is_process(event) {
            *self = Births { first: Some(event.clone()), ..Births::default() };
        }
    }

    /// Records the start of a program by a thread with this start event.
    pub fn image(&mut self, event: &Event, start: Option<&Event>) {
        let another = self.first.as_ref().is_none_or(|first| first.thread != event.thread);
        self.other = start.filter(|_| another).cloned();
        self.image = Some(event.clone()).filter(|event| bytes(event) <= IMAGE_BYTES_MAX);
    }

    /// Returns the program start of a thread.
    pub fn image_of(&self, thread: u32) -> Option<&Event> {
        self.image.as_ref().filter(|image| image.thread == thread)
    }

    /// Returns the events to repeat, in order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.first.iter().chain(&self.other).chain(&self.image)
    }
}

fn is_process(event: &Event) -> bool {
    matches!(&event.kind, EventKind::Start { how, .. } if *how != StartHow::Thread)
}

fn bytes(event: &Event) -> usize {
    let EventKind::Image { data, .. } = &event.kind else { return 0 };
    let of = |data: &Data| match &data.content {
        Content::Inline(bytes) => bytes.len(),
        Content::Blobs { ids, .. } => ids.len() * size_of::<u64>(),
    };
    data.iter().map(of).sum()
}
