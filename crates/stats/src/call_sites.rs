//! Where in the program calls were made, and how long they took.

use std::collections::HashMap;

use render::amounts::counted;
use trace::event::EventKind;

use crate::chains::{Chains, Spelled};
use crate::numbered::name;
use crate::pass::{Occasion, Visit, Watch};
use crate::sheet::{Cell, Fact, Sheet, Table, share};
use crate::sites::SiteId;
use crate::view::ViewRow;

/// Calls by places that are counted apart.
const GROUPS_MAX: usize = 1 << 16;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "sites",
    about: "Where in the program calls were made: function, file and line (also calls --by site)",
    look: |look| Ok(look.watch(CallSites::default(), |fold, _| fold.sheet())),
};

#[derive(Default)]
struct Sum {
    count: u64,
    errors: u64,
    ns: u64,
}

/// The fold.
#[derive(Default)]
struct CallSites {
    chains: Chains,
    groups: HashMap<(u16, SiteId, bool), Sum>,
    with_callers: u64,
    lost: u64,
    left_out: u64,
    total_ns: u64,
}

impl Watch for CallSites {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        self.chains.add(moment, visit.contents);
        let EventKind::Call(call) = &moment.event.kind else { return };
        if !visit.wanted {
            return;
        }
        let chain = self.chains.of(moment, visit.contents);
        self.with_callers += u64::from(chain.is_some());
        self.lost += u64::from(chain.as_ref().is_some_and(|chain| chain.len() < 2));
        let own = (self.chains.own(moment, call), false);
        let (site, returns) = chain.and_then(|chain| self.chains.telling(&chain)).unwrap_or(own);
        let key = (call.nr, site, returns);
        if self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let ns = Occasion::from(moment).in_call_ns();
        let sum = self.groups.entry(key).or_default();
        sum.count += 1;
        sum.errors += u64::from(call.error().is_some());
        sum.ns = sum.ns.saturating_add(ns);
        self.total_ns = self.total_ns.saturating_add(ns);
    }
}

impl CallSites {
    fn sheet(mut self) -> Sheet {
        let mut groups: Vec<((u16, SiteId, bool), Sum)> = self.groups.drain().collect();
        groups.sort_by_key(|(key, sum)| (u64::MAX - sum.ns, u64::MAX - sum.count, *key));
        let mut table =
            Table::new("call_sites", "Where calls were made", &COLUMNS).further(&["errors"]);
        for ((nr, site, returns), sum) in groups {
            let Spelled { function, line, place } = self.chains.spell(site, returns);
            let text = |text: Option<String>| {
                text.map_or(Cell::Nothing, |text| Cell::Name(text.into_bytes()))
            };
            table.row(vec![
                Cell::Word(name(nr)),
                Cell::Count(sum.count),
                Cell::Count(sum.errors),
                Cell::Ns(sum.ns),
                share(sum.ns, self.total_ns),
                text(function),
                text(line),
                Cell::Name(place),
            ]);
        }
        let mut notes = Vec::new();
        if self.with_callers == 0 {
            notes.push(
                "Callers were not recorded (record --stack does): these are the places of the calls \
                 themselves, mostly in the C library."
                    .into(),
            );
        } else {
            notes.push(
                "Of each chain of callers the one that says most: the first in another file than \
                 the call itself, or the next there whose function is known."
                    .into(),
            );
        }
        if self.left_out > 0 {
            notes.push(format!(
                "{} in no row: there were too many.",
                counted(self.left_out, "call is", "calls are")
            ));
        }
        let facts = vec![
            Fact {
                key: "calls_with_callers",
                title: "calls whose callers were looked for",
                value: Cell::Count(self.with_callers),
            },
            Fact { key: "callers_lost", title: "callers not found", value: Cell::Count(self.lost) },
        ];
        Sheet { facts, tables: vec![table], notes }
    }
}

const COLUMNS: [(&str, &str); 8] = [
    ("call", "call"),
    ("count", "count"),
    ("errors", "errors"),
    ("time_ns", "time"),
    ("time_share", "share"),
    ("function", "in"),
    ("line", "at"),
    ("place", "place"),
];
