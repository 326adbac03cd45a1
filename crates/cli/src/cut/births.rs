//! How threads and processes began: told again when the first thing of theirs is kept.

use trace::event::{Content, Data, Event, EventKind, StartHow};

/// Bytes of a program's arguments and environment that are remembered for each process.
const IMAGE_BYTES_MAX: usize = 64 << 10;

/// How a process came to be what it is.
#[derive(Default)]
pub struct Births {
    /// Its first thread.
    first: Option<Event>,
    /// The thread that began its program, when that is another one.
    other: Option<Event>,
    /// The program.
    image: Option<Event>,
}

impl Births {
    /// A thread began.
    pub fn start(&mut self, event: &Event) {
        if self.first.is_none() || is_process(event) {
            *self = Births { first: Some(event.clone()), ..Births::default() };
        }
    }

    /// A thread, which began so, began a new program.
    pub fn image(&mut self, event: &Event, start: Option<&Event>) {
        let another = self.first.as_ref().is_none_or(|first| first.thread != event.thread);
        self.other = start.filter(|_| another).cloned();
        self.image = Some(event.clone()).filter(|event| bytes(event) <= IMAGE_BYTES_MAX);
    }

    /// The program that a thread began.
    pub fn image_of(&self, thread: u32) -> Option<&Event> {
        self.image.as_ref().filter(|image| image.thread == thread)
    }

    /// What tells it again, in order.
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
