//! Targets for files from other machines: session bundles, announcements of checkpoints, archives,
//! and git metadata in a workspace.

use segno_core::announcement::Announcement;
use segno_core::bundle::{self, Header, Writer};
use segno_core::checkpoint::Manifest;
use segno_core::digest::Digest;
use segno_core::journal::{Event, Head, Run};
use segno_core::time::Timestamp;
use segno_snapshot::Limits;
use segno_snapshot::archive::probe as archive;
use segno_snapshot::scope::probe as scope;
use serde_json::Value;

use crate::mutate::Rng;
use crate::seeds;
use crate::target::Target;

/// Session bundles with all kinds of journal records.
pub const BUNDLE: Target = Target {
    name: "bundle",
    seeds: || seeds::own("bundle"),
    dictionary: &[
        b"\\\"attempt\\\":1,",
        b"\\\"path\\\":\\\"steps/0\\\",",
        b"\\\"revision\\\":1,",
        b"step_finished",
        b"step_discarded",
        b"run_ended",
        b"session_forked",
        b"agent_said",
    ],
    fix_checksums: reseal,
    check: check_bundle,
};

/// Announcements, and the checkpoint manifests in them.
pub const ANNOUNCEMENT: Target = Target {
    name: "letter",
    seeds: || seeds::own("letter"),
    dictionary: &[
        b"\"segno_letter\":2,",
        b"\"pruned\":null,",
        b"\"repositories\":[],",
        b"\"../../x\"",
    ],
    fix_checksums: |bytes, rng| {
        if rng.below(8) > 0 {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            bytes.truncate(end.unwrap_or(bytes.len()));
            let digest = Digest::of(bytes);
            bytes.extend(format!("\n{{\"digest\":\"{digest}\"}}\n").bytes());
        }
    },
    check: check_announcement,
};

/// Archives for import, and snapshot manifests.
pub const ARCHIVE: Target = Target {
    name: "archive",
    seeds: || seeds::own("archive"),
    dictionary: &[
        b"../",
        b"/etc/passwd\0",
        b"ustar\x0000",
        b"ustar  \0",
        b"././@LongLink\0",
        b"30 mtime=1700000000.123456789\n",
        b"12 path=a/b\n",
        b"20 size=99999999999\n",
        b"27 SCHILY.xattr.user.a=value\n",
        b"0000644\0",
        b"77777777777\0",
        b"\x80\0\0\0\0\0\0\0\xFF\xFF\xFF\xFF",
    ],
    fix_checksums: |bytes, rng| {
        if rng.below(8) > 0 {
            archive::fix_checksums(bytes);
        }
    },
    check: |bytes| {
        // The limits vary with the input, so that they are tested, too.
        let limits = Limits {
            bytes: 1 << (10 + bytes.len() % 13),
            entries: 1 << (bytes.len() % 7),
        };
        let unpacked = archive::import(bytes, limits);
        assert_eq!(unpacked, archive::import(bytes, limits));
        archive::decode_manifest(bytes);
        archive::decode_stored_manifest(bytes);
        if let Some(written) = archive::import_and_encode(bytes) {
            let mut changed = written;
            let at = bytes.len() % changed.len();
            changed[at] ^= 1 << (bytes.len() % 8);
            assert_eq!(
                archive::decode_manifest(&changed),
                archive::decode_manifest(&changed)
            );
        }
    },
};

/// The index of a git repository.
pub const GIT_INDEX: Target = Target {
    name: "git_index",
    seeds: || seeds::own("git_index"),
    dictionary: &[
        b"DIRC\0\0\0\x02",
        b"DIRC\0\0\0\x03",
        b"DIRC\0\0\0\x04",
        b"\xFF\xFF\xFF\xFF",
        b"TREE\0\0\0\x01",
        b"link\0\0\0\x14",
        b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    ],
    fix_checksums: |_, _| (),
    check: |bytes| {
        let names = scope::index(bytes);
        assert_eq!(names, scope::index(bytes));
        let names = names.unwrap_or_default();
        assert!(names.is_sorted(), "the names are sorted for lookup");
        let longest = names
            .iter()
            .map(|name| name.len())
            .max()
            .unwrap_or_default();
        assert!(longest <= bytes.len() * bytes.len());
        assert!(
            names
                .iter()
                .all(|name| !name.is_empty() && !name.contains(&0))
        );
    },
};

/// The patterns of a `.gitignore`.
pub const PATTERNS: Target = Target {
    name: "patterns",
    seeds: || seeds::own("patterns"),
    dictionary: &[
        b"**", b"*", b"/", b"!", b"[", b"]", b"[!", b"-", b"?", b"\\ ", b"#",
    ],
    fix_checksums: |_, _| (),
    check: |bytes| {
        const PATHS: [&str; 8] = [
            "a",
            "a/",
            "a/b/c.log",
            "target/debug/x",
            "web/node_modules/dist/",
            "ü/[z",
            "aXbXbc",
            "a/a/a/a/a/a/a/a/a/a/a/a/a/a/b",
        ];
        assert_eq!(
            scope::patterns(bytes, &PATHS),
            scope::patterns(bytes, &PATHS)
        );
    },
};

/// Rewrites all readable records of a bundle with new seals.
fn reseal(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if rng.below(8) > 0
        && let Some(again) = resealed(bytes)
    {
        *bytes = again;
    }
}

fn resealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let header: Header = serde_json::from_slice(lines.next()?).ok()?;
    let mut writer = Writer::new(&header).ok()?;
    let mut head = Head::genesis(header.session);
    for line in lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()) {
        let word = |key: &str| line[key].as_str();
        if let (Some(kind), Some(body)) = (word("kind"), word("body")) {
            let Some(Ok(event)) = Event::decode(kind, body) else {
                continue;
            };
            let (run, at) = (&line["run"], &line["at"]);
            let run: Run = serde_json::from_value(run.clone()).unwrap_or(Run(1));
            let at: Timestamp = serde_json::from_value(at.clone()).unwrap_or(Timestamp(0));
            let record = head.seal(run, at, &event);
            head = record.head();
            writer.record(&record).ok()?;
        } else if let (Some(_), Some(text)) = (word("blob"), word("text")) {
            writer.text(Digest::of(text.as_bytes()), text).ok()?;
        }
    }
    writer.finish().ok()
}

/// A bundle that is accepted can be written and read again without a difference, and each of its
/// events can be encoded and decoded without a difference.
fn check_bundle(bytes: &[u8]) {
    let read = match (bundle::read(bytes), bundle::read(bytes)) {
        (Ok(one), Ok(two)) => {
            assert_eq!(one.state, two.state);
            one
        }
        (Err(one), Err(two)) => {
            assert_eq!(one.to_string(), two.to_string());
            return;
        }
        _ => panic!("parsing a bundle is deterministic"),
    };
    let mut head = Head::genesis(read.header.session);
    let mut writer = Writer::new(&read.header).expect("a header is short");
    for record in &read.records {
        let entry = head.open(record).expect("the record was opened before");
        let event = Event::decode(&record.kind, &entry.event.body());
        let event = event
            .expect("the kind of the event is known")
            .expect("the event was just encoded");
        assert_eq!(event, entry.event);
        head = record.head();
        writer
            .record(record)
            .expect("the length was checked before");
    }
    for (digest, text) in &read.texts {
        writer
            .text(*digest, text)
            .expect("the length was checked before");
    }
    let written = writer.finish().expect("the length was checked before");
    let again = bundle::read(&written).expect("an encoded bundle can be decoded");
    assert_eq!(again.records, read.records);
    assert_eq!(again.texts, read.texts);
    assert_eq!(again.state, read.state);
}

fn check_announcement(bytes: &[u8]) {
    const KEY: [u8; 32] = [7; 32];
    let text = String::from_utf8_lossy(bytes);
    let _ = Manifest::from_text(&text, &KEY);
    let value: Value =
        serde_json::from_str(text.lines().next().unwrap_or_default()).unwrap_or_default();
    let word = |key: &str| value["checkpoint"][key].as_str().unwrap_or_default();
    let object = format!("checkpoints/{}/{}.json", word("session"), word("id"));
    let read = Announcement::from_bytes(&object, bytes);
    assert_eq!(read, Announcement::from_bytes(&object, bytes));
    let Ok(announcement) = read else { return };
    let again = Announcement::from_bytes(&object, &announcement.to_bytes());
    assert_eq!(again.as_ref(), Ok(&announcement));
    let kept = announcement.checkpoint.to_text(&KEY);
    assert_eq!(
        Manifest::from_text(&kept, &KEY),
        Ok(announcement.checkpoint)
    );
}
