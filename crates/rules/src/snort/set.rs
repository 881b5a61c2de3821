//! Sets of addresses and ports, and the variables that name them.

use crate::refusal::Refusal;
use ipnet::IpNet;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// Ranges that one set may be made of.
const RANGES_MAX: usize = 65_536;
/// Variables and brackets that may stand in one another.
const DEPTH_MAX: usize = 16;

/// Ranges, in order and apart.
type Ranges = Vec<(u128, u128)>;

/// Addresses, or ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Of IPv4, or of ports.
    narrow: Ranges,
    /// Of IPv6.
    wide: Ranges,
}

impl Set {
    /// Is an address in it?
    #[must_use]
    pub fn has_address(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => has(&self.narrow, v4.to_bits().into()),
            IpAddr::V6(v6) => has(&self.wide, v6.to_bits()),
        }
    }

    /// Is a port in it?
    #[must_use]
    pub fn has_port(&self, port: u16) -> bool {
        has(&self.narrow, port.into())
    }

    /// Its ranges, in order and apart: those of IPv4 or ports, and those of IPv6.
    #[must_use]
    pub fn ranges(&self) -> [&[(u128, u128)]; 2] {
        [&self.narrow, &self.wide]
    }

    fn minus(&self, other: &Self) -> Self {
        Self { narrow: minus(&self.narrow, &other.narrow), wide: minus(&self.wide, &other.wide) }
    }

    fn add(&mut self, other: &Self) -> Result<(), Refusal> {
        self.narrow.extend(&other.narrow);
        self.wide.extend(&other.wide);
        if self.narrow.len() + self.wide.len() > 2 * RANGES_MAX {
            self.merge();
        }
        if self.narrow.len() + self.wide.len() > RANGES_MAX {
            self.merge();
            if self.narrow.len() + self.wide.len() > RANGES_MAX {
                let what = format!("a list has more than {RANGES_MAX} ranges");
                return Err(Refusal::wrong(what, "put neighbours together into larger ranges"));
            }
        }
        Ok(())
    }

    fn merge(&mut self) {
        merge(&mut self.narrow);
        merge(&mut self.wide);
    }

    fn is_empty(&self) -> bool {
        self.narrow.is_empty() && self.wide.is_empty()
    }
}

fn has(ranges: &[(u128, u128)], value: u128) -> bool {
    let behind = ranges.partition_point(|(first, _)| *first <= value);
    behind.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|(_, last)| value <= *last)
}

fn merge(ranges: &mut Ranges) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let touch = next.0 <= before.1.saturating_add(1);
        if touch {
            before.1 = before.1.max(next.1);
        }
        touch
    });
}

/// Both in order and apart.
fn minus(from: &[(u128, u128)], others: &[(u128, u128)]) -> Ranges {
    let mut left = Ranges::new();
    let mut others = others.iter().peekable();
    for (first, last) in from {
        let mut start = Some(*first);
        while let Some((without, to)) = others.peek() {
            if without > last {
                break;
            }
            if let Some(from) = start.filter(|from| to >= from) {
                if *without > from {
                    left.push((from, without - 1));
                }
                start = to.checked_add(1);
            }
            if to > last {
                break;
            }
            others.next();
        }
        left.extend(start.filter(|start| start <= last).map(|start| (start, *last)));
    }
    left
}

/// What a set is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Addresses,
    Ports,
}

impl Kind {
    fn all(self) -> Set {
        match self {
            Self::Addresses => {
                Set { narrow: vec![(0, u32::MAX.into())], wide: vec![(0, u128::MAX)] }
            }
            Self::Ports => Set { narrow: vec![(0, u16::MAX.into())], wide: Vec::new() },
        }
    }

    fn one(self, text: &str) -> Result<Set, Refusal> {
        match self {
            Self::Addresses => address(text),
            Self::Ports => ports(text),
        }
    }
}

fn address(text: &str) -> Result<Set, Refusal> {
    let wrong = || {
        let what = format!("'{text}' is no address");
        let advice = "write an address such as 10.0.0.1, a network such as 10.0.0.0/8, a range such as \
                      10.0.0.1-10.0.0.9, a list in brackets, or 'any'";
        Refusal::wrong(what, advice)
    };
    let (first, last) = if let Some((first, last)) = text.split_once('-') {
        let parse = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| wrong());
        (parse(first)?, parse(last)?)
    } else {
        let net = text.parse::<IpNet>().ok();
        let net = net.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from)).ok_or_else(wrong)?;
        let net = net.trunc();
        (net.network(), net.broadcast())
    };
    let mut set = Set::default();
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
            set.narrow.push((first.to_bits().into(), last.to_bits().into()));
        }
        (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
            set.wide.push((first.to_bits(), last.to_bits()));
        }
        _ => return Err(wrong()),
    }
    Ok(set)
}

fn ports(text: &str) -> Result<Set, Refusal> {
    let wrong = || {
        let what = format!("'{text}' is no port");
        Refusal::wrong(what, "write a port such as 80, a range such as 1024: or 20:25, or 'any'")
    };
    let number = |text: &str, none: u16| match text.trim() {
        "" => Ok(none),
        text => text.parse::<u16>().map_err(|_| wrong()),
    };
    let (first, last) = match text.split_once(':') {
        Some((first, last)) if !(first.is_empty() && last.is_empty()) => {
            (number(first, 0)?, number(last, u16::MAX)?)
        }
        Some(_) => return Err(wrong()),
        None => {
            let port = text.parse::<u16>().map_err(|_| wrong())?;
            (port, port)
        }
    };
    if first > last {
        return Err(wrong());
    }
    Ok(Set { narrow: vec![(first.into(), last.into())], wide: Vec::new() })
}

/// Sets that were read, and the variables.
pub(super) struct Sets {
    variables: HashMap<String, String>,
    known: HashMap<(Kind, String), Arc<Set>>,
}

impl Sets {
    pub(super) fn new(variables: &BTreeMap<String, String>) -> Self {
        let variables = variables.iter().map(|(name, value)| (name.clone(), value.clone()));
        Self { variables: variables.collect(), known: HashMap::new() }
    }

    /// Takes `NAME VALUE`.
    pub(super) fn define(&mut self, text: &str) -> Result<(), Refusal> {
        let (name, value) = text.trim().split_once(char::is_whitespace).ok_or_else(|| {
            Refusal::wrong(
                format!("the variable '{text}' has no value"),
                "write 'ipvar NAME value' or 'portvar NAME value'",
            )
        })?;
        // The configuration's own stand.
        self.variables.entry(name.to_owned()).or_insert_with(|| value.trim().to_owned());
        Ok(())
    }

    pub(super) fn read(&mut self, kind: Kind, text: &str) -> Result<Arc<Set>, Refusal> {
        let set = self.nested(kind, text.trim(), 0)?;
        if set.is_empty() {
            let what = format!("'{text}' is nothing at all");
            return Err(Refusal::wrong(what, "take the rule out, or leave out a '!'"));
        }
        Ok(set)
    }

    fn nested(&mut self, kind: Kind, text: &str, depth: usize) -> Result<Arc<Set>, Refusal> {
        if depth > DEPTH_MAX {
            let what =
                format!("variables and brackets stand more than {DEPTH_MAX} deep in '{text}'");
            return Err(Refusal::wrong(
                what,
                "write it in fewer steps; a variable may not name itself",
            ));
        }
        if let Some(known) = self.known.get(&(kind, text.to_owned())) {
            return Ok(Arc::clone(known));
        }
        let set = if let Some(rest) = text.strip_prefix('!') {
            Arc::new(kind.all().minus(&*self.nested(kind, rest.trim(), depth + 1)?))
        } else if let Some(name) = text.strip_prefix('$') {
            let value = self.variables.get(name).cloned().ok_or_else(|| {
                let advice =
                    format!("define it: 'ipvar {name} …', 'portvar {name} …', or beside the file");
                Refusal::wrong(format!("the variable ${name} is not defined"), advice)
            })?;
            self.nested(kind, value.trim(), depth + 1)?
        } else if let Some(list) = text.strip_prefix('[') {
            let list = list.strip_suffix(']').ok_or_else(|| unclosed(text))?;
            Arc::new(self.list(kind, list, depth)?)
        } else if text == "any" {
            Arc::new(kind.all())
        } else {
            Arc::new(kind.one(text)?)
        };
        self.known.insert((kind, text.to_owned()), Arc::clone(&set));
        Ok(set)
    }

    /// What is in a list and not excepted in it.
    fn list(&mut self, kind: Kind, list: &str, depth: usize) -> Result<Set, Refusal> {
        let (mut in_it, mut except) = (Set::default(), Set::default());
        let mut has_any = false;
        for part in parts(list)? {
            let part = part.trim();
            if let Some(rest) = part.strip_prefix('!') {
                except.add(&*self.nested(kind, rest.trim(), depth + 1)?)?;
            } else {
                has_any = true;
                in_it.add(&*self.nested(kind, part, depth + 1)?)?;
            }
        }
        if !has_any {
            in_it = kind.all();
        }
        in_it.merge();
        except.merge();
        Ok(in_it.minus(&except))
    }
}

fn unclosed(text: &str) -> Refusal {
    Refusal::wrong(format!("brackets of '{text}' do not close"), "write lists as [a,b,!c]")
}

/// Splits at commas outside of brackets.
fn parts(list: &str) -> Result<Vec<&str>, Refusal> {
    let mut depth = 0_usize;
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, letter) in list.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1).ok_or_else(|| unclosed(list))?,
            ',' if depth == 0 => {
                parts.push(list.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth != 0 {
        return Err(unclosed(list));
    }
    parts.push(list.get(start..).unwrap_or_default());
    Ok(parts)
}
