//! Cuts a way into pathlets: each is one header, written where a header may begin, with no more ports than it holds.
//! Knows borders and capacity; refuses to know what is at a border.

use std::ops::Range;

/// May a header begin at a leg?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Border {
    /// Its node writes none.
    No,
    /// Its node may write one.
    May,
    /// Its node may write one if the header before says which: by a number of its own, which takes the place of a port.
    Named,
    /// What is behind is known there alone: one must.
    Must,
}

impl Border {
    /// Places that the header before needs beside its ports to end there.
    const fn places(self) -> usize {
        match self {
            Self::No | Self::May | Self::Must => 0,
            Self::Named => 1,
        }
    }
}

/// The fewest pathlets of a way, by the places of their legs: greedily the farthest border, which on a given way no
/// other choice beats: from a border that is nearer to where a header can end, it can end there too. The first leg is
/// where the way begins, so a header begins there.
///
/// # Errors
/// The first leg that no header comes to because it would be at its end before, where none may begin.
pub fn pathlets(borders: &[Border], capacity: usize) -> Result<Vec<Range<usize>>, usize> {
    let (mut from, mut found) = (0, Vec::new());
    while from < borders.len() {
        let reach = borders.len().min(from.saturating_add(capacity));
        let forced = (from + 1..reach).find(|at| borders[*at] == Border::Must);
        let may_end = |at: &usize| {
            borders.get(*at).is_none_or(|border| {
                *border != Border::No && at - from + border.places() <= capacity
            })
        };
        let to = forced.or_else(|| (from + 1..=reach).rev().find(may_end)).ok_or(reach)?;
        found.push(from..to);
        from = to;
    }
    Ok(found)
}
