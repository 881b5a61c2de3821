//! Quantities as people write them in lab files. Knows their spelling, not what they measure.

use serde::de::{Deserialize, Deserializer, Error};

/// A rate in bit/s, written `3M`, `1.5G`, `800k` or a plain number.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct BitRate(pub f64);

/// A duration in seconds, written `9`, `2.5`, `9s`, `200ms` or `1min`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number, unit.trim()))
}

impl BitRate {
    /// Reads the text.
    ///
    /// # Errors
    /// A sentence with the legal forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let factor = |unit: &str| match unit {
            "" => Some(1.0),
            "k" | "K" => Some(1e3),
            "M" => Some(1e6),
            "G" => Some(1e9),
            _ => None,
        };
        split(text)
            .and_then(|(number, unit)| Some(Self(number * factor(unit)?)))
            .ok_or_else(|| format!("'{text}' is not a rate; write bit/s as 800k, 3M or 1.5G"))
    }
}

impl Seconds {
    /// Reads the text.
    ///
    /// # Errors
    /// A sentence with the legal forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let factor = |unit: &str| match unit {
            "" | "s" => Some(1.0),
            "ms" => Some(1e-3),
            "us" => Some(1e-6),
            "min" => Some(60.0),
            _ => None,
        };
        split(text)
            .and_then(|(number, unit)| Some(Self(number * factor(unit)?)))
            .ok_or_else(|| format!("'{text}' is not a duration; write 9, 2.5s, 200ms or 1min"))
    }
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(f64),
    Text(String),
}

fn quantity<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Number(number) => parse(&number.to_string()).map_err(D::Error::custom),
        NumberOrText::Text(text) => parse(&text).map_err(D::Error::custom),
    }
}

impl<'de> Deserialize<'de> for BitRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        quantity(deserializer, Self::parse)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        quantity(deserializer, Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_durations_are_read_as_people_write_them() {
        assert_eq!(BitRate::parse("3M"), Ok(BitRate(3e6)));
        assert_eq!(BitRate::parse("1.5G"), Ok(BitRate(1.5e9)));
        assert_eq!(BitRate::parse("12"), Ok(BitRate(12.0)));
        assert_eq!(Seconds::parse("200ms"), Ok(Seconds(0.2)));
        assert_eq!(Seconds::parse("9"), Ok(Seconds(9.0)));
        for bad in ["", "fast", "-3M", "3 Mbit", "1e999G"] {
            assert!(BitRate::parse(bad).is_err(), "{bad}");
        }
        assert!(Seconds::parse("3h").is_err());
    }
}
