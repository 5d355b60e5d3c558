use super::super::writer::{PIECE, Writer};
use super::*;
use crate::id::Name;
use crate::journal::{
    QuestionAsked, Run, RunEnded, RunPurpose, RunStarted, SessionCreated, StepStarted,
};
use crate::session::{Kind, Status};
use crate::step::Path;
use crate::time::Timestamp;

fn session() -> SessionId {
    SessionId::new(Timestamp(1), [7; 10])
}

fn bundle_bytes(texts: &[&str], events: &[Event]) -> Vec<u8> {
    let header = Header {
        segno_session: VERSION,
        session: session(),
        name: Name::sanitized("report"),
        running: false,
        version: "0".into(),
    };
    let mut writer = Writer::new(&header).unwrap();
    let mut head = Head::genesis(session());
    for event in events {
        let record = head.seal(Run(1), Timestamp(2), event);
        head = record.head();
        writer.record(&record).unwrap();
    }
    for text in texts {
        writer.text(Digest::of(text.as_bytes()), text).unwrap();
    }
    writer.finish().unwrap()
}

fn events(long: &str) -> Vec<Event> {
    let created = SessionCreated {
        name: Name::sanitized("report"),
        session_kind: Kind::Workflow,
        workspace: "/work".into(),
        spec_path: "/work/a.yaml".into(),
        spec: Text::Inline("version: 0\n".into()),
        spec_digest: Digest::of(b"version: 0\n"),
        variables: BTreeMap::new(),
        out: "/work/out".into(),
        force: false,
        commit: None,
        pattern: None,
    };
    let run = RunStarted {
        host: "a".into(),
        pid: 7,
        version: "0".into(),
        purpose: RunPurpose::Work,
    };
    let started = StepStarted {
        path: Path::new("steps/0").unwrap(),
        revision: 0,
        attempt: 1,
        agent: "a".into(),
        input: Text::Blob {
            blob: Digest::of(long.as_bytes()),
            bytes: long.len() as u64,
        },
        input_digest: Digest::of(b"x"),
        resume_context: None,
    };
    vec![created.into(), run.into(), started.into()]
}

#[test]
fn written_bundles_read_back() {
    let long = "ä\"\\\n".repeat(PIECE / 2);
    let bytes = bundle_bytes(&[&long], &events(&long));
    let bundle = read(&bytes).unwrap();
    assert_eq!(bundle.header.session, session());
    assert_eq!(bundle.records.len(), 3);
    assert_eq!(bundle.state.status, Status::Running);
    assert_eq!(bundle.texts[&Digest::of(long.as_bytes())], long);
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused() {
    let bytes = bundle_bytes(&["a long text"], &events("a long text"));
    assert!(read(&bytes).is_ok());
    for at in 0..bytes.len() {
        assert!(read(&bytes[..at]).is_err(), "cut at {at}");
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            assert!(read(&flipped).is_err(), "bit {bit} of byte {at}");
        }
    }
    assert!(read(&[bytes.as_slice(), b"\n"].concat()).is_err());
}

#[test]
fn resealed_file_with_invalid_events_is_refused() {
    let good = events("text");
    let refused = |texts: &[&str], events: &[Event]| {
        read(&bundle_bytes(texts, events)).unwrap_err().to_string()
    };
    assert!(refused(&[], &good).contains("it is missing"));
    assert!(refused(&["text", "more"], &good).contains("no event references it"));
    assert!(refused(&["text", "text"], &good).contains("appears twice"));
    assert!(refused(&["text"], &good[1..]).contains("only the first event creates"));
    let over = RunEnded {
        status: Status::Completed,
        error: None,
        output: None,
    };
    let asked = QuestionAsked {
        path: Path::new("steps/1").unwrap(),
        prompt: "?".into(),
        context: None,
        default: None,
        timeout_s: None,
        validation: None,
    };
    let mut twice = good.clone();
    twice.extend([over.into(), asked.into(), good[1].clone()]);
    assert!(refused(&["text"], &twice).contains("the session is completed"));
    assert!(refused(&[], &[]).contains("its end is missing"));
}

#[test]
fn newer_format_and_foreign_file_are_distinguished() {
    assert_eq!(
        read(b"{\"segno_session\":2}\n").unwrap_err(),
        Error::Newer(2)
    );
    for other in ["", "hello\n", "{}\n", "[1]\n", "{\"segno_session\":0}\n"] {
        assert_eq!(
            read(other.as_bytes()).unwrap_err(),
            Error::Foreign,
            "{other}"
        );
    }
}
