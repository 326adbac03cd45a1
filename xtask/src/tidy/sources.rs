//! The Rust sources of the crates as syntax trees: what is built into the product, without tests.

mod plain;

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use syn::visit_mut::VisitMut;
use syn::{Expr, Item, Lit, LitStr};

use super::Files;
use crate::Complaint;

/// Crates that are tests alone.
const TESTS: &str = "crates/acceptance";

/// A file that the root of a crate leads to by `mod`.
pub struct Source {
    /// From the root of the repository.
    pub path: PathBuf,
    /// The root of its crate, as `crates/model/src/lib.rs`.
    pub root: PathBuf,
    /// Names of the modules from the root of the crate to this file.
    pub module: Vec<String>,
    /// What the file has, made plain: see [`plain::Plain`].
    pub items: Vec<Item>,
}

impl Source {
    /// Returns whether the file belongs to a crate, by the name of its folder.
    pub fn is_of(&self, krate: &str) -> bool {
        self.path.starts_with(Path::new("crates").join(krate))
    }
}

/// Something that a rule forbids.
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// What is there.
    pub what: String,
}

impl Display for Finding {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// Reads the sources of all crates of the product.
pub fn read(files: &Files) -> Result<Vec<Source>, Complaint> {
    let mut sources = Vec::new();
    for root in files.keys().filter(|path| is_root(path)) {
        let mut reader = Reader { files, root, sources: &mut sources };
        reader.file(root, Vec::new())?;
    }
    Ok(sources)
}

fn is_root(path: &Path) -> bool {
    let inside: Vec<_> = path.iter().skip(2).collect();
    path.starts_with("crates")
        && !path.starts_with(TESTS)
        && (inside == ["src", "lib.rs"] || inside == ["src", "main.rs"] || inside == ["build.rs"])
}

struct Reader<'a> {
    files: &'a Files,
    root: &'a Path,
    sources: &'a mut Vec<Source>,
}

impl Reader<'_> {
    /// Reads a file and those that its modules are in.
    fn file(&mut self, path: &Path, module: Vec<String>) -> Result<(), Complaint> {
        let text = self.files.get(path).map(String::as_str).unwrap_or_default();
        let mut parsed = syn::parse_file(text).map_err(|error| {
            format!("{}:{}: {error}", path.display(), error.span().start().line)
        })?;
        plain::Plain.visit_file_mut(&mut parsed);
        let is_folder = path == self.root || path.ends_with("mod.rs");
        let folder = if is_folder { path.parent().map(Path::to_path_buf) } else { None };
        self.modules(&parsed.items, &folder.unwrap_or(path.with_extension("")), &module)?;
        let root = self.root.to_path_buf();
        self.sources.push(Source { path: path.to_path_buf(), root, module, items: parsed.items });
        Ok(())
    }

    /// Reads the files of modules that are declared here.
    fn modules(&mut self, items: &[Item], dir: &Path, module: &[String]) -> Result<(), Complaint> {
        for item in items {
            let Item::Mod(declared) = item else { continue };
            let name = declared.ident.to_string();
            let inner = [module, std::slice::from_ref(&name)].concat();
            if let Some((_, items)) = &declared.content {
                self.modules(items, &dir.join(&name), &inner)?;
                continue;
            }
            let places = [dir.join(format!("{name}.rs")), dir.join(&name).join("mod.rs")];
            if let Some(path) = places.iter().find(|path| self.files.contains_key(*path)) {
                self.file(path, inner)?;
            }
        }
        Ok(())
    }
}

/// Removes what does not change which value is meant: references, parentheses, conversions.
pub fn bare(expr: &Expr) -> &Expr {
    const SAME: &[&str] = &["as_ref", "as_str", "as_deref", "deref", "clone", "copied", "borrow"];
    match expr {
        Expr::Reference(inner) => bare(&inner.expr),
        Expr::Unary(inner) if matches!(inner.op, syn::UnOp::Deref(_)) => bare(&inner.expr),
        Expr::Paren(inner) => bare(&inner.expr),
        Expr::Group(inner) => bare(&inner.expr),
        Expr::Cast(inner) => bare(&inner.expr),
        Expr::MethodCall(call) if SAME.iter().any(|name| call.method == name) => {
            bare(&call.receiver)
        }
        Expr::Index(index) if matches!(*index.index, Expr::Range(_)) => bare(&index.expr),
        _ => expr,
    }
}

/// Returns the string that an expression is, or wraps: `"a"`, `Some("a")`.
pub fn text(expr: &Expr) -> Option<&LitStr> {
    match bare(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text),
            _ => None,
        },
        Expr::Call(call) if call.args.len() == 1 => text(&call.args[0]),
        _ => None,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Reads one text as a file of the crate `model`.
    pub fn of_model(text: &str) -> Vec<Source> {
        sources(&[("crates/model/src/lib.rs", text)])
    }

    /// Reads texts as files.
    pub fn sources(files: &[(&str, &str)]) -> Vec<Source> {
        let files = files.iter().map(|(path, text)| (PathBuf::from(path), text.to_string()));
        read(&files.collect()).unwrap()
    }

    #[test]
    fn files_that_modules_lead_to_without_tests() {
        let found = sources(&[
            ("crates/a/src/lib.rs", "mod one; #[cfg(test)] mod tests; mod inside { mod deep; }"),
            ("crates/a/src/one.rs", "mod two;"),
            ("crates/a/src/one/two.rs", "fn f() {} #[cfg(test)] mod tests { fn g() {} }"),
            ("crates/a/src/tests.rs", "this is not read"),
            ("crates/a/src/inside/deep.rs", ""),
            ("crates/a/src/left.rs", ""),
            ("crates/a/build.rs", "fn main() {}"),
            ("crates/acceptance/src/lib.rs", ""),
        ]);
        let mut paths: Vec<_> = found.iter().map(|source| source.path.to_str().unwrap()).collect();
        paths.sort();
        let wanted =
            ["build.rs", "src/inside/deep.rs", "src/lib.rs", "src/one.rs", "src/one/two.rs"];
        assert_eq!(paths, wanted.map(|path| format!("crates/a/{path}")));
        let two = found.iter().find(|source| source.path.ends_with("two.rs")).unwrap();
        assert_eq!((two.items.len(), two.module.join("::").as_str()), (1, "one::two"));
    }

    #[test]
    fn a_file_that_does_not_parse() {
        let files = [("crates/a/src/lib.rs", "fn f() {}\nfn ;")];
        let files = files.map(|(path, text)| (PathBuf::from(path), text.to_string()));
        let error = read(&files.into()).err().unwrap();
        assert!(error.starts_with("crates/a/src/lib.rs:2: "), "{error}");
    }
}
