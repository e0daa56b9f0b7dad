//! Import circles: files of one crate that depend on each other.
//!
//! A module is a file. File A depends on file B if A names an item of B: in a `use`, or by a path. A re-export
//! (`pub use`) is not a dependency of its file: a name that goes through re-exports belongs to the file that defines
//! it. A file may use its ancestors: `foo/bar.rs` the items of `foo.rs` and of `lib.rs`; such an edge is ignored,
//! because a module and its submodules are one unit with the parent on top. The opposite edge, from a parent to its
//! submodule, counts. Code of tests is ignored. A circle is a strongly connected component of two files or more.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{
    finding::Finding,
    rust_file::{ItemPath, RustFile},
};
use crate::{file, workspace::shown};

/// Limit of re-exports that are followed for one name.
const MAX_REEXPORTS: usize = 8;

/// The files of a crate: its root and all `mod` declarations from there.
#[derive(Debug)]
pub(super) struct CrateFiles {
    pub(super) modules: BTreeMap<Vec<String>, Module>,
}

#[derive(Debug)]
pub(super) struct Module {
    /// The path relative to the top of the repository.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) file: RustFile,
}

/// The items that one file uses from another.
type Edges<'a> = BTreeMap<(&'a [String], &'a [String]), BTreeSet<String>>;

impl CrateFiles {
    pub(super) fn load(root: &Path) -> Result<Self> {
        let mut modules = BTreeMap::new();
        let folder = root.parent().context("a crate's root has no folder")?;
        let mut pending = vec![(Vec::new(), root.to_owned())];
        while let Some((name, path)) = pending.pop() {
            let text = file::read(&path)?;
            let file = RustFile::parse(&text).with_context(|| shown(&path))?;
            for child in &file.modules {
                let name = [&name[..], std::slice::from_ref(child)].concat();
                let path = name.iter().collect::<PathBuf>().with_extension("rs");
                pending.push((name, folder.join(path)));
            }
            let path = shown(&path);
            modules.insert(name, Module { path, text, file });
        }
        Ok(Self { modules })
    }

    /// One finding for each circle, at its first file.
    pub(super) fn circles(&self) -> Vec<Finding> {
        let edges = self.edges();
        components(&edges)
            .into_iter()
            .map(|circle| self.finding(&circle, &edges))
            .collect()
    }

    fn finding(&self, circle: &BTreeSet<&[String]>, edges: &Edges<'_>) -> Finding {
        let ties: Vec<String> = edges
            .iter()
            .filter(|((from, to), _)| circle.contains(from) && circle.contains(to))
            .map(|((from, to), items)| {
                let items: Vec<&str> = items.iter().map(String::as_str).collect();
                let (from, to) = (&self.modules[*from].path, &self.modules[*to].path);
                format!("\n    {from} -> {to}: {}", items.join(", "))
            })
            .collect();
        let first = circle.first().map_or("", |name| &self.modules[*name].path);
        let message = format!(
            "import circle of {} files; move what both sides need to a file of its own{}",
            circle.len(),
            ties.concat()
        );
        Finding::error(first, 1, "circle", message)
    }

    fn edges(&self) -> Edges<'_> {
        let mut edges = Edges::new();
        for (from, module) in &self.modules {
            let imports = module.file.imports.iter();
            let imports = imports.filter(|import| !import.is_reexport);
            let paths = imports.map(|import| &import.path).chain(&module.file.paths);
            for path in paths {
                let Some((to, item)) = self.definition(from, path) else {
                    continue;
                };
                if !from.starts_with(to) {
                    edges.entry((from, to)).or_default().insert(item);
                }
            }
        }
        edges
    }

    /// The file that defines what `path` names in the module `from`, and the item's name. None for modules and for
    /// names of other crates.
    fn definition(&self, from: &[String], path: &ItemPath) -> Option<(&[String], String)> {
        let absolute = self.absolute(from, path, MAX_REEXPORTS)?;
        self.follow(&absolute, MAX_REEXPORTS)
    }

    /// The path from the crate's root.
    fn absolute(&self, from: &[String], path: &ItemPath, left: usize) -> Option<Vec<String>> {
        let mut place = [from, &path.within].concat();
        let mut segments = &path.segments[..];
        match segments.first()?.as_str() {
            "crate" => {
                place.clear();
                segments = &segments[1..];
            }
            "self" => segments = &segments[1..],
            "super" => {}
            first => {
                let file = &self.modules.get(from)?.file;
                let is_here = file.modules.iter().any(|module| module == first);
                if !is_here {
                    let import = file
                        .imports
                        .iter()
                        .find(|import| import.name == first && import.path.segments[0] != first)?;
                    let base = self.absolute(from, &import.path, left.checked_sub(1)?)?;
                    return Some([&base[..], &segments[1..]].concat());
                }
            }
        }
        while segments.first().is_some_and(|segment| segment == "super") {
            place.pop()?;
            segments = &segments[1..];
        }
        place.extend_from_slice(segments);
        Some(place)
    }

    fn has_item(&self, module: &[String], name: &str) -> bool {
        self.modules.get(module).is_some_and(|Module { file, .. }| {
            file.items.contains(name) || file.imports.iter().any(|import| import.name == name)
        })
    }

    fn follow(&self, path: &[String], left: usize) -> Option<(&[String], String)> {
        let length = (0..=path.len())
            .rev()
            .find(|length| self.modules.contains_key(&path[..*length]))?;
        // A module may have the same name as an item of its parent.
        let parent = length.checked_sub(1).filter(|_| length == path.len());
        let length = match parent {
            Some(parent) if self.has_item(&path[..parent], &path[parent]) => parent,
            _ => length,
        };
        let (place, module) = self.modules.get_key_value(&path[..length])?;
        let (item, rest) = path[length..].split_first()?;
        if item == "*" || module.file.items.contains(item) || left == 0 {
            return Some((place, item.clone()));
        }
        let imports = &module.file.imports;
        let direct = imports.iter().filter(|import| import.name == *item);
        let globs = imports.iter().filter(|import| import.name == "*");
        direct
            .chain(globs)
            .find_map(|import| {
                let mut target = self.absolute(place, &import.path, left)?;
                if import.name == "*" {
                    target.pop();
                    target.push(item.clone());
                }
                target.extend_from_slice(rest);
                let found = self.follow(&target, left - 1)?;
                (import.name != "*" || self.modules[found.0].file.items.contains(&found.1))
                    .then_some(found)
            })
            .or_else(|| Some((place, item.clone())))
    }
}

/// The strongly connected components of two files or more.
fn components<'a>(edges: &Edges<'a>) -> Vec<BTreeSet<&'a [String]>> {
    let names: BTreeSet<&[String]> = edges.keys().map(|(from, _)| *from).collect();
    let reached: BTreeMap<&[String], BTreeSet<&[String]>> = names
        .into_iter()
        .map(|name| (name, reachable(name, edges)))
        .collect();
    let reaches = |from: &[String], to| reached.get(from).is_some_and(|below| below.contains(to));
    let mut found: BTreeSet<BTreeSet<&[String]>> = reached
        .iter()
        .map(|(name, below)| {
            let mutual = below.iter().filter(|other| reaches(other, name));
            mutual.copied().collect()
        })
        .collect();
    found.remove(&BTreeSet::new());
    found.into_iter().collect()
}

fn reachable<'a>(from: &'a [String], edges: &Edges<'a>) -> BTreeSet<&'a [String]> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![from];
    while let Some(name) = pending.pop() {
        let next = edges.keys().filter(|(from, _)| *from == name);
        pending.extend(next.map(|(_, to)| *to).filter(|to| reached.insert(*to)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let modules = files.iter().map(|(name, text)| {
            let module = Module {
                path: format!("{name}.rs"),
                text: String::new(),
                file: RustFile::parse(text).unwrap(),
            };
            let name = name.split('/').filter(|part| *part != "lib");
            (name.map(str::to_owned).collect(), module)
        });
        let files = CrateFiles {
            modules: modules.collect(),
        };
        components(&files.edges())
            .iter()
            .map(|circle| circle.iter().map(|name| name.join("/")).collect())
            .collect()
    }

    #[test]
    fn siblings_that_need_each_other_are_a_circle() {
        let lib = ("lib", "mod a;\nmod b;");
        let found = circles(&[
            lib,
            ("a", "use crate::b::B;\npub struct A(B);"),
            ("b", "pub struct B;\nfn b() { super::a::A; }"),
        ]);
        assert_eq!(found, [["a", "b"]]);
        let one_way = [lib, ("a", "use crate::b::B;"), ("b", "pub struct B;")];
        assert!(circles(&one_way).is_empty());
    }

    #[test]
    fn parent_and_submodule_are_one_unit() {
        let lib = ("lib", "mod a;\nmod c;");
        let a = ("a", "mod b;\nuse self::b::B;\npub struct A(B);");
        let child = ("a/b", "use super::A;\npub struct B;");
        assert!(circles(&[lib, a, child, ("c", "")]).is_empty());
        // The submodule depends on a file that depends on the submodule's parent.
        let child = ("a/b", "use crate::c::C;\npub struct B;");
        let c = ("c", "use crate::a::A;\npub struct C(A);");
        assert_eq!(circles(&[lib, a, child, c]), [["a", "a/b", "c"]]);
    }

    #[test]
    fn reexported_names_belong_to_the_file_that_defines_them() {
        let lib = ("lib", "mod a;\nmod c;");
        let facade = ("a", "mod b;\nmod d;\npub use b::*;\npub use d::D;");
        let b = ("a/b", "pub struct B;");
        let d = ("a/d", "use crate::c::C;\npub struct D(C);");
        let c = ("c", "use crate::a::B;\npub struct C(B);");
        assert!(circles(&[lib, facade, b, d, c]).is_empty());
        let c = ("c", "use crate::a;\npub struct C;\nfn c() { a::D; }");
        assert_eq!(circles(&[lib, facade, b, d, c]), [["a/d", "c"]]);
    }
}
