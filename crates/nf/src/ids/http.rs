//! Requests of HTTP/1 in a stream: where their heads are, and what they say.
//!
//! Knows heads, lengths of bodies and chunks. Refuses to know answers and bodies.

use catena_rules::snort::Buffer;
use std::ops::Range;

/// Headers of one request.
const HEADERS_MAX: usize = 100;
/// Bytes of a URI and of headers that are kept of one request.
const HEAD_BYTES_MAX: usize = super::stream::BLOCK_BYTES;

/// Where a stream of requests stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Http {
    /// A head begins at this place of the block.
    Head(u16),
    /// So many bytes of a body follow this place.
    Body(u16, u64),
    /// So many bytes of a chunk and its line end follow this place.
    ChunkBody(u16, u64),
    /// The line with a chunk's length begins here.
    Chunk(u16),
    /// The lines behind the last chunk begin here.
    Trailer(u16),
    /// It is none, or nobody knows where the next head begins.
    Off,
}

impl Default for Http {
    fn default() -> Self {
        Self::Head(0)
    }
}

/// What a request says.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) method: Vec<u8>,
    /// As it was asked for.
    pub(super) url: Vec<u8>,
    /// Escapes undone, in plain steps.
    pub(super) uri: Vec<u8>,
    pub(super) header: Vec<u8>,
    pub(super) host: Vec<u8>,
    pub(super) user_agent: Vec<u8>,
    pub(super) version: u8,
}

impl Request {
    pub(super) fn with_room() -> Self {
        let room = || Vec::with_capacity(HEAD_BYTES_MAX);
        let small = || Vec::with_capacity(1_024);
        Self {
            method: small(),
            url: room(),
            uri: room(),
            header: room(),
            host: room(),
            user_agent: room(),
            version: 1,
        }
    }
}

impl Http {
    /// So many bytes at the front of the block are gone.
    pub(super) fn shift(&mut self, bytes: u16) {
        *self = match *self {
            Self::Head(at) => at.checked_sub(bytes).map_or(Self::Off, Self::Head),
            // What is gone of a body was passed.
            Self::Body(at, left) => Self::Body(at.saturating_sub(bytes), left),
            Self::ChunkBody(at, left) => Self::ChunkBody(at.saturating_sub(bytes), left),
            Self::Chunk(at) => at.checked_sub(bytes).map_or(Self::Off, Self::Chunk),
            Self::Trailer(at) => at.checked_sub(bytes).map_or(Self::Off, Self::Trailer),
            Self::Off => Self::Off,
        };
    }

    /// Goes on over bytes in their order; true: a request's head is whole, and what it says is in
    /// `request`.
    pub(super) fn next(&mut self, bytes: &[u8], request: &mut Request) -> bool {
        loop {
            let rest = |at: u16| bytes.get(usize::from(at)..).unwrap_or_default();
            match *self {
                Self::Off => return false,
                Self::Head(at) => return self.head(rest(at), at, request),
                Self::Body(at, left) => match passed(at, left, rest(at).len()) {
                    Ok(behind) => *self = Self::Head(behind),
                    Err((at, left)) => {
                        *self = Self::Body(at, left);
                        return false;
                    }
                },
                Self::ChunkBody(at, left) => match passed(at, left, rest(at).len()) {
                    Ok(behind) => *self = Self::Chunk(behind),
                    Err((at, left)) => {
                        *self = Self::ChunkBody(at, left);
                        return false;
                    }
                },
                Self::Chunk(at) => match httparse::parse_chunk_size(rest(at)) {
                    Ok(httparse::Status::Complete((line, 0))) => {
                        *self = Self::Trailer(at + line as u16);
                    }
                    Ok(httparse::Status::Complete((line, size))) => {
                        *self = Self::ChunkBody(at + line as u16, size.saturating_add(2));
                    }
                    Ok(httparse::Status::Partial) => return false,
                    Err(_) => *self = Self::Off,
                },
                Self::Trailer(at) => {
                    let Some(end) = rest(at).iter().position(|byte| *byte == b'\n') else {
                        return false;
                    };
                    let is_last =
                        rest(at).get(..end).is_some_and(|line| line.is_empty() || line == b"\r");
                    let behind = at + end as u16 + 1;
                    *self = if is_last { Self::Head(behind) } else { Self::Trailer(behind) };
                }
            }
        }
    }

    fn head(&mut self, bytes: &[u8], at: u16, request: &mut Request) -> bool {
        if bytes.is_empty() {
            return false;
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        let mut config = httparse::ParserConfig::default();
        config.allow_multiple_spaces_in_request_line_delimiters(true);
        match config.parse_request(&mut parsed, bytes) {
            Ok(httparse::Status::Complete(length)) => {
                *self = fill(&parsed, at + length as u16, request);
                true
            }
            Ok(httparse::Status::Partial) => false,
            Err(_) => {
                *self = Self::Off;
                false
            }
        }
    }
}

/// Passes so many bytes of a body, of which some are there: where it ends, or where to go on and for how many.
fn passed(at: u16, left: u64, have: usize) -> Result<u16, (u16, u64)> {
    if have as u64 >= left {
        Ok(at + left as u16)
    } else {
        Err((at + have as u16, left - have as u64))
    }
}

/// Keeps what a request says; where its stream stands then.
fn fill(parsed: &httparse::Request<'_, '_>, behind: u16, request: &mut Request) -> Http {
    let set = |to: &mut Vec<u8>, from: &[u8]| {
        to.clear();
        to.extend_from_slice(from);
    };
    set(&mut request.method, parsed.method.unwrap_or_default().as_bytes());
    let path = parsed.path.unwrap_or_default().as_bytes();
    set(&mut request.url, path);
    request.version = parsed.version.unwrap_or(1);
    normalise(path, &mut request.uri);
    request.header.clear();
    request.host.clear();
    request.user_agent.clear();
    let (mut length, mut is_chunked) = (Some(0_u64), false);
    for header in parsed.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        // Cookies are no part of it, as the manual of Suricata says.
        if !is("cookie") {
            let parts = [header.name.as_bytes(), b": ", header.value, b"\r\n"];
            parts.iter().for_each(|part| request.header.extend_from_slice(part));
        }
        if is("host") && request.host.is_empty() {
            set(&mut request.host, without_port(header.value));
            request.host.make_ascii_lowercase();
        } else if is("user-agent") {
            if !request.user_agent.is_empty() {
                request.user_agent.extend_from_slice(b", ");
            }
            request.user_agent.extend_from_slice(header.value);
        } else if is("content-length") {
            length =
                std::str::from_utf8(header.value).ok().and_then(|text| text.trim().parse().ok());
        } else if is("transfer-encoding") {
            is_chunked |= header.value.to_ascii_lowercase().ends_with(b"chunked");
        }
    }
    match (is_chunked, length) {
        (true, _) => Http::Chunk(behind),
        (false, Some(length)) => Http::Body(behind, length),
        (false, None) => Http::Off,
    }
}

fn without_port(host: &[u8]) -> &[u8] {
    let host = host.trim_ascii();
    match host.iter().rposition(|byte| *byte == b':') {
        Some(at) if host.get(at + 1..).is_some_and(|port| port.iter().all(u8::is_ascii_digit)) => {
            host.get(..at).unwrap_or_default()
        }
        _ => host,
    }
}

/// Undoes escapes once; takes scheme and authority off; of the path, `//` is `/` and steps of `.` and `..`
/// are taken (RFC 3986 sections 5.2.4 and 6.2.2).
fn normalise(url: &[u8], into: &mut Vec<u8>) {
    into.clear();
    let url = match url.windows(3).position(|part| part == b"://") {
        Some(at)
            if !url.starts_with(b"/") && !url.get(..at).unwrap_or_default().contains(&b'?') =>
        {
            let rest = url.get(at + 3..).unwrap_or_default();
            let path = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
            path.and_then(|path| rest.get(path..)).unwrap_or(b"/")
        }
        _ => url,
    };
    let query = url.iter().position(|byte| *byte == b'?').unwrap_or(url.len());
    let (path, query) = url.split_at_checked(query).unwrap_or((url, &[]));
    let mut segment = 0..0;
    for byte in unescaped(path) {
        if byte == b'/' {
            close(into, &mut segment);
            if into.last() != Some(&b'/') {
                into.push(b'/');
            }
            segment = into.len()..into.len();
        } else {
            into.push(byte);
            segment.end = into.len();
        }
    }
    close(into, &mut segment);
    into.extend(unescaped(query));
}

/// Takes the step that a segment at the end may be.
fn close(path: &mut Vec<u8>, segment: &mut Range<usize>) {
    if segment.start == 0 {
        return;
    }
    match path.get(segment.clone()) {
        Some(b".") => path.truncate(segment.start),
        Some(b"..") => {
            path.truncate(segment.start - 1);
            let parent = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
            path.truncate(parent);
            if path.is_empty() {
                path.push(b'/');
            }
        }
        _ => {}
    }
}

/// Bytes with `%XX` undone.
fn unescaped(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let byte = *text.get(at)?;
        let digit = |place: usize| text.get(place).and_then(|one| char::from(*one).to_digit(16));
        if byte == b'%'
            && let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2))
        {
            at += 3;
            return Some((high << 4 | low) as u8);
        }
        at += 1;
        Some(byte)
    })
}

/// The buffers of a request.
pub(super) fn buffers(request: &Request) -> impl Iterator<Item = (Buffer, &[u8])> {
    [
        (Buffer::Uri, &*request.uri),
        (Buffer::Header, &*request.header),
        (Buffer::Method, &*request.method),
        (Buffer::Host, &*request.host),
        (Buffer::UserAgent, &*request.user_agent),
    ]
    .into_iter()
}
