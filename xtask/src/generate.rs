//! Files that are made from the code, so that they cannot say something else: pages of the book,
//! and the C header of the kernel's fast path.

use catena_model::DropReason;
use catena_model::account::Created;
use catena_model::classifier::FIELDS;
use catena_model::limits::LIMITS;
use std::fmt::Write as _;
use std::path::Path;

fn pages() -> Vec<(&'static str, String)> {
    vec![
        ("docs/book/src/reference/drop-reasons.md", drop_reasons()),
        ("docs/book/src/reference/limits.md", limits()),
        ("docs/book/src/reference/classifier-fields.md", classifier_fields()),
        ("crates/fastpath/bpf/transform.h", catena_fastpath::header()),
    ]
}

/// Writes the files that say something else than the code: what is unchanged is not built anew.
pub(crate) fn write(root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, text) in pages().into_iter().filter(|page| is_stale(root, page)) {
        let path = root.join(name);
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        if let Err(error) = folder.and_then(|()| std::fs::write(&path, text)) {
            faults.push(format!("{name} cannot be written: {error}"));
        }
    }
    faults
}

pub(crate) fn check(root: &Path) -> Vec<String> {
    let pages = pages();
    let stale = pages.iter().filter(|page| is_stale(root, page));
    stale.map(|(name, _)| format!("{name} is stale: run `cargo xtask gen`")).collect()
}

fn is_stale(root: &Path, (name, text): &(&str, String)) -> bool {
    std::fs::read_to_string(root.join(name)).ok().as_ref() != Some(text)
}

fn drop_reasons() -> String {
    let mut page = String::from(
        "# Drop reasons\n\nMade from `catena_model::DropReason` by `cargo xtask gen`. Counters, \
         metrics and messages use these names and no others.\n\n| name | meaning |\n|---|---|\n",
    );
    for reason in DropReason::ALL {
        let _ = writeln!(page, "| `{}` | {} |", reason.name(), reason.sentence());
    }
    page.push_str("\n# Created packets\n\nWhat the data plane makes itself:\n\n");
    for kind in Created::ALL {
        let _ = writeln!(page, "- `{}`", kind.name());
    }
    page
}

fn classifier_fields() -> String {
    let mut page = String::from(
        "# Classifier fields\n\nMade from `catena_model::classifier::FIELDS` by `cargo xtask gen`.\n\n\
         What a flow classifier may look at beside its flow. The name is the attribute of \
         `/v2.0/sfc/flow_classifiers`, a word in documents and in `catena explain`, and an option of \
         `catena classifier create`, there with `-` for `_`. What it means where packets of one flow \
         differ: [A packet's fields](../concepts/fields.md).\n\n\
         | name | condition | needs |\n|---|---|---|\n",
    );
    for field in &FIELDS {
        let needs = field.transport.map_or_else(String::new, |transport| {
            format!("`{}`", serde_json::json!(transport).as_str().unwrap_or_default())
        });
        let _ = writeln!(page, "| `{}` | {} | {needs} |", field.name, field.help);
    }
    page
}

fn limits() -> String {
    let mut page = String::from(
        "# Limits\n\nMade from `catena_model::limits` by `cargo xtask gen`.\n\n\
         | name | value | unit | meaning |\n|---|---|---|---|\n",
    );
    for limit in LIMITS {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            limit.name, limit.value, limit.unit, limit.sentence
        );
    }
    page
}
