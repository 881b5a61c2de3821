//! Every target meets, on stable Rust, what is known: the goldens, damaged in every small way, what
//! fuzzing has kept, and the stories of what once was wrong.
#![allow(clippy::unwrap_used)]

use catena_fuzz::{TARGETS, Target, seeds};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Bits flipped of one golden at most; longer ones are damaged all along.
const FLIPS_MAX: usize = 512;

/// The stories of a target, with their names.
fn stories(target: &str) -> Vec<(String, String)> {
    let Ok(entries) = std::fs::read_dir(seeds::root().join("fuzz/stories").join(target)) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let told =
        |file: &PathBuf| (file.display().to_string(), std::fs::read_to_string(file).unwrap());
    files.iter().map(told).collect()
}

/// What fuzzing has kept of a target.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let file = seeds::root().join("fuzz/corpus").join(target).with_extension("hex");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| seeds::hex(line).expect("an input is a line of digits")).collect()
}

/// A golden, all its beginnings, and the golden with single bits inverted.
fn damaged(golden: &[u8]) -> Vec<Vec<u8>> {
    let bits = golden.len() * 8;
    let step = bits.div_ceil(FLIPS_MAX).max(1);
    let flipped = (0..bits).step_by(step).map(|bit| {
        let mut bytes = golden.to_vec();
        bytes[bit / 8] ^= 0x80 >> (bit % 8);
        bytes
    });
    (0..=golden.len()).map(|length| golden[..length].to_vec()).chain(flipped).collect()
}

fn replay(target: &Target) -> usize {
    let mut inputs = vec![Vec::new(), vec![0; 64], vec![0xff; 64], (0..=255).collect()];
    for golden in target.goldens.into_iter().flat_map(seeds::goldens) {
        inputs.extend(damaged(&golden));
    }
    inputs.extend(corpus(target.name));
    for (name, text) in stories(target.name) {
        let bytes = seeds::hex(&text);
        inputs.push(bytes.unwrap_or_else(|| panic!("{name} is no text of hexadecimal digits")));
    }
    for bytes in &inputs {
        (target.run)(bytes);
    }
    inputs.len()
}

#[test]
fn what_is_known_is_replayed_through_every_fuzz_target() {
    for target in TARGETS {
        let inputs = replay(target);
        println!("{}: {inputs} inputs", target.name);
        if let Some(folder) = target.goldens {
            assert!(inputs > 4, "{} has no goldens in conformance/{folder}", target.name);
        }
    }
}

#[test]
fn every_target_has_a_name_of_its_own_and_keeps_what_is_found_under_it() {
    let names: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names.len(), TARGETS.len());
    for kind in ["corpus", "stories"] {
        let Ok(folders) = std::fs::read_dir(seeds::root().join("fuzz").join(kind)) else {
            continue;
        };
        for entry in folders.flatten() {
            let path = entry.path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert!(names.contains(name.as_str()), "fuzz/{kind}/{name} belongs to no target");
        }
    }
}
