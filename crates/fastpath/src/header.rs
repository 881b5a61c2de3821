//! The C header of the program, written from the Rust types: `cargo xtask gen` writes it and
//! `tidy` checks that it is current. Knows both spellings of a layout; refuses to know meanings.

use crate::records::{
    Account, Entry, Event, GATE_OPEN, PORT_NUMBER_MAX, Port, Queue, Settings, Slot, Transit,
    UNDERLAY_NUMBER, UNDERLAY_SHARES,
};
use crate::transform::{
    FLAG_COUNTED, FLAG_PUSHES, FLAG_UNMARKED_ONLY, FLAG_UNTAGGED_ONLY, FlowKey, GUARDS_MAX, Guard,
    HEADER_BYTES_MAX, KERNEL_TAG, Kind, OPERATIONS_MAX, Operation, Origin, TEMPLATE_BYTES_MAX,
    Transform,
};
use crate::transits::{DIVISORS_FROM, PASSES_MAX};
use catena_wire::source_route::Profile;
use catena_wire::srv6::Sid;
use std::fmt::Write as _;
use std::mem::offset_of;

/// A field as the C side needs it.
struct Field {
    c: &'static str,
    name: &'static str,
    offset: usize,
    bytes: usize,
    /// Elements of an array; 0: no array.
    elements: usize,
}

struct Record {
    name: &'static str,
    bytes: usize,
    fields: Vec<Field>,
}

/// How a type of a field is spelt in C, and how many elements it has.
trait Spelt {
    const C: &'static str;
    const ELEMENTS: usize = 0;
}

macro_rules! spelt {
    ($($rust:ty => $c:literal),* $(,)?) => {
        $(impl Spelt for $rust { const C: &'static str = $c; })*
    };
}

spelt! {
    u8 => "__u8", u16 => "__u16", u32 => "__u32", u64 => "__u64", i32 => "__s32",
    Guard => "struct guard", Operation => "struct operation", Transform => "struct transform",
}

impl<T: Spelt, const N: usize> Spelt for [T; N] {
    const C: &'static str = T::C;
    const ELEMENTS: usize = N;
}

/// The layout of a record; its fields' sizes must add up to its own, so that no byte is padding.
macro_rules! record {
    ($type:ident as $name:literal { $($field:ident: $of:ty),* $(,)? }) => {{
        const _: () = assert!(size_of::<$type>() == 0 $(+ size_of::<$of>())*);
        // The types named here are those of the fields, or this does not compile.
        let _ = |record: &$type| { $(let _: &$of = &record.$field;)* };
        Record {
            name: $name,
            bytes: size_of::<$type>(),
            fields: vec![$(Field {
                c: <$of as Spelt>::C,
                name: stringify!($field),
                offset: offset_of!($type, $field),
                bytes: size_of::<$of>(),
                elements: <$of as Spelt>::ELEMENTS,
            }),*],
        }
    }};
}

fn records() -> Vec<Record> {
    vec![
        record!(FlowKey as "flow_key" {
            origin: u8, family: u8, protocol: u8, reserved: u8, door: u32, position: u32,
            vlan: u16, sender: u16, source: [u8; 16], destination: [u8; 16], source_port: u16,
            destination_port: u16, destination_mac: [u8; 6], source_mac: [u8; 6],
        }),
        record!(Guard as "guard" { slot: u32, epoch: u32 }),
        record!(Operation as "operation" {
            kind: u8, length: u8, offset: u16, number: u32, mac: [u8; 6], reserved: u16,
        }),
        record!(Transform as "transform" {
            guards: [Guard; GUARDS_MAX], frame_bytes_max: u32, segment_bytes_max: u32,
            operations_count: u8, flags: u8, template_bytes: u16, growth: i32,
            template: [u8; TEMPLATE_BYTES_MAX], operations: [Operation; OPERATIONS_MAX],
        }),
        record!(Entry as "entry" {
            gate: u32, fitting: i32, seen_ns: u64, packets: u64, bytes: u64, transform: Transform,
        }),
        record!(Slot as "slot" { epoch: u64, stale: u64 }),
        record!(Account as "account" { packets: u64, bytes: u64 }),
        record!(Port as "port" { number: u32, is_watched: u32, link: u32 }),
        record!(Transit as "transit" {
            guards: [Guard; 2], gate: u64, interface: u32, fitting: i32, seen_ns: u64, packets: u64,
            bytes: u64, reserved: u64,
        }),
        record!(Settings as "settings" {
            punt_ifindex: u32, is_off: u32, underlay_address: u32, queue_frames: u32,
            locator_high: u32, locator_low: u16, has_locator: u16,
        }),
        record!(Queue as "queue" {
            sent: u64, served: u64, weight: u64, refused_packets: u64, refused_bytes: u64,
        }),
    ]
}

/// The text of `bpf/transform.h`.
#[must_use]
pub fn header() -> String {
    let mut text = String::from(
        "/* Made from the Rust types of this crate by `cargo xtask gen`: change those. */\n\
         #ifndef CATENA_TRANSFORM_H\n#define CATENA_TRANSFORM_H\n\n",
    );
    constants(&mut text);
    for record in records() {
        write_record(&mut text, &record);
    }
    text.push_str("#endif\n");
    text
}

fn constants(text: &mut String) {
    let mut define = |name: &str, value: u64| {
        let _ = writeln!(text, "#define {name} {value}");
    };
    define("OPERATIONS_MAX", OPERATIONS_MAX as u64);
    define("GUARDS_MAX", GUARDS_MAX as u64);
    define("TEMPLATE_BYTES_MAX", TEMPLATE_BYTES_MAX as u64);
    define("HEADER_BYTES_MAX", HEADER_BYTES_MAX as u64);
    define("FLAG_UNTAGGED_ONLY", u64::from(FLAG_UNTAGGED_ONLY));
    define("FLAG_PUSHES", u64::from(FLAG_PUSHES));
    define("FLAG_UNMARKED_ONLY", u64::from(FLAG_UNMARKED_ONLY));
    define("FLAG_COUNTED", u64::from(FLAG_COUNTED));
    define("SID_END", u64::from(Sid::END));
    define("SID_END_DT46", u64::from(Sid::END_DT46));
    define("SID_END_DX2", u64::from(Sid::END_DX2));
    define("KERNEL_TAG", u64::from(KERNEL_TAG));
    define("PORT_NUMBER_MAX", u64::from(PORT_NUMBER_MAX));
    define("UNDERLAY_NUMBER", u64::from(UNDERLAY_NUMBER));
    define("UNDERLAY_SHARES", u64::from(UNDERLAY_SHARES));
    define("EVENTS_COUNT", Event::ALL.len() as u64);
    define("PROFILES_COUNT", Profile::ALL.len() as u64);
    define("PASSES_MAX", u64::from(PASSES_MAX));
    define("DIVISORS_FROM", u64::from(DIVISORS_FROM));
    let _ = writeln!(text, "#define GATE_OPEN {GATE_OPEN:#x}ULL\n");
    let origins = Origin::ALL.map(|origin| (format!("{origin:?}"), origin as u8));
    write_enum(text, "origin", &origins);
    write_enum(text, "kind", &Kind::ALL.map(|kind| (format!("{kind:?}"), kind as u8)));
    write_enum(text, "profile", &Profile::ALL.map(|one| (format!("{one:?}"), one as u8)));
    write_enum(text, "event", &Event::ALL.map(|event| (format!("{event:?}"), event as u8)));
}

fn write_enum(text: &mut String, name: &str, values: &[(String, u8)]) {
    let _ = writeln!(text, "enum {name} {{");
    for (value, number) in values {
        let _ = writeln!(text, "\t{}_{} = {number},", name.to_uppercase(), in_capitals(value));
    }
    text.push_str("};\n\n");
}

/// `HandOver` as `HAND_OVER`.
fn in_capitals(name: &str) -> String {
    let mut capitals = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !capitals.is_empty() {
            capitals.push('_');
        }
        capitals.push(letter.to_ascii_uppercase());
    }
    capitals
}

fn write_record(text: &mut String, record: &Record) {
    let name = record.name;
    let _ = writeln!(text, "struct {name} {{");
    for field in &record.fields {
        let _ = match field.elements {
            0 => writeln!(text, "\t{} {};", field.c, field.name),
            elements => writeln!(text, "\t{} {}[{elements}];", field.c, field.name),
        };
    }
    text.push_str("};\n");
    let _ =
        writeln!(text, "_Static_assert(sizeof(struct {name}) == {}, \"{name}\");", record.bytes);
    for Field { name: field, offset, bytes, .. } in &record.fields {
        let _ = writeln!(
            text,
            "_Static_assert(__builtin_offsetof(struct {name}, {field}) == {offset} && \
             sizeof(((struct {name} *)0)->{field}) == {bytes}, \"{name}.{field}\");"
        );
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_c_header_is_the_one_that_the_types_give() {
        let there = include_str!("../bpf/transform.h");
        assert_eq!(there, super::header(), "run `cargo xtask gen`");
    }
}
