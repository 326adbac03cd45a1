//! Origin of a file's current bytes: its initial content, a write, or another file.

use std::collections::BTreeMap;
use std::ops::Range;

use super::node_id::NodeId;
use super::ranges::Ranges;
use super::staging::Staged;

/// Most blank ranges of a file; if there are more, all from the first to the last counts as blank.
const BLANKS_MAX: usize = 4096;

/// Origin of bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Initial content of the file.
    Own,
    /// Written by the program, or zeros.
    Written,
    /// Copied by the kernel from another file's initial content.
    Copied {
        /// The other file.
        node: NodeId,
        /// Offset of the range in it.
        offset: u64,
    },
}

/// A range that no longer has its initial content.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    end: u64,
    from: Option<(NodeId, u64)>,
}

/// Knowledge about a regular file's content.
#[derive(Debug)]
pub struct Content {
    /// Initial size, once known.
    pub size: Option<u64>,
    /// Lower bound of the initial size, from the offset of an inherited descriptor.
    pub size_min: u64,
    /// Current size, as far as known.
    pub now: u64,
    /// Ranges of the initial content that are known.
    pub seen: Ranges,
    /// The staged file with those bytes.
    pub staged: Option<Staged>,
    /// Ranges written with bytes that are not in the trace.
    pub blank: Ranges,
    /// From here on nothing is left of the initial content.
    own_end: u64,
    stretches: BTreeMap<u64, Stretch>,
}

impl Content {
    /// For a file that existed before the recording.
    pub fn found() -> Content {
        Content {
            size: None,
            size_min: 0,
            now: 0,
            seen: Ranges::default(),
            staged: None,
            blank: Ranges::default(),
            own_end: u64::MAX,
            stretches: BTreeMap::new(),
        }
    }

    /// For a file that the program created.
    pub fn made() -> Content {
        Content { size: Some(0), own_end: 0, ..Content::found() }
    }

    /// Sets the initial size.
    pub fn learn_size(&mut self, size: u64) {
        if self.size.is_none() {
            self.size = Some(size);
            self.own_end = self.own_end.min(size);
            self.now = self.now.max(size);
        }
    }

    /// Returns the initial size: as recorded, or the end of what was seen.
    pub fn size_at_first(&self) -> u64 {
        let seen_end = || self.seen.iter().last().map_or(0, |range| range.end);
        self.size.unwrap_or_else(|| seen_end().max(self.size_min))
    }

    /// Number of stretches.
    pub fn stretches(&self) -> usize {
        self.stretches.len()
    }

    /// The program wrote a range.
    pub fn write(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.now = self.now.max(range.end);
        self.cut(range.clone());
        // Beyond the initial content everything counts as written, without a stretch.
        let mut range = range.start..range.end.min(self.own_end);
        if range.is_empty() {
            return;
        }
        if let Some((&start, before)) = self.stretches.range(..=range.start).next_back()
            && before.end == range.start
            && before.from.is_none()
        {
            range.start = start;
        }
        if let Some(after) = self.stretches.get(&range.end)
            && after.from.is_none()
        {
            let end = after.end;
            self.stretches.remove(&range.end);
            range.end = end;
        }
        self.stretches.insert(range.start, Stretch { end: range.end, from: None });
    }

    /// The bytes written to a range are not in the trace.
    pub fn leave_blank(&mut self, range: Range<u64>) {
        self.blank.add(range);
        let mut ends = self.blank.iter();
        if self.blank.count() > BLANKS_MAX
            && let (Some(first), Some(last)) = (ends.next(), ends.last())
        {
            self.blank.add(first.start..last.end);
        }
    }

    /// The kernel copied bytes into a range.
    pub fn copy(&mut self, range: Range<u64>, source: Source) {
        if range.is_empty() {
            return;
        }
        match source {
            Source::Copied { node, offset } => {
                self.now = self.now.max(range.end);
                self.cut(range.clone());
                let stretch = Stretch { end: range.end, from: Some((node, offset)) };
                self.stretches.insert(range.start, stretch);
            }
            Source::Own | Source::Written => self.write(range),
        }
    }

    /// The file was truncated or extended.
    pub fn truncate(&mut self, size: u64) {
        self.cut(size..u64::MAX);
        self.own_end = self.own_end.min(size);
        self.now = size;
    }

    /// Stops tracking the content: later reads tell nothing about its initial state.
    pub fn give_up(&mut self) {
        self.stretches.clear();
        self.own_end = 0;
    }

    /// Returns true if nothing initial is left of a range, as far as that is quickly seen.
    #[inline]
    pub fn is_written(&self, range: &Range<u64>) -> bool {
        if self.own_end <= range.start && self.stretches.is_empty() {
            return true;
        }
        let around = self.stretches.range(..=range.start).next_back();
        around.is_some_and(|(_, stretch)| stretch.from.is_none() && stretch.end >= range.end)
    }

    /// Returns the origins of a range's bytes, in order.
    pub fn sources(&self, range: Range<u64>) -> Vec<(Range<u64>, Source)> {
        let mut found = Vec::new();
        let mut at = range.start;
        let first = self.stretches.range(..=at).next_back().map_or(at, |(&start, _)| start);
        for (&start, stretch) in self.stretches.range(first..range.end.max(first)) {
            if stretch.end <= at {
                continue;
            }
            self.rest(at..start, &mut found);
            let from = start.max(at);
            let to = stretch.end.min(range.end);
            let source = stretch.from.map_or(Source::Written, |(node, offset)| Source::Copied {
                node,
                offset: offset.saturating_add(from - start),
            });
            found.push((from..to, source));
            at = to;
        }
        self.rest(at..range.end, &mut found);
        found
    }

    fn rest(&self, range: Range<u64>, found: &mut Vec<(Range<u64>, Source)>) {
        if range.is_empty() {
            return;
        }
        let middle = self.own_end.clamp(range.start, range.end);
        for (part, source) in
            [(range.start..middle, Source::Own), (middle..range.end, Source::Written)]
        {
            if !part.is_empty() {
                found.push((part, source));
            }
        }
    }

    fn cut(&mut self, range: Range<u64>) {
        let first = self.stretches.range(..=range.start).next_back().map(|(&start, _)| start);
        let from = first.unwrap_or(range.start);
        let touched: Vec<u64> = self.stretches.range(from..range.end).map(|(&at, _)| at).collect();
        for start in touched {
            let Some(stretch) = self.stretches.remove(&start) else { continue };
            if start < range.start {
                let end = stretch.end.min(range.start);
                self.stretches.insert(start, Stretch { end, from: stretch.from });
            }
            if stretch.end > range.end {
                let skip = range.end - start;
                let from = stretch.from.map(|(node, offset)| (node, offset.saturating_add(skip)));
                self.stretches.insert(range.end, Stretch { end: stretch.end, from });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Source::{Own, Written};
    use super::*;

    #[test]
    fn writes_hide_what_was_there() {
        let mut content = Content::found();
        content.learn_size(100);
        content.write(10..20);
        content.write(20..30);
        content.write(90..110);
        assert_eq!(content.stretches(), 2);
        assert_eq!(
            content.sources(0..120),
            [
                (0..10, Own),
                (10..30, Written),
                (30..90, Own),
                (90..100, Written),
                (100..120, Written)
            ]
        );
        assert_eq!(content.now, 110);
        assert_eq!(content.sources(15..25), [(15..25, Written)]);
    }

    #[test]
    fn cutting_and_extending_leaves_zeros() {
        let mut content = Content::found();
        content.learn_size(100);
        content.write(0..10);
        content.truncate(5);
        content.truncate(50);
        assert_eq!(content.sources(0..50), [(0..5, Written), (5..50, Written)]);
        assert_eq!(content.size_at_first(), 100);
    }

    #[test]
    fn copies_keep_their_source() {
        let node = NodeId::ROOT;
        let mut content = Content::made();
        content.copy(0..100, Source::Copied { node, offset: 1000 });
        content.write(40..60);
        assert_eq!(
            content.sources(30..80),
            [
                (30..40, Source::Copied { node, offset: 1030 }),
                (40..60, Written),
                (60..80, Source::Copied { node, offset: 1060 })
            ]
        );
    }

    /// Compares with a plain array of bytes.
    #[test]
    fn any_order_of_changes_agrees_with_an_array() {
        let mut seed = 0x5eed_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut content = Content::found();
            content.learn_size(64);
            let mut array = [Written; 128];
            array[..64].fill(Own);
            for _ in 0..12 {
                let start = next(100);
                let end = start + next(28);
                let range = start as usize..end as usize;
                match next(3) {
                    0 => {
                        content.write(start..end);
                        array[range].fill(Written);
                    }
                    1 if start < end => {
                        let node = NodeId::ROOT;
                        content.copy(start..end, Source::Copied { node, offset: 500 + start });
                        for at in range {
                            array[at] = Source::Copied { node, offset: 500 + at as u64 };
                        }
                    }
                    _ => {
                        content.truncate(end);
                        array[end as usize..].fill(Written);
                    }
                }
            }
            let mut found = Vec::new();
            for (range, source) in content.sources(0..128) {
                for at in range.clone() {
                    found.push(match source {
                        Source::Copied { node, offset } => {
                            Source::Copied { node, offset: offset + at - range.start }
                        }
                        plain => plain,
                    });
                }
            }
            assert_eq!(found, array);
        }
    }
}
