//! What a match asks: a value against a value, a set or a mask, or several values at once.

use super::keys::{self, Domain, Key, malformed, only, text};
use super::sets;
use super::statements::{RuleReader, refuse_fragment_word};
use super::values;
use crate::condition::{ConnectionState, Range, Subject, Test, TupleCondition};
use crate::refusal::Refusal;
use crate::rule_set::Statement;
use catena_wire::field::Field;
use serde_json::Value;

/// Bits of the offset in the word with the flags of fragments.
const OFFSET_BITS: u32 = 13;
const OFFSET: u128 = (1 << OFFSET_BITS) - 1;

impl RuleReader<'_> {
    /// Reads a `match`.
    pub(super) fn condition(&mut self, body: &Value) -> Result<(), Refusal> {
        let (Some(left), Some(right)) = (body.get("left"), body.get("right")) else {
            return Err(malformed("a side of the match", body));
        };
        let op = match text(body, "op")? {
            "in" => Op::Implied,
            "==" => Op::Equal,
            "!=" => Op::Unequal,
            "!" => Op::NoBit,
            "<" => Op::Less,
            "<=" => Op::LessOrEqual,
            ">" => Op::Greater,
            ">=" => Op::GreaterOrEqual,
            other => {
                let what = format!("the operator {other} is not supported");
                return Err(Refusal::unsupported(what));
            }
        };
        if let Some(("&", sides)) = only(left) {
            let Some([inner, mask]) = sides.as_array().map(Vec::as_slice) else {
                return Err(malformed("a mask", left));
            };
            return self.masked(keys::key(inner)?, mask, op, right);
        }
        let keys = keys::keys(left)?;
        match keys.as_slice() {
            [key] => self.single(key, op, right),
            _ => self.tuple(&keys, op, right),
        }
    }

    fn single(&mut self, key: &Key, op: Op, right: &Value) -> Result<(), Refusal> {
        let is_bits = matches!(key.domain, Domain::Bits(_) | Domain::States);
        let is_set = matches!(only(right), Some(("set", _)))
            || right.as_str().is_some_and(|text| text.starts_with('@'));
        if key.domain == Domain::FragmentWord && !is_set && op.is_equality() {
            let value = values::scalar(key, right)?;
            self.imply(&[*key])?;
            return self.fragment_word(u16::MAX.into(), value, op == Op::Unequal);
        }
        refuse_fragment_word(&[*key])?;
        let (test, is_negated) = match op {
            Op::Implied | Op::NoBit if is_bits && !is_set => {
                (Test::AnyBit(values::scalar(key, right)?), op == Op::NoBit)
            }
            Op::Implied | Op::Equal | Op::Unequal => {
                let mut ranges = Vec::new();
                for element in sets::elements(self.scope, right)? {
                    ranges
                        .extend(sets::ranges(self.scope, &[*key], element)?.into_iter().flatten());
                }
                (Test::among(ranges), op == Op::Unequal)
            }
            _ => (Test::among(compared(key, op, right)?.into_iter().collect()), false),
        };
        self.imply(&[*key])?;
        self.add(key.subject, of_states(key, test), is_negated);
        Ok(())
    }

    fn tuple(&mut self, keys: &[Key], op: Op, right: &Value) -> Result<(), Refusal> {
        if !op.is_equality() {
            return Err(Refusal::unsupported("concatenations are only supported with == and !="));
        }
        refuse_fragment_word(keys)?;
        let mut tuples = Vec::new();
        for element in sets::elements(self.scope, right)? {
            tuples.extend(sets::ranges(self.scope, keys, element)?);
        }
        self.imply(keys)?;
        let is_negated = op == Op::Unequal;
        self.check_ports(keys, tuples.iter(), !is_negated)?;
        let subjects = keys.iter().map(|key| key.subject).collect();
        let condition = TupleCondition { subjects, tuples, is_negated };
        self.read.push(Statement::MatchTuple(condition));
        Ok(())
    }

    fn masked(&mut self, key: Key, mask: &Value, op: Op, right: &Value) -> Result<(), Refusal> {
        if matches!(key.domain, Domain::Interface(_) | Domain::Version(_)) {
            return Err(Refusal::unsupported(format!(
                "masks of {} are not supported",
                key.subject
            )));
        }
        let is_set = matches!(only(right), Some((name, _)) if name != "|")
            || right.as_str().is_some_and(|text| text.starts_with('@'));
        if is_set || !matches!(op, Op::Equal | Op::Unequal) {
            let what = "masks are only supported with ==, != and one value";
            return Err(Refusal::unsupported(what));
        }
        let mask = values::scalar(&key, mask)?;
        let value = values::scalar(&key, right)?;
        self.imply(&[key])?;
        let is_negated = op == Op::Unequal;
        if key.domain == Domain::FragmentWord {
            return self.fragment_word(mask, value, is_negated);
        }
        let test = of_states(&key, Test::under_mask(mask, value, key.all));
        self.add(key.subject, test, is_negated);
        Ok(())
    }

    /// The flags and the offset of fragments are two fields here.
    fn fragment_word(&mut self, mask: u128, value: u128, is_negated: bool) -> Result<(), Refusal> {
        let fields = [(Field::FragmentFlags, OFFSET_BITS), (Field::FragmentOffset, 0)];
        let mut parts = Vec::new();
        for (field, shift) in fields {
            let (mask, value) = (mask >> shift & field.all(), value >> shift & field.all());
            parts.push((Subject::Field(field), mask, Test::under_mask(mask, value, field.all())));
        }
        let [(flags, flags_mask, of_flags), (offset, offset_mask, of_offset)] = &parts[..] else {
            return Ok(());
        };
        match (*flags_mask, *offset_mask) {
            (0, _) if value <= OFFSET => self.add(*offset, of_offset.clone(), is_negated),
            (_, 0) if value & OFFSET == 0 => self.add(*flags, of_flags.clone(), is_negated),
            _ => {
                let Test::In(offsets) = of_offset else {
                    let what = format!("the mask {mask:#x} of ip frag-off is not supported");
                    return Err(Refusal::unsupported(what));
                };
                let flags_taken = (0..8).filter(|flags| of_flags.takes(*flags)).map(Range::one);
                let tuples = flags_taken
                    .flat_map(|flags| offsets.iter().map(move |offset| vec![flags, *offset]))
                    .collect();
                let condition =
                    TupleCondition { subjects: vec![*flags, *offset], tuples, is_negated };
                self.read.push(Statement::MatchTuple(condition));
            }
        }
        Ok(())
    }
}

/// How the sides of a match are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    /// None is written: any of the bits where these are bits, else equal.
    Implied,
    Equal,
    Unequal,
    /// None of the bits.
    NoBit,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Op {
    fn is_equality(self) -> bool {
        matches!(self, Self::Implied | Self::Equal | Self::Unequal)
    }
}

/// The values on this side of a bound; none: there are none.
fn compared(key: &Key, op: Op, right: &Value) -> Result<Option<Range>, Refusal> {
    let is_ordered = matches!(
        key.domain,
        Domain::Number(_) | Domain::Bits(_) | Domain::Ipv4 | Domain::Ipv6 | Domain::Mac
    );
    if !is_ordered || op == Op::NoBit {
        return Err(Refusal::unsupported(format!("{} is not compared so", key.subject)));
    }
    let bound = values::scalar(key, right)?;
    let (first, last) = match op {
        Op::Less => (Some(0), bound.checked_sub(1)),
        Op::LessOrEqual => (Some(0), Some(bound)),
        Op::Greater => (bound.checked_add(1), Some(key.all)),
        _ => (Some(bound), Some(key.all)),
    };
    let ends = first.zip(last).filter(|(first, last)| first <= last);
    Ok(ends.map(|(first, last)| Range { first, last }))
}

/// A packet is in one state: which ones are asked for, whatever the test.
fn of_states(key: &Key, test: Test) -> Test {
    if key.domain != Domain::States {
        return test;
    }
    let states = ConnectionState::ALL.iter().map(|(state, _)| *state as u128);
    Test::AnyBit(states.filter(|state| test.takes(*state)).sum())
}
