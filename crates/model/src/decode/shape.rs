//! Selects the row and the variant that describe a call.

use std::borrow::Cow;

use syscalls::Act;
use syscalls::shape::{Arg, ArgKind, Classes, Gives, Operand, Ret};
use trace::event::Call;

/// The part of the table that describes one call.
pub struct Shape {
    /// Name of the call, `syscall_NNN` for a number without a row.
    pub name: Cow<'static, str>,
    /// The arguments; `arg0` to `arg5` for a number without a row.
    pub args: &'static [Arg],
    /// Meaning of the result.
    pub ret: Ret,
    /// Side effects on descriptors, paths and tasks.
    pub act: Act,
    /// Groups that the call belongs to.
    pub classes: Classes,
    /// Files behind the descriptors that it returns.
    pub gives: Gives,
    /// These descriptors are closed by an exec, without a flag that asks for it.
    pub gives_until_exec: bool,
    /// True if the row has variants and none of them matches.
    pub unknown_variant: bool,
}

const fn raw(name: &'static str) -> Arg {
    Arg {
        name,
        kind: ArgKind::Hex,
        operand: Operand::ByType,
        told_on_error: false,
        head_goes_in: false,
    }
}

/// Arguments of a call without a row.
pub static RAW: [Arg; 6] =
    [raw("arg0"), raw("arg1"), raw("arg2"), raw("arg3"), raw("arg4"), raw("arg5")];

/// Returns the table's description of a call.
pub fn shape_of(call: &Call) -> Shape {
    let Some(row) = syscalls::by_number(u64::from(call.nr)) else {
        return Shape {
            name: Cow::Owned(format!("syscall_{}", call.nr)),
            args: &RAW,
            ret: Ret::Int,
            act: Act::Plain,
            classes: Classes::NONE,
            gives: Gives::ByPath,
            gives_until_exec: false,
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
        gives: row.gives,
        gives_until_exec: row.gives_until_exec || variant.is_some_and(|v| v.gives_until_exec),
        unknown_variant: variant.is_none() && !row.variants.is_empty(),
    }
}
