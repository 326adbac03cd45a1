//! Which row, and which variant of it, tells about a call.

use std::borrow::Cow;

use events::Act;
use events::shape::{Arg, Classes, Kind, Ret};
use trace::event::Call;

/// The part of the table that applies to one call.
pub struct Shape {
    /// The name, `syscall_NNN` for a number without a row.
    pub name: Cow<'static, str>,
    /// The arguments; those of a call without a row have no names.
    pub args: &'static [Arg],
    /// What the result means.
    pub ret: Ret,
    /// What it does besides.
    pub act: Act,
    /// The groups that it belongs to.
    pub classes: Classes,
    /// The row has variants, and none of them fits.
    pub unknown_variant: bool,
}

const fn raw(name: &'static str) -> Arg {
    Arg { name, kind: Kind::Hex }
}

static RAW: [Arg; 6] =
    [raw("arg0"), raw("arg1"), raw("arg2"), raw("arg3"), raw("arg4"), raw("arg5")];

/// What the table says about a call.
pub fn shape_of(call: &Call) -> Shape {
    let Some(row) = events::by_number(u64::from(call.nr)) else {
        return Shape {
            name: Cow::Owned(format!("syscall_{}", call.nr)),
            args: &RAW,
            ret: Ret::Int,
            act: Act::Plain,
            classes: Classes::NONE,
            unknown_variant: false,
        };
    };
    let variant = row.variant(&call.args);
    let (args, ret) = variant.map_or((row.args, row.ret), |v| (v.args, v.ret));
    Shape {
        name: Cow::Borrowed(row.name),
        args,
        ret,
        act: variant.and_then(|variant| variant.act).unwrap_or(row.act),
        classes: row.classes,
        unknown_variant: variant.is_none() && !row.variants.is_empty(),
    }
}
