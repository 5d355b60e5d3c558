use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A frame with these string headers and this payload.
fn frame(headers: &[(String, String)], payload: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    for (name, value) in headers {
        written.push(u8::try_from(name.len()).unwrap());
        written.extend(name.as_bytes());
        written.push(7);
        written.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        written.extend(value.as_bytes());
    }
    raw(&written, payload)
}

/// A frame with these bytes as headers, and correct checksums.
fn raw(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let total = u32::try_from(PRELUDE + headers.len() + payload.len() + CHECKSUM).unwrap();
    let mut bytes = total.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(headers.len()).unwrap().to_be_bytes());
    bytes.extend(checksum(&bytes).to_be_bytes());
    bytes.extend(headers);
    bytes.extend(payload);
    bytes.extend(checksum(&bytes).to_be_bytes());
    bytes
}

fn first_frame(bytes: &[u8]) -> Result<Option<Frame>, FrameError> {
    let mut frames = Frames::default();
    frames.push(bytes);
    frames.next()
}

#[test]
fn published_aws_frames_are_read() {
    assert_eq!(checksum(b"123456789"), 0xCBF4_3926);
    let empty = b"\0\0\0\x10\0\0\0\0\x05\xC2\x48\xEB\x7D\x98\xC8\xFF";
    let expected = Frame {
        headers: vec![],
        payload: vec![],
    };
    assert_eq!(first_frame(empty), Ok(Some(expected)));
    let payload = b"\0\0\0\x1D\0\0\0\0\xFD\x52\x8C\x5A{'foo':'bar'}\xC3\x65\x39\x36";
    let expected = Frame {
        headers: vec![],
        payload: b"{'foo':'bar'}".to_vec(),
    };
    assert_eq!(first_frame(payload), Ok(Some(expected)));
}

#[test]
fn only_string_headers_are_kept() {
    let mut headers = Vec::new();
    for (value_type, length) in [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 2),
        (4, 4),
        (5, 8),
        (8, 8),
        (9, 16),
    ] {
        headers.extend([1, b'x', value_type]);
        headers.extend(vec![0xFF; length]);
    }
    headers.extend([1, b'x', 6, 0, 2, 9, 9]);
    headers.extend(*b"\x05:kind\x07\0\x03abc");
    let frame = first_frame(&raw(&headers, b"p")).unwrap().unwrap();
    assert_eq!(frame.headers, [(":kind".to_owned(), "abc".to_owned())]);
    assert_eq!(frame.header(":kind"), "abc");
    assert_eq!(frame.header("x"), "");
}

#[test]
fn headers_with_wrong_lengths_are_refused() {
    for headers in [
        &b"\x09ab"[..],
        b"\x01a",
        b"\x01a\x07",
        b"\x01a\x07\0",
        b"\x01a\x07\0\x05ab",
        b"\x01a\x05\0",
        b"\x01a\x0A",
        b"\x01\xFF\x00",
        b"\x01a\x07\0\x01\xFF",
    ] {
        assert_eq!(
            first_frame(&raw(headers, b"")),
            Err(FrameError::Headers),
            "{headers:?}"
        );
    }
}

#[test]
fn invalid_frame_lengths_are_refused_early() {
    let prelude = |total: u32, headers: u32| {
        let mut bytes = [total.to_be_bytes(), headers.to_be_bytes()].concat();
        bytes.extend(checksum(&bytes).to_be_bytes());
        bytes
    };
    for (total, headers) in [
        (0, 0),
        (15, 0),
        (20, 5),
        (u32::MAX, 0),
        (16, u32::MAX),
        (25 << 20, 0),
        (1 << 20, 129 << 10),
    ] {
        let read = first_frame(&prelude(total, headers));
        assert_eq!(read, Err(FrameError::Lengths), "{total} {headers}");
    }
    assert_eq!(first_frame(&prelude(24 << 20, 0)), Ok(None));
}

proptest! {
    #[test]
    fn any_bytes_are_frames_or_errors(bytes in vec(any::<u8>(), 0..200), piece in 1..40_usize) {
        let mut frames = Frames::default();
        for piece in bytes.chunks(piece) {
            frames.push(piece);
            if frames.next().is_err() {
                break;
            }
        }
    }

    #[test]
    fn any_headers_are_read_or_refused(headers in vec(any::<u8>(), 0..80)) {
        prop_assert!(matches!(first_frame(&raw(&headers, b"x")), Ok(Some(_)) | Err(FrameError::Headers)));
    }

    #[test]
    fn frames_parse_the_same_in_any_chunks(
        sent in vec((vec(("[a-z:-]{1,9}", "\\PC{0,9}"), 0..4), vec(any::<u8>(), 0..50)), 1..4),
        piece in 1..30_usize,
    ) {
        let bytes: Vec<u8> = sent.iter().flat_map(|(headers, payload)| frame(headers, payload)).collect();
        let mut frames = Frames::default();
        let mut read = Vec::new();
        for piece in bytes.chunks(piece) {
            frames.push(piece);
            while let Some(frame) = frames.next().unwrap() {
                read.push((frame.headers, frame.payload));
            }
        }
        prop_assert_eq!(read, sent);
        prop_assert!(!frames.has_partial_frame());
    }

    #[test]
    fn flipped_bit_is_always_an_error(
        payload in vec(any::<u8>(), 0..60),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let mut bytes = frame(&[(":event-type".into(), "x".into())], &payload);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(first_frame(&bytes).is_err());
    }

    #[test]
    fn incomplete_frame_is_no_error(payload in vec(any::<u8>(), 0..60), at in any::<prop::sample::Index>()) {
        let bytes = frame(&[(":event-type".into(), "x".into())], &payload);
        let cut = at.index(bytes.len());
        prop_assert_eq!(first_frame(&bytes[..cut]), Ok(None));
    }
}
