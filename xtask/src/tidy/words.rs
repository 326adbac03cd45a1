//! The words of the table of system calls, as its sources have them.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Expr, Item, Lit, LitStr};

use super::sources::Source;
use crate::Complaint;

const HERE: &str = "xtask/src/tidy/words.rs";

/// Words of which there is a table in the crate `syscalls`.
#[derive(Default)]
pub struct Words {
    /// Names of calls.
    pub calls: BTreeSet<String>,
    /// Names of arguments, structs and their fields.
    pub parts: BTreeSet<String>,
    /// Names of constants: flags, values, errors, signals.
    pub constants: BTreeSet<String>,
    /// Values of constants that are flags.
    pub values: BTreeMap<String, u64>,
}

impl Words {
    /// Collects the words of the crate `syscalls`.
    pub fn read(sources: &[Source]) -> Result<Words, Complaint> {
        let mut words = Words::default();
        for source in sources.iter().filter(|source| source.is_of("syscalls")) {
            match source.module.first().map(String::as_str) {
                Some("table") => words.add_rows(&source.items),
                Some("layout" | "flags" | "errno") => words.add(&source.items),
                Some("abi") => words.add_constants(&source.items),
                _ => {}
            }
        }
        let known = words.calls.contains("openat") && words.parts.contains("st_size");
        if known && ["O_CREAT", "ENOENT"].iter().all(|name| words.constants.contains(*name)) {
            return Ok(words);
        }
        Err(format!(
            "{HERE} does not find the table: it looks for `ROWS` in `table`, and for names \
            in `layout`, `flags` and `errno` of the crate syscalls"
        ))
    }

    /// Returns whether the table has this name.
    pub fn has(&self, word: &str) -> bool {
        self.calls.contains(word) || self.parts.contains(word) || self.constants.contains(word)
    }

    /// Returns whether a word is the table's and nobody else's: a constant, or one with a `_`.
    pub fn has_alone(&self, word: &str) -> bool {
        self.constants.contains(word) || word.contains('_') && self.has(word)
    }

    /// Returns whether a name in the table begins or ends with this.
    pub fn has_with(&self, part: &str) -> bool {
        self.has_call_with(part) || any_with(&self.parts, part) || any_with(&self.constants, part)
    }

    /// Returns whether a call's name begins or ends with this.
    pub fn has_call_with(&self, part: &str) -> bool {
        any_with(&self.calls, part)
    }

    /// Adds a file of rows: the first string of a row is the name of the call.
    fn add_rows(&mut self, items: &[Item]) {
        for item in items {
            if let Item::Static(item) = item
                && item.ident == "ROWS"
                && let Expr::Reference(rows) = &*item.expr
                && let Expr::Array(rows) = &*rows.expr
            {
                self.calls.extend(rows.elems.iter().filter_map(first_text).map(LitStr::value));
            }
        }
        self.add(items);
    }

    fn add(&mut self, items: &[Item]) {
        let mut texts = Texts::default();
        items.iter().for_each(|item| texts.visit_item(item));
        for text in texts.found.iter().map(|text| text.value()).filter(|text| is_name(text)) {
            let is_constant = text.contains(|c: char| c.is_ascii_uppercase());
            if is_constant {
                self.constants.insert(text)
            } else {
                self.parts.insert(text)
            };
        }
        self.values.extend(texts.values);
    }

    fn add_constants(&mut self, items: &[Item]) {
        let constants = items.iter().filter_map(|item| match item {
            Item::Const(item) => Some(item.ident.to_string()),
            _ => None,
        });
        self.constants.extend(constants);
    }
}

fn any_with(words: &BTreeSet<String>, part: &str) -> bool {
    let mut words = words.iter();
    !part.is_empty() && words.any(|word| word.starts_with(part) || word.ends_with(part))
}

/// Returns the first string in an expression.
pub fn first_text(expr: &Expr) -> Option<&LitStr> {
    let mut texts = Texts::default();
    texts.visit_expr(expr);
    texts.found.into_iter().next()
}

fn is_name(text: &str) -> bool {
    text.len() > 1 && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// All strings, in order, and pairs of a number and a name.
#[derive(Default)]
struct Texts<'ast> {
    found: Vec<&'ast LitStr>,
    values: Vec<(String, u64)>,
}

impl<'ast> Visit<'ast> for Texts<'ast> {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_lit(&mut self, literal: &'ast Lit) {
        if let Lit::Str(text) = literal {
            self.found.push(text);
        }
    }

    fn visit_expr_tuple(&mut self, pair: &'ast syn::ExprTuple) {
        if let [Expr::Lit(number), Expr::Lit(name)] = pair.elems.iter().collect::<Vec<_>>()[..]
            && let (Lit::Int(number), Lit::Str(name)) = (&number.lit, &name.lit)
            && let Ok(number) = number.base10_parse()
        {
            self.values.push((name.value(), number));
        }
        visit::visit_expr_tuple(self, pair);
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::sources::tests::sources;
    use super::*;

    const ROWS: &str = r#"
        pub static ROWS: &[Syscall] = &[
            call(0, "openat", FILE, &[dir("dirfd"), path("pathname"), bits("flags", &f::OPEN)]),
            family(1, "fcntl", DESC, &[fd("fd")]).does(Act::Control),
        ];"#;
    const LAYOUTS: &str =
        r#"pub static STAT: Layout = layout("stat", &[field(48, "st_size", Signed(8))]);"#;
    const FLAGS: &str = r#"
        /// Not "this".
        pub static OPEN: FlagSet = names("O_", &[(0o100, "O_CREAT"), (1, "O_WRONLY")]);"#;

    /// The words of a small table.
    pub fn small() -> Words {
        Words::read(&table("const ERRNO: &[(u16, &str)] = &[(2, \"ENOENT\")];")).ok().unwrap()
    }

    fn table(errors: &str) -> Vec<Source> {
        sources(&[
            ("crates/syscalls/src/lib.rs", "mod abi; mod errno; mod flags; mod layout; mod table;"),
            (
                "crates/syscalls/src/abi.rs",
                "pub const AT_FDCWD: i32 = -100; pub mod seek { pub const END: u32 = 2; }",
            ),
            ("crates/syscalls/src/errno.rs", errors),
            ("crates/syscalls/src/flags.rs", FLAGS),
            ("crates/syscalls/src/layout.rs", LAYOUTS),
            ("crates/syscalls/src/table.rs", "mod file; static NOTE: &str = \"no name\";"),
            ("crates/syscalls/src/table/file.rs", ROWS),
        ])
    }

    #[test]
    fn words_of_the_table() {
        let words = small();
        assert_eq!(words.calls.iter().collect::<Vec<_>>(), ["fcntl", "openat"]);
        let parts = ["dirfd", "fcntl", "fd", "flags", "openat", "pathname", "st_size", "stat"];
        assert_eq!(words.parts.iter().collect::<Vec<_>>(), parts);
        let constants = ["AT_FDCWD", "ENOENT", "O_", "O_CREAT", "O_WRONLY"];
        assert_eq!(words.constants.iter().collect::<Vec<_>>(), constants);
        assert_eq!(words.values["O_CREAT"], 0o100);
        assert!(words.has_alone("st_size") && words.has("flags") && !words.has_alone("flags"));
        assert!(words.has_with("st_") && words.has_call_with("at") && !words.has_call_with("st_"));
    }

    #[test]
    fn a_table_that_is_not_found() {
        assert!(Words::read(&table("")).is_err());
    }
}
