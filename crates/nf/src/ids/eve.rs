//! Alerts as Suricata writes them (EVE, type `alert`): one line of JSON.

use super::inspect::Hit;
use crate::packet::Time;
use catena_wire::scalar::IpProtocol;
use std::io::Write;

/// Bytes of one line at most: what is told of requests is cut to fit.
pub(super) const LINE_BYTES_MAX: usize = 16_384;
/// Bytes of a URL that are told.
const URL_BYTES_MAX: usize = 1_024;
/// Bytes of other texts of a request.
const WORD_BYTES_MAX: usize = 256;

/// Writes a line, which does not end in a line feed; none: it does not fit.
pub(super) fn write(
    hit: &Hit<'_>,
    (now, epoch_seconds): (Time, u64),
    is_blocked: bool,
    into: &mut [u8],
) -> Option<usize> {
    let room = into.len();
    let mut line = into;
    line_of(hit, now.0, epoch_seconds, is_blocked, &mut line).ok()?;
    Some(room - line.len())
}

fn line_of(
    hit: &Hit<'_>,
    now: u64,
    epoch_seconds: u64,
    is_blocked: bool,
    line: &mut &mut [u8],
) -> std::io::Result<()> {
    let facts = hit.facts;
    write!(line, "{{\"timestamp\":\"")?;
    date(epoch_seconds.saturating_add(now / 1_000_000_000), now % 1_000_000_000 / 1_000, line)?;
    write!(line, "\",\"event_type\":\"alert\",\"src_ip\":\"{}\"", facts.source)?;
    let ports = facts.ports;
    if let Some((port, _)) = ports {
        write!(line, ",\"src_port\":{port}")?;
    }
    write!(line, ",\"dest_ip\":\"{}\"", facts.destination)?;
    if let Some((_, port)) = ports {
        write!(line, ",\"dest_port\":{port}")?;
    }
    match facts.protocol {
        IpProtocol::TCP => write!(line, ",\"proto\":\"TCP\"")?,
        IpProtocol::UDP => write!(line, ",\"proto\":\"UDP\"")?,
        IpProtocol::ICMP => write!(line, ",\"proto\":\"ICMP\"")?,
        IpProtocol::ICMPV6 => write!(line, ",\"proto\":\"IPv6-ICMP\"")?,
        other => write!(line, ",\"proto\":\"{:03}\"", other.0)?,
    }
    if let Some((kind, code)) = facts.icmp {
        write!(line, ",\"icmp_type\":{kind},\"icmp_code\":{code}")?;
    }
    if let Some(id) = hit.flow_id {
        write!(line, ",\"flow_id\":{id}")?;
    }
    let rule = hit.rule;
    let action = if is_blocked { "blocked" } else { "allowed" };
    write!(
        line,
        ",\"alert\":{{\"action\":\"{action}\",\"gid\":{},\"signature_id\":{},\"rev\":{},\"signature\":\"",
        rule.gid, rule.sid, rule.revision
    )?;
    text(rule.message.as_bytes(), usize::MAX, line)?;
    write!(line, "\",\"category\":\"")?;
    text(rule.category.as_bytes(), WORD_BYTES_MAX, line)?;
    write!(line, "\",\"severity\":{}}}", rule.severity)?;
    if let Some(request) = hit.request {
        write!(line, ",\"http\":{{\"hostname\":\"")?;
        text(&request.host, WORD_BYTES_MAX, line)?;
        write!(line, "\",\"url\":\"")?;
        text(&request.url, URL_BYTES_MAX, line)?;
        write!(line, "\",\"http_user_agent\":\"")?;
        text(&request.user_agent, WORD_BYTES_MAX, line)?;
        write!(line, "\",\"http_method\":\"")?;
        text(&request.method, WORD_BYTES_MAX, line)?;
        write!(line, "\",\"protocol\":\"HTTP/1.{}\"}}", request.version)?;
    }
    write!(line, "}}")
}

/// Writes bytes as text of JSON (RFC 8259 section 7); what is no UTF-8 becomes U+FFFD.
fn text(bytes: &[u8], bytes_max: usize, line: &mut &mut [u8]) -> std::io::Result<()> {
    for chunk in bytes.get(..bytes_max.min(bytes.len())).unwrap_or_default().utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => line.write_all(b"\\\"")?,
                '\\' => line.write_all(b"\\\\")?,
                letter if letter.is_control() => write!(line, "\\u{:04x}", u32::from(letter))?,
                letter => line.write_all(letter.encode_utf8(&mut [0; 4]).as_bytes())?,
            }
        }
        if !chunk.invalid().is_empty() {
            line.write_all("\u{fffd}".as_bytes())?;
        }
    }
    Ok(())
}

/// Writes a moment as `2026-01-02T03:04:05.678901+0000` (days to dates as in Howard Hinnant's
/// `civil_from_days`).
fn date(seconds: u64, microseconds: u64, line: &mut &mut [u8]) -> std::io::Result<()> {
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    write!(
        line,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{microseconds:06}+0000"
    )
}
