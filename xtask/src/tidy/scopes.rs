//! The modules of a crate, and which of them a path means.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use syn::visit::{self, Visit};
use syn::{Item, UseTree, Visibility};

use super::sources::Source;

/// The names of a module, from the root of its crate.
type Names = Vec<String>;

/// Most imports that a path is followed through.
const IMPORTS_MAX: usize = 16;

/// A crate.
#[derive(Default)]
pub struct Crate {
    /// All modules, those within files too.
    pub modules: BTreeMap<Names, Module>,
}

/// A module.
#[derive(Default)]
pub struct Module {
    /// The file that it is in.
    pub file: PathBuf,
    /// Names that it defines.
    items: BTreeSet<String>,
    /// What it imports.
    pub imports: Vec<Import>,
    /// Paths in its expressions, types and patterns, with their lines.
    pub paths: Vec<(Vec<String>, usize)>,
}

/// One name of a `use`.
pub struct Import {
    /// The name here; none if it stands for all names.
    pub name: Option<String>,
    /// What it means.
    pub path: Vec<String>,
    /// The line.
    pub line: usize,
    /// Other modules see it here.
    pub is_public: bool,
}

impl Crate {
    /// Collects the modules of a crate's files.
    pub fn read<'a>(files: impl Iterator<Item = &'a Source>) -> Crate {
        let mut krate = Crate::default();
        for source in files {
            krate.add(source.module.clone(), source.path.clone(), &source.items);
        }
        krate
    }

    fn add(&mut self, at: Names, file: PathBuf, items: &[Item]) {
        let mut module = Module { file: file.clone(), ..Module::default() };
        for item in items {
            module.items.extend(name(item));
            match item {
                Item::Mod(inner) => {
                    if let Some((_, items)) = &inner.content {
                        let inner = [at.clone(), vec![inner.ident.to_string()]].concat();
                        self.add(inner, file.clone(), items);
                    }
                }
                item => module.visit_item(item),
            }
        }
        self.modules.insert(at, module);
    }

    /// Returns the module that has what a path in another one means, or none if it is of another
    /// crate or of no module.
    pub fn resolve(&self, from: &[String], path: &[String]) -> Option<Names> {
        self.follow(from, path, IMPORTS_MAX)
    }

    fn follow(&self, from: &[String], path: &[String], imports_left: usize) -> Option<Names> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.within(Vec::new(), rest, imports_left),
            "self" => self.within(from.to_vec(), rest, imports_left),
            "super" => self.within(from.split_last()?.1.to_vec(), rest, imports_left),
            first if self.knows(from, first, imports_left) => {
                self.within(from.to_vec(), path, imports_left)
            }
            _ => None,
        }
    }

    /// Like `resolve`, for a path whose first name is one of this module.
    fn within(&self, at: Names, path: &[String], imports_left: usize) -> Option<Names> {
        let module = self.modules.get(&at)?;
        let Some((first, rest)) = path.split_first() else { return Some(at) };
        if first == "super" {
            return self.within(at.split_last()?.1.to_vec(), rest, imports_left);
        }
        let inner = [at.as_slice(), std::slice::from_ref(first)].concat();
        if self.modules.contains_key(&inner) {
            return self.within(inner, rest, imports_left);
        }
        if module.items.contains(first) || imports_left == 0 {
            return Some(at);
        }
        let named = |import: &&Import| import.name.as_ref() == Some(first);
        if let Some(import) = module.imports.iter().find(named) {
            let whole = [import.path.as_slice(), rest].concat();
            return self.follow(&at, &whole, imports_left - 1).or(Some(at));
        }
        let all = module.imports.iter().filter(|import| import.name.is_none());
        let mut targets = all.filter_map(|import| self.follow(&at, &import.path, imports_left - 1));
        match targets.find(|target| *target != at && self.knows(target, first, imports_left - 1)) {
            Some(target) => self.within(target, path, imports_left - 1),
            None => Some(at),
        }
    }

    /// Returns whether a module has a name.
    fn knows(&self, at: &[String], name: &str, imports_left: usize) -> bool {
        let Some(module) = self.modules.get(at) else { return false };
        let inner = [at, &[name.to_string()]].concat();
        let named = |import: &Import| import.name.as_deref() == Some(name);
        module.items.contains(name)
            || self.modules.contains_key(&inner)
            || module.imports.iter().any(named)
            || imports_left > 0
                && module.imports.iter().filter(|import| import.name.is_none()).any(|import| {
                    let target = self.follow(at, &import.path, imports_left - 1);
                    target.is_some_and(|target| {
                        target != at && self.knows(&target, name, imports_left - 1)
                    })
                })
    }
}

fn name(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

impl<'ast> Visit<'ast> for Module {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_macro(&mut self, _: &'ast syn::Macro) {}

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        self.import(&item.tree, Vec::new(), is_public);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let line = path.segments.first().map_or(0, |first| first.ident.span().start().line);
        if path.leading_colon.is_none() && !names.is_empty() {
            self.paths.push((names, line));
        }
        visit::visit_path(self, path);
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, mut path: Vec<String>, is_public: bool) {
        let (ident, name) = match tree {
            UseTree::Path(inner) => {
                path.push(inner.ident.to_string());
                return self.import(&inner.tree, path, is_public);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, path.clone(), is_public);
                }
                return;
            }
            UseTree::Name(one) => (Some(&one.ident), Some(&one.ident)),
            UseTree::Rename(one) => (Some(&one.ident), Some(&one.rename)),
            UseTree::Glob(_) => (None, None),
        };
        let line = match tree {
            UseTree::Glob(glob) => glob.star_token.span.start().line,
            _ => ident.map_or(0, |ident| ident.span().start().line),
        };
        let mut name = name.map(|name| name.to_string());
        match ident {
            Some(ident) if ident == "self" => {
                name = name.filter(|name| name != "self").or(path.last().cloned());
            }
            Some(ident) => path.push(ident.to_string()),
            None => {}
        }
        self.imports.push(Import { name, path, line, is_public });
    }
}
