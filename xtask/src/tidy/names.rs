//! Names of the table stay in the table: nobody else asks whether a call, an argument or a field
//! has a certain name. What a call means stands in its row.

use std::collections::BTreeMap;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Ident, Lit, LitStr, Member, Pat};

use super::lookups::Lookups;
use super::sources::{Finding, Source, bare, text};
use super::words::{Words, first_text};

/// Where names are translated into the words of another tool.
const ROOMS: &[&str] = &[
    "crates/syscalls/",
    // strace's own spelling of calls and arguments.
    "crates/strace/src/spelling.rs",
    "crates/strace/src/words.rs",
    // LTTng's names of events and fields.
    "crates/ctf_import/src/spelling.rs",
    // The types of the SNIA schema; elements and attributes of DataSeries.
    "crates/dataseries/src/calls/",
    "crates/dataseries/src/file/",
];

/// Finds names of the table that something is compared with.
pub fn compared(sources: &[Source], words: &Words) -> Vec<Finding> {
    let mut lookups: BTreeMap<&Path, Lookups> = BTreeMap::new();
    for source in sources {
        let of_crate = lookups.entry(&source.root).or_default();
        source.items.iter().for_each(|item| of_crate.visit_item(item));
    }
    let mut found = Vec::new();
    let in_room = |path: &Path| ROOMS.iter().any(|room| path.to_string_lossy().starts_with(room));
    for source in sources.iter().filter(|source| !in_room(&source.path)) {
        let lookups = &lookups[source.root.as_path()];
        let mut search = Search { words, lookups, found: Vec::new() };
        source.items.iter().for_each(|item| search.visit_item(item));
        found.extend(search.found.into_iter().map(|(line, what)| Finding {
            path: source.path.clone(),
            line,
            what,
        }));
    }
    found
}

struct Search<'a> {
    words: &'a Words,
    /// Those of the crate.
    lookups: &'a Lookups,
    /// Lines, and what is there.
    found: Vec<(usize, String)>,
}

impl Search<'_> {
    fn add(&mut self, text: &LitStr, how: &str) {
        self.found.push((text.span().start().line, format!("{how} \"{}\"", text.value())));
    }

    /// Looks at two sides of a comparison.
    fn compare(&mut self, one: &Expr, other: &Expr) {
        let Some(text) = text(other) else { return };
        let value = text.value();
        if self.words.has_alone(&value) || self.words.has(&value) && is_named(one) {
            self.add(text, "a comparison with");
        }
    }

    /// Looks at the arguments of a function.
    fn look_up<'e>(&mut self, function: &Ident, arguments: impl Iterator<Item = &'e Expr>) {
        let is_row = function == "by_name";
        if !is_row && !self.lookups.names.contains(&function.to_string()) {
            return;
        }
        for text in arguments.filter_map(text) {
            if is_row || self.words.has(&text.value()) {
                self.add(text, "what is called");
            }
        }
    }

    /// Looks at a value that must fit a pattern.
    fn fit(&mut self, value: Option<&Expr>, pattern: &Pat) {
        match (pattern, value.map(bare)) {
            (Pat::Lit(literal), _) => {
                let Lit::Str(text) = &literal.lit else { return };
                let word = text.value();
                let is_named = value.is_some_and(is_named);
                if self.words.has_alone(&word) || self.words.has(&word) && is_named {
                    self.add(text, "a pattern");
                }
            }
            (Pat::Tuple(patterns), Some(Expr::Tuple(values))) => {
                let pairs = values.elems.iter().zip(&patterns.elems);
                pairs.for_each(|(value, pattern)| self.fit(Some(value), pattern));
            }
            (Pat::Tuple(patterns), _) => {
                patterns.elems.iter().for_each(|pattern| self.fit(None, pattern));
            }
            (Pat::Or(cases), _) => cases.cases.iter().for_each(|case| self.fit(value, case)),
            (Pat::TupleStruct(inner), _) => {
                inner.elems.iter().for_each(|pattern| self.fit(value, pattern));
            }
            (Pat::Slice(inner), _) => {
                inner.elems.iter().for_each(|pattern| self.fit(value, pattern));
            }
            (Pat::Struct(inner), _) => {
                inner.fields.iter().for_each(|field| self.fit(value, &field.pat));
            }
            (Pat::Paren(inner), _) => self.fit(value, &inner.pat),
            (Pat::Reference(inner), _) => self.fit(value, &inner.pat),
            (Pat::Guard(inner), _) => self.fit(value, &inner.pat),
            (Pat::Ident(name), _) => {
                if let Some((_, inner)) = &name.subpat {
                    self.fit(value, inner);
                }
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_)) {
            self.compare(&binary.left, &binary.right);
            self.compare(&binary.right, &binary.left);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        expr.arms.iter().for_each(|arm| self.fit(Some(&expr.expr), &arm.pat));
        visit::visit_expr_match(self, expr);
    }

    fn visit_expr_let(&mut self, expr: &'ast syn::ExprLet) {
        self.fit(Some(&expr.expr), &expr.pat);
        visit::visit_expr_let(self, expr);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(function) = &*call.func
            && let Some(function) = function.path.segments.last()
        {
            self.look_up(&function.ident, call.args.iter());
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        const PARTS: &[&str] = &["starts_with", "ends_with", "contains"];
        const STRIPS: &[&str] = &["strip_prefix", "strip_suffix"];
        let is = |methods: &[&str]| methods.iter().any(|method| call.method == method);
        if let Some(text) = call.args.first().and_then(text)
            && is_named(&call.receiver)
            && (is(PARTS) && self.words.has_with(&text.value())
                || is(STRIPS) && self.words.has_call_with(&text.value()))
        {
            self.add(text, "a name with");
        }
        self.look_up(&call.method, call.args.iter());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_array(&mut self, list: &'ast syn::ExprArray) {
        if is_list(list, self.words) {
            if let Some(first) = list.elems.first().and_then(first_text) {
                self.add(first, "a list of names, from");
            }
            return;
        }
        visit::visit_expr_array(self, list);
    }
}

/// Returns whether all elements of an array are names of the table, or begin with one.
fn is_list(list: &syn::ExprArray, words: &Words) -> bool {
    let firsts = || list.elems.iter().map(|element| first_text(element).map(LitStr::value));
    firsts().all(|word| word.is_some_and(|word| words.has(&word)))
        && firsts().flatten().any(|word| words.calls.contains(&word) || words.has_alone(&word))
}

/// Returns whether an expression is said to be a name: `x.name`, `call_name`, `name(number)`.
fn is_named(expr: &Expr) -> bool {
    let is_name = |ident: &Ident| {
        let ident = ident.to_string();
        ["name", "call", "row", "layout"].contains(&ident.as_str()) || ident.ends_with("_name")
    };
    let last_is_name = |path: &syn::Path| path.segments.last().is_some_and(|s| is_name(&s.ident));
    match bare(expr) {
        Expr::Path(path) => last_is_name(&path.path),
        Expr::Field(field) => matches!(&field.member, Member::Named(name) if is_name(name)),
        Expr::MethodCall(call) => is_name(&call.method),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => {
                last_is_name(&path.path) || call.args.len() == 1 && is_named(&call.args[0])
            }
            _ => false,
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources::tests::{of_model, sources};
    use super::super::words::tests::small;
    use super::*;

    /// What is found in the body of a function, by line.
    fn found(body: &str) -> Vec<String> {
        let sources = of_model(&format!("fn f(arg: &Arg) {{\n{body}\n}}"));
        compared(&sources, &small()).iter().map(|f| format!("{} {}", f.line - 1, f.what)).collect()
    }

    #[test]
    fn comparisons_with_names() {
        assert_eq!(found("arg.name == \"flags\";"), ["1 a comparison with \"flags\""]);
        for body in [
            "\"flags\" != &*arg.name",
            "name(3).as_ref() == \"flags\"",
            "call_name == Some(\"flags\")",
            "anything.1 == \"O_CREAT\"",
            "anything == \"st_size\"",
            "match &*row.name { \"fcntl\" if x => 1, _ => 2 }",
            "match (arg.name, 2) { (\"fd\", _) => 1, _ => 2 }",
            "match x { Some(\"O_CREAT\" | \"other\") => 1, _ => 2 }",
            "if let \"openat\" = shape.name {}",
            "matches!(name, \"fd\")",
            "assert!(x, \"{}\", arg.name == \"fd\")",
            "row.name.starts_with(\"open\")",
            "row.name.strip_suffix(\"at\")",
            "[\"openat\", \"fcntl\"].contains(&word)",
            "const LIST: &[(&str, u8)] = &[(\"openat\", 1), (\"fcntl\", 2)]",
            "syscalls::by_name(\"no_such\")",
        ] {
            assert_eq!(found(&format!("{body};")).len(), 1, "{body}");
        }
    }

    #[test]
    fn what_is_no_name_of_the_table() {
        for body in [
            "arg.name == \"other\"",
            "arg.name == other",
            "option == \"flags\"",
            "match word { \"stat\" => 1, \"fd\" => 2, _ => 3 }",
            "line.starts_with(\"flags\")",
            "name.strip_prefix(\"O_\")",
            "json.key(\"st_size\")",
            "let columns = [\"fd\", \"flags\"]",
            "let columns = [\"openat\", \"seq\"]",
            "#[cfg(test)] fn g() { assert!(arg.name == \"flags\") }",
        ] {
            assert_eq!(found(&format!("{body};")), [""; 0], "{body}");
        }
    }

    #[test]
    fn functions_that_look_up() {
        let texts = [
            "fn find(list: &[Arg], name: &str) { list.iter().any(|arg| arg.name == name) }",
            "fn row(word: &str) { by_name(word) }",
            "fn print(name: &str) { if name == \"a\" {} }",
        ];
        let calls = "fn f() {\nfind(list, \"fd\");\nrow(\"fcntl\");\nprint(\"fd\");\nfind(list, \"x\");\n\
            let named = |wanted| arg == wanted;\nnamed(\"flags\") }";
        let sources = of_model(&[&texts.concat(), calls].concat());
        let found = compared(&sources, &small());
        assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [2, 3, 7]);
    }

    #[test]
    fn rooms() {
        const TEXT: &str = "fn f() { name == \"flags\"; }";
        let sources = sources(&[
            ("crates/strace/src/lib.rs", "mod spelling; mod words_of;"),
            ("crates/strace/src/spelling.rs", TEXT),
            ("crates/strace/src/words_of.rs", TEXT),
        ]);
        let found = compared(&sources, &small());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, Path::new("crates/strace/src/words_of.rs"));
    }
}
