//! The time in calls by chain of callers, as a tree.

use std::collections::HashMap;

use model::{Contents, Moment};
use trace::event::EventKind;

use crate::chains::Chains;
use crate::numbered::name;
use crate::pass::Occasion;
use crate::sites::SiteId;

/// Nodes of the tree.
const NODES_MAX: usize = 1 << 16;
/// Nodes that are shown, and the share of all time below which one is not.
const SHOWN_MAX: usize = 4000;
const SMALL: u64 = 4000;
/// Depth that is shown.
const DEPTH_MAX: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Frame {
    Site(SiteId),
    Call(u16),
}

#[derive(Default)]
struct Node {
    ns: u64,
    calls: u64,
    children: HashMap<Frame, usize>,
}

/// Collects the tree.
#[derive(Default)]
pub struct Flame {
    chains: Chains,
    nodes: Vec<Node>,
    /// Calls of which no caller is known.
    pub without: u64,
}

/// A node as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The function or call.
    pub name: String,
    /// Where it is, if more is known.
    pub place: String,
    /// Time in calls from here, and their number.
    pub ns: u64,
    /// How many calls.
    pub calls: u64,
    /// What it calls, the most time first.
    pub children: Vec<Shown>,
}

impl Flame {
    /// Takes each event, in order.
    pub fn add(&mut self, moment: &Moment<'_>, wanted: bool, contents: &mut dyn Contents) {
        self.chains.add(moment, contents);
        let EventKind::Call(call) = &moment.event.kind else { return };
        let Some(chain) = self.chains.of(moment, contents).filter(|_| wanted) else { return };
        if chain.len() < 2 {
            self.without += 1;
            return;
        }
        let ns = Occasion::from(moment).in_call_ns();
        let sites = chain.iter().skip(1).rev().take(DEPTH_MAX).map(|site| Frame::Site(*site));
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        self.spend(at, ns);
        for frame in sites.chain([Frame::Call(call.nr)]) {
            let next = match self.nodes[at].children.get(&frame) {
                Some(next) => *next,
                None if self.nodes.len() >= NODES_MAX => return,
                None => {
                    let next = self.nodes.len();
                    self.nodes.push(Node::default());
                    self.nodes[at].children.insert(frame, next);
                    next
                }
            };
            at = next;
            self.spend(at, ns);
        }
    }

    fn spend(&mut self, at: usize, ns: u64) {
        self.nodes[at].ns = self.nodes[at].ns.saturating_add(ns);
        self.nodes[at].calls += 1;
    }

    /// The tree with names, without what is too small to be seen; `None`: no callers were recorded.
    pub fn finish(mut self) -> Option<Shown> {
        let all = self.nodes.first()?.ns;
        let mut left = SHOWN_MAX;
        let mut shown = self.shown(0, all / SMALL, &mut left);
        shown.name = "all".into();
        Some(shown)
    }

    fn shown(&mut self, at: usize, least: u64, left: &mut usize) -> Shown {
        let node = &self.nodes[at];
        let mut shown = Shown { ns: node.ns, calls: node.calls, ..Shown::default() };
        let mut children: Vec<(Frame, usize)> =
            node.children.iter().map(|(frame, at)| (*frame, *at)).collect();
        children.sort_by_key(|(frame, at)| (u64::MAX - self.nodes[*at].ns, *frame));
        for (frame, at) in children {
            if *left == 0 || self.nodes[at].ns < least {
                break;
            }
            *left -= 1;
            let mut child = self.shown(at, least, left);
            match frame {
                Frame::Call(nr) => child.name = name(nr).into_owned(),
                Frame::Site(site) => {
                    let spelled = self.chains.spell(site, true);
                    child.name = spelled.name();
                    let place = String::from_utf8_lossy(&spelled.place).into_owned();
                    child.place = spelled.line.unwrap_or(place);
                }
            }
            shown.children.push(child);
        }
        shown
    }
}
