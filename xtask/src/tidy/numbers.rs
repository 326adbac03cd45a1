//! Numbers of the kernel stay in the table's crate: no other one defines what the kernel has a name
//! for, compares call numbers with literals, or knows where errors begin.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Expr, Ident, Lit, Member, Pat};

use super::sources::{Finding, Source, bare, text};
use super::words::Words;

/// Where numbers are.
const ROOM: &str = "syscalls";

/// Who makes the calls of programs, and so tells them apart by number.
const MAKER: &str = "agent";

/// How names of the numbers of calls begin.
const CALLS: &[&str] = &["SYS_", "__NR_", "NR_"];

/// How names of the kernel begin, besides those in the table.
#[rustfmt::skip]
const PREFIXES: &[&str] = &[
    "SYS_", "__NR_", "NR_", "AT_", "S_I", "CLONE_", "O_", "F_", "PROT_", "PTRACE_", "SECCOMP_",
    "FUTEX_", "FUTEX2_", "PR_", "MS_", "MNT_", "RLIMIT_", "SA_", "AF_", "SOL_", "SCM_", "STATX_",
    "MFD_", "PIDFD_", "RENAME_", "SOCK_", "RWF_", "IORING_", "GRND_", "AUDIT_ARCH_", "RESOLVE_",
    "BPF_",
];

/// Up to here numbers say nothing.
const SMALL_END: u64 = 0x40;

/// Finds definitions of the kernel's numbers, and numbers of calls in comparisons.
pub fn outside(sources: &[Source], words: &Words) -> Vec<Finding> {
    let mut constants: BTreeMap<&Path, Constants> = BTreeMap::new();
    for source in sources {
        let of_crate = constants.entry(&source.root).or_default();
        source.items.iter().for_each(|item| of_crate.visit_item(item));
    }
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !source.is_of(ROOM)) {
        let constants = &constants[source.root.as_path()].literal;
        let names_calls = source.is_of(MAKER);
        let mut search = Search { words, constants, names_calls, found: Vec::new() };
        source.items.iter().for_each(|item| search.visit_item(item));
        found.extend(search.found.into_iter().map(|(line, what)| Finding {
            path: source.path.clone(),
            line,
            what,
        }));
    }
    found
}

/// Names of constants that are literals.
#[derive(Default)]
struct Constants {
    literal: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Constants {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if integer(&item.expr).is_some() {
            self.literal.insert(item.ident.to_string());
        }
        visit::visit_item_const(self, item);
    }
}

struct Search<'a> {
    words: &'a Words,
    /// Constants of this crate that are literals.
    constants: &'a BTreeSet<String>,
    /// Numbers of calls may be compared with those that have names.
    names_calls: bool,
    found: Vec<(usize, String)>,
}

impl Search<'_> {
    fn add(&mut self, line: usize, what: String) {
        self.found.push((line, what));
    }

    fn define(&mut self, attributes: &[Attribute], name: &Ident, value: &Expr) {
        let word = name.to_string();
        let is_kernels = self.words.constants.contains(&word)
            || PREFIXES.iter().any(|prefix| word.starts_with(prefix));
        if is_kernels && is_copy(name, value) {
            self.add(line(name), format!("{word} is defined a second time"));
        } else if is_literal(value)
            && (is_kernels || self.is_part(&word, value) || self.is_said(attributes))
        {
            self.add(line(name), format!("{word} is a number of the kernel"));
        }
    }

    /// Returns whether it is a constant of the kernel without its prefix: `CREAT` for `O_CREAT`.
    /// Small numbers are too common.
    fn is_part(&self, word: &str, value: &Expr) -> bool {
        let value: Option<u64> = integer(value).and_then(|value| value.base10_parse().ok());
        let same = |(name, number): (&String, &u64)| {
            Some(*number) == value
                && name.strip_suffix(word).is_some_and(|prefix| prefix.ends_with('_'))
        };
        value.is_some_and(|value| value >= SMALL_END) && self.words.values.iter().any(same)
    }

    /// Returns whether its documentation says which constant of the kernel it is: `O_CREAT`.
    fn is_said(&self, attributes: &[Attribute]) -> bool {
        let quoted = |text: String| {
            let mut words = text.split('`').skip(1).step_by(2).flat_map(|code| code.split(" | "));
            words.any(|word| self.words.constants.contains(word.trim()))
        };
        attributes.iter().any(|attribute| match &attribute.meta {
            syn::Meta::NameValue(doc) => text(&doc.value).is_some_and(|text| quoted(text.value())),
            _ => false,
        })
    }

    fn is_number(&self, expr: &Expr) -> bool {
        integer(expr).is_some() || last(expr).is_some_and(|name| self.is_number_of(&name))
    }

    /// Returns whether a constant is the number of a call.
    fn is_number_of(&self, name: &str) -> bool {
        let is_calls = CALLS.iter().any(|prefix| name.starts_with(prefix));
        self.constants.contains(name) || is_calls && !self.names_calls
    }

    fn fit(&mut self, pattern: &Pat) {
        match pattern {
            Pat::Lit(literal) if matches!(literal.lit, Lit::Int(_)) => {
                self.add(literal.lit.span().start().line, "a call's number in a pattern".into());
            }
            Pat::Or(cases) => cases.cases.iter().for_each(|case| self.fit(case)),
            Pat::Paren(inner) => self.fit(&inner.pat),
            Pat::Guard(inner) => self.fit(&inner.pat),
            Pat::TupleStruct(inner) => inner.elems.iter().for_each(|case| self.fit(case)),
            Pat::Path(path) => {
                if let Some(name) = path.path.segments.last().map(|segment| &segment.ident)
                    && self.is_number_of(&name.to_string())
                {
                    self.add(line(name), format!("a call's number, {name}, in a pattern"));
                }
            }
            Pat::Ident(name) if self.is_number_of(&name.ident.to_string()) => {
                let name = &name.ident;
                self.add(line(name), format!("a call's number, {name}, in a pattern"));
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.define(&item.attrs, &item.ident, &item.expr);
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.define(&item.attrs, &item.ident, &item.expr);
        visit::visit_item_static(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.define(&item.attrs, &item.ident, &item.expr);
        visit::visit_impl_item_const(self, item);
    }

    /// `NAME = 1` among the arguments of a macro that defines constants.
    fn visit_expr_assign(&mut self, assign: &'ast syn::ExprAssign) {
        if let Expr::Path(path) = &*assign.left
            && let Some(name) = path.path.get_ident()
        {
            self.define(&[], name, &assign.right);
        }
        visit::visit_expr_assign(self, assign);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_)) {
            let sides = [(&binary.left, &binary.right), (&binary.right, &binary.left)];
            for (number, other) in sides {
                if let Some(line) = call_number(number)
                    && self.is_number(other)
                {
                    self.add(line, "a comparison with a call's number".into());
                }
            }
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        if call_number(&expr.expr).is_some() {
            expr.arms.iter().for_each(|arm| self.fit(&arm.pat));
        }
        visit::visit_expr_match(self, expr);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "contains"
            && let Some(line) = call.args.first().and_then(call_number)
            && let Expr::Array(list) = bare(&call.receiver)
            && list.elems.iter().any(|element| self.is_number(element))
        {
            self.add(line, "a list of call numbers".into());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_lit_int(&mut self, number: &'ast syn::LitInt) {
        // Literals in patterns have their sign.
        if number.base10_digits() == "-4095" {
            self.add(number.span().start().line, "where errors begin".into());
        }
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if matches!(unary.op, syn::UnOp::Neg(_))
            && let Expr::Lit(literal) = &*unary.expr
            && let Lit::Int(number) = &literal.lit
            && number.base10_digits() == "4095"
        {
            self.add(number.span().start().line, "where errors begin".into());
        }
        visit::visit_expr_unary(self, unary);
    }
}

/// Returns whether a constant only repeats one of another module under the same name.
fn is_copy(name: &Ident, value: &Expr) -> bool {
    matches!(bare(value), Expr::Path(path) if path.path.segments.len() > 1
        && path.path.segments.last().is_some_and(|last| last.ident == *name))
}

/// Returns whether a value is made of literals alone.
fn is_literal(expr: &Expr) -> bool {
    match bare(expr) {
        Expr::Lit(_) => true,
        Expr::Unary(inner) => is_literal(&inner.expr),
        Expr::Binary(inner) => is_literal(&inner.left) && is_literal(&inner.right),
        Expr::Array(list) => list.elems.iter().all(is_literal),
        _ => false,
    }
}

fn integer(expr: &Expr) -> Option<&syn::LitInt> {
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => Some(number),
            _ => None,
        },
        Expr::Unary(inner) => integer(&inner.expr),
        _ => None,
    }
}

/// The last name of a path.
fn last(expr: &Expr) -> Option<String> {
    match bare(expr) {
        Expr::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// Returns the line if an expression is a call's number by its name: `call.nr`, `row.number`, `nr`.
fn call_number(expr: &Expr) -> Option<usize> {
    match bare(expr) {
        Expr::Path(path) => path.path.get_ident().filter(|name| *name == "nr").map(line),
        Expr::Field(field) => {
            let Member::Named(name) = &field.member else { return None };
            let is_calls = |base: &Expr| is_last(base, &["call", "row", "syscall"]);
            (name == "nr" || name == "number" && is_calls(&field.base)).then(|| line(name))
        }
        Expr::MethodCall(call) if call.method == "into" => call_number(&call.receiver),
        Expr::Call(call) if call.args.len() == 1 => call_number(&call.args[0]),
        _ => None,
    }
}

/// Returns whether an expression is a variable or a field with one of these names.
fn is_last(expr: &Expr, names: &[&str]) -> bool {
    let is = |name: &Ident| names.iter().any(|wanted| name == wanted);
    match bare(expr) {
        Expr::Path(path) => path.path.get_ident().is_some_and(is),
        Expr::Field(field) => matches!(&field.member, Member::Named(name) if is(name)),
        _ => false,
    }
}

fn line(name: &Ident) -> usize {
    name.span().start().line
}

#[cfg(test)]
mod tests {
    use super::super::sources::tests::{of_model, sources};
    use super::super::words::tests::small;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let found = outside(&of_model(text), &small());
        found.iter().map(|finding| format!("{} {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn definitions() {
        assert_eq!(found("\nconst O_CREAT: u64 = 0o100;"), ["2 O_CREAT is a number of the kernel"]);
        for text in [
            "pub const ENOENT: i64 = -2;",
            "static CLONE_ANYTHING: u64 = 1 << 3;",
            "const AT_FDCWD: i32 = -100;",
            "mod open_flag { pub const CREAT: u64 = 64; }",
            "/// `O_WRONLY | O_CREAT`.\nconst WRITES: u64 = 0x41;",
            "fn f() { const NR_READ: u64 = 0; }",
            "impl A { const ENOENT: i32 = 2; }",
            "numbers! { ENOENT = 2 }",
            "thread_local! { static ENOENT: i32 = 2; }",
            "const ENOENT: i64 = libc::ENOENT as i64;",
        ] {
            assert_eq!(found(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_no_definition() {
        for text in [
            "const O_CREAT: u64 = syscalls::abi::O_CREAT | 1;",
            "const BYTES: usize = 64;",
            "const EMPTY: Set = Set::EMPTY;",
            "mod open_flag { pub const WRONLY: u64 = 1; pub const CREAT: u64 = 65; }",
            "/// Flags of open, with O_CREAT.\nconst USUAL: u64 = 3;",
            "use syscalls::abi::O_CREAT;",
            "fn f() { let enoent = 2; }",
            "#[cfg(test)] mod tests { const O_CREAT: u64 = 64; }",
        ] {
            assert_eq!(found(text), [""; 0], "{text}");
        }
        let room = sources(&[("crates/syscalls/src/lib.rs", "pub const O_CREAT: u64 = 64;")]);
        assert!(outside(&room, &small()).is_empty());
    }

    #[test]
    fn numbers_of_calls() {
        for body in [
            "call.nr == 3",
            "u64::from(call.nr) != 3",
            "row.number == 3",
            "const CLOSE: u64 = 3; 3; nr == CLOSE",
            "match call.nr { 3 | x => 1, _ => 2 }",
            "const CLOSE: u64 = 3; match call.nr { number::CLOSE => 1, _ => 2 }",
            "matches!(call.nr, 3)",
            "[0, 1].contains(&call.nr)",
            "call.nr == abi::SYS_CLOSE",
            "match call.nr { SYS_CLOSE => 1, _ => 2 }",
            "(-4095..0).contains(&ret)",
            "match ret { -4095..=-1 => 1, _ => 2 }",
        ] {
            assert_eq!(found(&format!("fn f() {{ {body}; }}")).len(), 1, "{body}");
        }
        for body in
            ["call.nr == other.nr", "mount.number == 3", "id == raw::__NR_read", "x == 4095"]
        {
            assert_eq!(found(&format!("fn f() {{ {body}; }}")), [""; 0], "{body}");
        }
        let agent = "fn f() { nr == raw::__NR_read; nr == 3; }";
        let agent = outside(&sources(&[("crates/agent/src/main.rs", agent)]), &small());
        assert_eq!(agent.len(), 1, "the agent has to know calls, but not by literals");
    }
}
