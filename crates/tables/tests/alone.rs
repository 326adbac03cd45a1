//! A table that is made alone has the same rows as beside all others, though less is decoded for it.

use std::path::Path;

use model::{Conditions, Contents, Moment};
use tables::batch::Batch;
use tables::column::{Leaf, Values};
use tables::{Choice, Kind, Tables};
use trace::Trace;

/// Makes one table of a trace, beside all others or alone.
fn rows(trace: &Trace, kind: Kind, is_alone: bool) -> Batch {
    let choice = Choice { table: is_alone.then_some(kind), ..Choice::default() };
    let mut tables = Tables::new(trace, choice);
    let mut visit = |moment: &Moment<'_>, wanted: bool, contents: &mut dyn Contents| {
        tables.add(moment, wanted, contents);
        Ok::<(), ()>(())
    };
    model::walk_files(trace, &Conditions::default(), &mut visit).unwrap();
    tables.finish();
    tables.each().find(|table| table.kind == kind).unwrap().take()
}

fn values(leaf: &Leaf) -> String {
    let values = match &leaf.values {
        Values::Int(values) => format!("{values:?}"),
        Values::Long(values) => format!("{values:?}"),
        Values::Hash(values) => format!("{values:?}"),
        Values::Bytes(values) => format!("{:?} {:?}", values.bytes, values.ends),
        Values::Text(texts) => {
            let text = |code: &u32| &texts.all.bytes[texts.all.range(*code as usize)];
            let all = texts.codes.iter().map(|code| String::from_utf8_lossy(text(code)));
            format!("{:?}", all.collect::<Vec<_>>())
        }
    };
    format!("{:?} {values}", leaf.defs.all())
}

#[test]
fn tables_alone_are_as_beside_others() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kept");
    let mut compared = 0;
    for entry in std::fs::read_dir(kept).unwrap() {
        let path = entry.unwrap().path();
        let Ok(trace) = Trace::open(&path) else { continue };
        for kind in [Kind::Calls, Kind::Files] {
            let [mut alone, mut beside] =
                [true, false].map(|is_alone| rows(&trace, kind, is_alone));
            assert_eq!(alone.rows, beside.rows, "{kind:?} of {}", path.display());
            for (alone, beside) in alone.columns.iter_mut().zip(&mut beside.columns) {
                let (mut one, mut other) = (Vec::new(), Vec::new());
                alone.leaves(&mut one);
                beside.leaves(&mut other);
                let [one, other] = [one, other]
                    .map(|leaves| leaves.into_iter().map(|leaf| values(leaf)).collect::<Vec<_>>());
                assert_eq!(one, other, "{kind:?} of {}", path.display());
            }
            compared += alone.rows;
        }
    }
    assert!(compared > 1000, "{compared} rows");
}
