//! Numbers that are given out, and given back for others. Knows which are in use; refuses to know
//! whose.

/// The numbers of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    /// All that were ever given out are below.
    end: u32,
    free: Vec<u32>,
}

impl Numbers {
    /// A number that nobody has.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }

    /// Nobody has it any more.
    pub(crate) fn give_back(&mut self, number: u32) {
        self.free.push(number);
    }

    pub(crate) fn end(&self) -> u32 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_given_out_again_first() {
        let mut numbers = Numbers::default();
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [0, 1, 2]);
        numbers.give_back(1);
        assert_eq!((numbers.take(), numbers.take(), numbers.end()), (1, 3, 4));
    }
}
