//! What people write: documents and lab files. Whatever is wrong with one is told, in words.

use crate::seeds;
use catena_client::deploy::Document;
use catena_lab::Lab;
use std::io::Write as _;

/// A document: as it comes, and one of ours with parts of it replaced.
pub(crate) fn document(bytes: &[u8]) {
    let edited = seeds::edited(seeds::document(), bytes).to_string();
    for text in [String::from_utf8_lossy(bytes).into_owned(), edited] {
        match Document::parse(&text) {
            Ok(document) => drop(document),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// A lab file; its text stands in a file, as people have it.
pub(crate) fn lab_file(bytes: &[u8]) {
    let edited = seeds::edited(seeds::lab(), bytes).to_string();
    for text in [bytes, edited.as_bytes()] {
        let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        file.write_all(text).unwrap();
        if let Err(error) = Lab::read(file.path(), false) {
            assert!(!error.problem.is_empty() && !error.advice.is_empty(), "{error:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_edited_is_good_before() {
        Document::parse(&seeds::document().to_string()).unwrap();
        let mut file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
        file.write_all(seeds::lab().to_string().as_bytes()).unwrap();
        Lab::read(file.path(), false).unwrap();
    }
}
