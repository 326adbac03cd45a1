//! Files of a crate depend on each other one way: no file uses one that uses it, however far round.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use super::scopes::{Crate, Module};
use super::sources::Source;

/// One file uses something of another.
pub struct Use {
    /// Who uses it.
    pub from: PathBuf,
    /// The line.
    pub line: usize,
    /// Where it is.
    pub to: PathBuf,
}

/// Files each of which leads to all others.
pub struct Cycle {
    /// In alphabetical order.
    pub files: BTreeSet<PathBuf>,
    /// Uses among them.
    pub uses: Vec<Use>,
}

impl Display for Cycle {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        for one in &self.uses {
            let (from, used) = (one.from.display(), one.to.display());
            writeln!(to, "{from}:{} uses {used}", one.line)?;
        }
        write!(to, "these files lead to each other; move what both need into a file of its own:")?;
        self.files.iter().try_for_each(|file| write!(to, "\n  {}", file.display()))
    }
}

/// Finds the cycles of all crates.
pub fn all(sources: &[Source]) -> Vec<Cycle> {
    let roots: BTreeSet<&Path> = sources.iter().map(|source| source.root.as_path()).collect();
    let mut found = Vec::new();
    for root in roots {
        let files = sources.iter().filter(|source| source.root == root);
        found.extend(of_uses(uses(&Crate::read(files))));
    }
    found
}

/// Which file uses which. A module that passes on what its own modules have (`pub use`) does not
/// use it, unless it also names it.
fn uses(krate: &Crate) -> Vec<Use> {
    let mut found = Vec::new();
    for (at, module) in &krate.modules {
        let mut add = |path: &[String], line: usize| {
            let Some(target) = krate.resolve(at, path) else { return };
            let (from, to) = (module.file.clone(), krate.modules[&target].file.clone());
            if from != to {
                found.push(Use { from, line, to });
            }
        };
        for import in &module.imports {
            let target = krate.resolve(at, &import.path);
            let is_own = target.is_some_and(|target| target.starts_with(at));
            if !(import.is_public && is_own) {
                add(&import.path, import.line);
            }
        }
        for (path, line) in &module.paths {
            if path.len() > 1 || passes_on(module, &path[0]) {
                add(path, *line);
            }
        }
    }
    found
}

fn passes_on(module: &Module, name: &str) -> bool {
    module.imports.iter().any(|import| import.is_public && import.name.as_deref() == Some(name))
}

/// Groups of files that lead to each other.
fn of_uses(uses: Vec<Use>) -> Vec<Cycle> {
    let mut next: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    for Use { from, to, .. } in &uses {
        next.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        next.keys().map(|file| (*file, reach(file, &next))).collect();
    let leads = |from: &Path, to: &Path| reached.get(from).is_some_and(|all| all.contains(to));
    let group = |file: &&Path| -> BTreeSet<PathBuf> {
        let mutual = reached[file].iter().filter(|other| leads(other, file));
        mutual.map(|other| other.to_path_buf()).collect()
    };
    let groups: BTreeSet<BTreeSet<PathBuf>> = next.keys().map(group).collect();
    let mut cycles: Vec<Cycle> = groups
        .into_iter()
        .filter(|files| files.len() > 1)
        .map(|files| Cycle { files, uses: Vec::new() })
        .collect();
    for one in uses {
        let inside =
            |cycle: &&mut Cycle| cycle.files.contains(&one.from) && cycle.files.contains(&one.to);
        if let Some(cycle) = cycles.iter_mut().find(inside) {
            cycle.uses.push(one);
        }
    }
    cycles
}

/// All files that one leads to.
fn reach<'a>(from: &'a Path, next: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> BTreeSet<&'a Path> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        let more = next.get(file).into_iter().flatten();
        open.extend(more.filter(|file| found.insert(**file)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::sources::tests::sources;
    use super::*;

    /// The cycle of a crate with these texts in `lib.rs`, `a.rs`, `a/b.rs` and `c.rs`.
    fn cycle(lib: &str, a: &str, b: &str, c: &str) -> String {
        let found = all(&sources(&[
            ("crates/x/src/lib.rs", &format!("pub mod a; mod c; {lib}")),
            ("crates/x/src/a.rs", &format!("pub mod b; {a}")),
            ("crates/x/src/a/b.rs", b),
            ("crates/x/src/c.rs", c),
        ]));
        let names = |cycle: &Cycle| {
            let names = cycle.files.iter().map(|path| path.file_stem().unwrap().to_string_lossy());
            names.collect::<Vec<_>>().join(" ")
        };
        found.iter().map(names).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn files_that_lead_to_each_other() {
        let child = "use super::A; pub struct B; fn f() {}";
        assert_eq!(cycle("", "pub struct A; use b::B;", child, ""), "b a", "a `use`");
        assert_eq!(cycle("", "pub struct A; fn g() { b::f() }", child, ""), "b a", "a path");
        assert_eq!(cycle("", "pub struct A; fn g(b: &self::b::B) {}", child, ""), "b a", "a type");
        assert_eq!(cycle("", "pub struct A; fn g() { vec![b::f()] }", child, ""), "b a", "a macro");
        let passed = "pub struct A; pub use b::B; fn g() -> B {}";
        assert_eq!(cycle("", passed, child, ""), "b a", "passed on and used");
        let round = ("use crate::c::C; pub struct A;", "use crate::a::A;");
        assert_eq!(cycle("", round.0, "", &format!("{} pub struct C;", round.1)), "a c");
        assert_eq!(
            cycle("", "use crate::c::C;", "pub struct B;", "use crate::a::b::B; pub struct C; "),
            ""
        );
    }

    #[test]
    fn what_is_passed_on() {
        assert_eq!(cycle("", "pub struct A; pub use b::B;", "use super::A; pub struct B;", ""), "");
        assert_eq!(cycle("", "pub struct A;", "use super::A;", "use crate::a::A;"), "");
        // A name of the root leads to the file that has it.
        let through = "pub use c::C;";
        assert_eq!(cycle(through, "use crate::C; pub struct A;", "", "pub struct C;"), "");
        assert_eq!(
            cycle(through, "use crate::C; pub struct A;", "", "use crate::a::A; pub struct C;"),
            "a c"
        );
        let globs = ("pub use c::*;", "use crate::*; pub struct A; fn f(c: crate::C) {}");
        assert_eq!(cycle(globs.0, globs.1, "", "use crate::a::A; pub struct C;"), "a c");
        assert_eq!(cycle("pub use b::B as C;", "", "", "use crate::C;"), "", "not to be found");
    }

    #[test]
    fn lines_and_tests() {
        let tests = "#[cfg(test)] mod tests { use super::super::A; }";
        assert_eq!(cycle("", "pub struct A; use b::B;", &format!("pub struct B; {tests}"), ""), "");
        let found = all(&sources(&[
            ("crates/x/src/lib.rs", "mod a;\npub struct X;\nuse a::{\n  A,\n};"),
            ("crates/x/src/a.rs", "\nuse super::X;"),
        ]));
        let mut uses: Vec<_> =
            found[0].uses.iter().map(|one| (one.from.ends_with("lib.rs"), one.line)).collect();
        uses.sort();
        assert_eq!(uses, [(false, 2), (true, 4)]);
    }
}
