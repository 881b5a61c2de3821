//! Inside a crate: a room uses rooms below it alone, and no more than a few files need one another.
//! Knows paths in Rust sources; refuses to know what is at them. Tests and re-exports count as nobody's use.

use crate::{files, short};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::visit::{self, Visit};

/// The rooms of the engine from the ground up; files at its root that are not named are the top.
const ENGINE: &[&str] = &[
    "error",
    "collections",
    "packet",
    "encap",
    "vector",
    "tables",
    "account",
    "stage",
    "state",
    "action",
    "transit",
    "stages",
    "fast_path",
    "offload",
    "observe",
    "config",
    TOP,
    "rehearsal",
];
const TOP: &str = "(the engine itself)";
/// Folders with the path of their module, in which files must not need one another in large circles.
const FOLDERS: &[(&str, &[&str])] = &[
    ("crates/dataplane/src/engine", &["engine"]),
    ("crates/controller/src/northbound", &["northbound"]),
];
/// Files of one circle, at most.
const CIRCLE_MAX: usize = 3;

pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for (folder, module) in FOLDERS {
        let uses = Uses::of(&root.join(folder), module);
        if *module == ["engine"] {
            faults.extend(uses.upward(root));
        }
        faults.extend(uses.circles().iter().map(|circle| {
            let names = circle.iter().map(|file| file.join("/")).collect::<Vec<_>>().join(", ");
            format!(
                "{folder}: {} files need one another, more than {CIRCLE_MAX}: {names}",
                circle.len()
            )
        }));
    }
    faults
}

/// A module below a folder, by the parts of its path; the folder's own: none.
type Module = Vec<String>;

/// Which modules use which.
struct Uses {
    of: BTreeMap<Module, BTreeSet<Module>>,
    files: BTreeMap<Module, std::path::PathBuf>,
}

impl Uses {
    fn of(folder: &Path, own: &[&str]) -> Self {
        let sources = files(folder, "rs").into_iter().filter(|path| {
            let names = path.components().map(|part| part.as_os_str().to_string_lossy());
            !names.into_iter().any(|name| name == "tests.rs" || name == "tests")
        });
        let files: BTreeMap<Module, _> =
            sources.map(|path| (module_of(folder, &path), path)).collect();
        let mut of = BTreeMap::new();
        for (module, path) in &files {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let Ok(parsed) = syn::parse_file(&text) else { continue };
            let mut reader = Reader { module, own, files: &files, found: BTreeSet::new() };
            reader.visit_file(&parsed);
            reader.found.remove(module);
            of.insert(module.clone(), reader.found);
        }
        Self { of, files }
    }

    fn upward(&self, root: &Path) -> Vec<String> {
        let level = |module: &Module| {
            let room = module.first().map_or(TOP, String::as_str);
            let at = |name: &str| ENGINE.iter().position(|known| *known == name);
            at(room).or_else(|| at(TOP)).unwrap_or_default()
        };
        let all =
            self.of.iter().flat_map(|(module, used)| used.iter().map(move |used| (module, used)));
        let upward = all.filter(|(module, used)| level(used) > level(module));
        let told = upward.map(|(module, used)| {
            let file = self.files.get(module).map(|path| short(root, path)).unwrap_or_default();
            let (room, above) = (ENGINE[level(module)], used.join("::"));
            format!("{file} in {room} uses {above}, which is above it (xtask/src/rooms.rs)")
        });
        told.collect()
    }

    /// Circles of too many files: sets in which each leads to each.
    fn circles(&self) -> Vec<BTreeSet<&Module>> {
        let reach: BTreeMap<&Module, BTreeSet<&Module>> =
            self.of.keys().map(|module| (module, self.reached(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, reached) in &reach {
            let back = reached
                .iter()
                .filter(|other| reach.get(*other).is_some_and(|of| of.contains(module)));
            let circle: BTreeSet<&Module> = back.copied().collect();
            if circle.len() > CIRCLE_MAX {
                circles.insert(circle);
            }
        }
        circles.into_iter().collect()
    }

    fn reached(&self, from: &Module) -> BTreeSet<&Module> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<&Module> = self.of.get(from).into_iter().flatten().collect();
        while let Some(module) = open.pop() {
            if reached.insert(module) {
                open.extend(self.of.get(module).into_iter().flatten());
            }
        }
        reached
    }
}

fn module_of(folder: &Path, path: &Path) -> Module {
    let inside = path.strip_prefix(folder).unwrap_or(path).with_extension("");
    let mut parts: Module =
        inside.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    parts.pop_if(|last| last == "mod");
    parts
}

/// Reads the paths of one file.
struct Reader<'f> {
    module: &'f Module,
    own: &'f [&'f str],
    files: &'f BTreeMap<Module, std::path::PathBuf>,
    found: BTreeSet<Module>,
}

impl Reader<'_> {
    fn uses(&mut self, path: &[String]) {
        let mut rest = path;
        let mut base: Module = match rest.first().map(String::as_str) {
            Some("crate") => {
                let inside = rest.get(1..).unwrap_or_default();
                let is_own = inside.iter().zip(self.own).all(|(part, own)| part == own);
                if !is_own || inside.len() < self.own.len() {
                    return;
                }
                rest = inside.get(self.own.len()..).unwrap_or_default();
                Module::new()
            }
            Some("super" | "self") => self.module.clone(),
            // A child, if it is one.
            Some(child) if self.files.contains_key(&joined(self.module, child)) => {
                self.module.clone()
            }
            _ => return,
        };
        while let Some(part @ ("super" | "self")) = rest.first().map(String::as_str) {
            if part == "super" && base.pop().is_none() {
                return;
            }
            rest = rest.get(1..).unwrap_or_default();
        }
        for part in rest {
            let next = joined(&base, part);
            if !self.files.contains_key(&next) {
                break;
            }
            base = next;
        }
        if self.files.contains_key(&base) {
            self.found.insert(base);
        }
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                self.tree(&joined(before, &path.ident.to_string()), &path.tree);
            }
            syn::UseTree::Name(name) => self.uses(&joined(before, &name.ident.to_string())),
            syn::UseTree::Rename(name) => self.uses(&joined(before, &name.ident.to_string())),
            syn::UseTree::Glob(_) => self.uses(before),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(before, tree));
            }
        }
    }
}

fn joined(before: &[String], part: &str) -> Module {
    before.iter().cloned().chain([part.to_owned()]).collect()
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if matches!(item.vis, syn::Visibility::Inherited) {
            self.tree(&[], &item.tree);
        }
    }

    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        // Those in the file are its tests.
        if item.content.is_none() {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Module = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if matches!(parts.first().map(String::as_str), Some("crate" | "super")) {
            self.uses(&parts);
        }
        visit::visit_path(self, path);
    }
}
