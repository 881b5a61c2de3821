//! Only legal scalars exist, and their texts go round.

use std::string::ToString;

use super::*;

#[test]
fn a_bounded_scalar_ends_at_its_width() {
    macro_rules! check {
        ($($name:ident $bits:literal)*) => {$(
            let max = (1_u32 << $bits) - 1;
            assert_eq!($name::MAX, max);
            assert_eq!($name::new(max).map(u32::from), Ok(max));
            let above = max + 1;
            assert_eq!($name::new(above), Err(ScalarError::TooLarge { value: above, max }));
            assert_eq!($name::try_from(u32::MAX).map_err(|e| e.to_string()), {
                Err(std::format!("4294967295 is above {max}"))
            });
            assert_eq!(u32::from($name::from_low_bits(u32::MAX)), max);
            assert_eq!(u32::from($name::from_low_bits(above | 1)), 1);
            assert_eq!($name::new(7).unwrap().to_string(), "7");
        )*};
    }
    check! {
        Spi 24
        NshTtl 6
        Vni 24
        VlanId 12
        MplsLabel 20
        FlowLabel 20
        FragmentOffset 13
        LatencyUnits 24
        QueueId 4
        QueueLength 12
        FlowCounter 20
        FunctionIndex 7
        HardwareId 6
        ReportSequence 22
        QueueOccupancy 24
    }
}

#[test]
fn a_path_label_is_no_special_purpose_one() {
    for value in 0..MplsLabel::SPECIAL_BELOW {
        assert_eq!(MplsLabel::ordinary(value), Err(ScalarError::Reserved(value)));
        assert!(MplsLabel::new(value).is_ok());
    }
    assert_eq!(MplsLabel::ordinary(16).map(MplsLabel::get), Ok(16));
    assert!(MplsLabel::ordinary(0x10_0000).is_err());
}

#[test]
fn a_mac_address_goes_through_text() {
    let mac: MacAddr = "02:00:5E:10:ab:ff".parse().unwrap();
    assert_eq!(mac, MacAddr([0x02, 0x00, 0x5e, 0x10, 0xab, 0xff]));
    assert_eq!(mac.to_string(), "02:00:5e:10:ab:ff");
    assert_eq!("02-00-5e-10-ab-ff".parse(), Ok(mac));
    assert_eq!(std::format!("{mac:?}").parse(), Ok(mac));
}

#[test]
fn other_texts_are_no_mac_address() {
    let texts = [
        "",
        "02:00:00:00:00",
        "02:00:00:00:00:01:02",
        "2:0:0:0:0:1",
        "02:00:00:00:00:0g",
        "+2:00:00:00:00:01",
        "0200.0000.0001",
        "02:00:00:00:00:01 ",
    ];
    for text in texts {
        assert!(matches!(text.parse::<MacAddr>(), Err(ScalarError::Text(_))), "{text:?}");
    }
}

#[test]
fn groups_of_hardware_addresses_are_known() {
    for first in 0..=u8::MAX {
        assert_eq!(MacAddr([first, 0, 0, 0, 0, 1]).is_multicast(), first % 2 == 1);
    }
    assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
    assert!(!MacAddr([0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]).is_broadcast());
    for last in 0..=u8::MAX {
        let bridge = MacAddr([0x01, 0x80, 0xc2, 0, 0, last]);
        assert_eq!(bridge.is_link_local_reserved(), last < 16);
    }
    assert!(!MacAddr([0x01, 0x80, 0xc2, 0, 1, 0]).is_link_local_reserved());
}

#[test]
fn a_port_range_includes_both_ends() {
    let range = PortRange::new(80, 90).unwrap();
    assert_eq!((range.min(), range.max()), (80, 90));
    for port in 0..=u16::MAX {
        assert_eq!(range.contains(port), (80..=90).contains(&port));
    }
    assert!(PortRange::new(0, u16::MAX).unwrap().contains(u16::MAX));
    assert_eq!(PortRange::try_from((5, 5)).map(<(u16, u16)>::from), Ok((5, 5)));
    assert_eq!(PortRange::new(2, 1), Err(ScalarError::EmptyRange { min: 2, max: 1 }));
}

#[test]
fn an_error_says_what_is_wrong() {
    let texts = [
        (ScalarError::Reserved(3), "3 is reserved"),
        (ScalarError::EmptyRange { min: 2, max: 1 }, "the range 2-1 is empty"),
        (ScalarError::Text("a number"), "expected a number"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
}
