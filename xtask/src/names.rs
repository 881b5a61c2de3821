//! One name for one thing: no two types that a whole crate may use have one name.

use crate::files;
use std::collections::BTreeMap;
use std::path::Path;
use syn::{Item, Visibility};

pub(crate) fn check(root: &Path) -> Vec<String> {
    let Ok(crates) = std::fs::read_dir(root.join("crates")) else { return Vec::new() };
    let mut faults = Vec::new();
    for folder in crates.flatten().map(|entry| entry.path()) {
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        for path in files(&folder.join("src"), "rs") {
            let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let Ok(parsed) = syn::parse_file(&text) else { continue };
            for name in parsed.items.iter().filter_map(public_type) {
                if let Some(first) = known.insert(name.clone(), file.clone()) {
                    faults.push(format!("{file} and {first} both have a type {name}"));
                }
            }
        }
    }
    faults
}

fn public_type(item: &Item) -> Option<String> {
    let (visibility, name) = match item {
        Item::Struct(item) => (&item.vis, &item.ident),
        Item::Enum(item) => (&item.vis, &item.ident),
        Item::Trait(item) => (&item.vis, &item.ident),
        Item::Type(item) => (&item.vis, &item.ident),
        _ => return None,
    };
    let is_public = match visibility {
        Visibility::Public(_) => true,
        Visibility::Restricted(to) => to.path.is_ident("crate"),
        Visibility::Inherited => false,
    };
    is_public.then(|| name.to_string())
}
