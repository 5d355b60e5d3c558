//! Paths of transcripts, and moving transcripts.

use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use segno_agents::transcript::{Relocated, Relocation, TranscriptFormat};
use segno_core::time::Timestamp;

use crate::transcripts_reading::{golden, one};

const ID: &str = "1be7fef8-80d5-4db8-b56b-16971ac56909";
const OTHER: &str = "aaaaaaaa-0000-4000-8000-00000000000b";

fn rehome(native: TranscriptFormat, text: &[u8], target: &Relocation) -> (Vec<u8>, Relocated) {
    let mut made = Vec::new();
    let moved = native
        .relocate(Cursor::new(text), &mut made, target)
        .unwrap();
    (made, moved)
}

fn to(from: &str, to: &str, session: Option<&str>) -> Relocation {
    Relocation {
        from: from.into(),
        to: to.into(),
        session: session.map(str::to_owned),
    }
}

#[test]
fn move_changes_only_folder_and_session() {
    for (native, name, text) in golden() {
        let before = native.examine(Cursor::new(text)).unwrap();
        let session = before.facts.session.clone().unwrap();
        let there = to("/home/user/project", "/srv/\"odd\" wörk", Some(OTHER));
        let (made, moved) = rehome(native, text, &there);
        assert!(moved.folders > 0 && moved.sessions > 0, "{name}");
        let mut after = native.examine(Cursor::new(&made)).unwrap();
        assert_eq!(after.facts.session.as_deref(), Some(OTHER));
        assert_eq!(after.facts.cwd.as_deref(), Some("/srv/\"odd\" wörk"));
        after.facts = before.facts.clone();
        after.bytes = before.bytes;
        // The conversation, paths in it included, is unchanged.
        assert_eq!(after, before, "{name}");
        let back = to("/srv/\"odd\" wörk", "/home/user/project", Some(&session));
        let (again, _) = rehome(native, &made, &back);
        assert!(again == text, "{name} did not come back the same");
    }
}

#[test]
fn move_to_the_same_folder_changes_no_byte() {
    for (native, name, text) in golden() {
        let (made, moved) = rehome(
            native,
            text,
            &to("/home/user/project", "/home/user/project", None),
        );
        assert_eq!(moved, Relocated::default());
        assert!(made == text, "{name}");
    }
}

#[test]
fn only_folders_below_the_old_one_move() {
    let line = |cwd: &str, end: &str| {
        format!("{{ \"cwd\" : \"{cwd}\" ,\"message\":{{\"cwd\":\"/a/b\"}}}}{end}")
    };
    let text = [
        line("/a/b", "\n"),
        line("/a/b/c", "\r\n"),
        line("/a/bc", "\n"),
        "torn {\"cwd\":\"/a/b\"".into(),
    ]
    .concat();
    let (made, moved) = rehome(
        TranscriptFormat::ClaudeCode,
        text.as_bytes(),
        &to("/a/b/", "/z", None),
    );
    let expected = [
        line("/z", "\n"),
        line("/z/c", "\r\n"),
        line("/a/bc", "\n"),
        "torn {\"cwd\":\"/a/b\"".into(),
    ]
    .concat();
    assert_eq!(String::from_utf8(made).unwrap(), expected);
    assert_eq!(moved.folders, 2);
}

#[test]
fn move_refuses_an_invalid_session_id() {
    let there = to("/a", "/b", Some("../x"));
    let error = TranscriptFormat::Codex
        .relocate(Cursor::new(b""), &mut Vec::new(), &there)
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn transcript_path_matches_the_cli_agent() {
    let when = Timestamp(1_794_726_882_551);
    let place = |native: TranscriptFormat, cwd: &str| {
        native.path_for(Path::new("/h"), cwd, ID, when).unwrap()
    };
    assert_eq!(
        place(TranscriptFormat::ClaudeCode, "/home/us.er/my_project 𝄋é"),
        Path::new("/h/projects/-home-us-er-my-project----").join(format!("{ID}.jsonl"))
    );
    assert_eq!(
        place(TranscriptFormat::Codex, "/x"),
        Path::new("/h/sessions/2026/11/15").join(format!("rollout-2026-11-15T07-14-42-{ID}.jsonl"))
    );
    for id in [
        "",
        "../../x",
        "--dangerously-skip-permissions",
        "1be7fef8",
        &format!("{ID}/"),
        &ID.replace('1', "g"),
    ] {
        let error = TranscriptFormat::ClaudeCode
            .path_for(Path::new("/h"), "/x", id, when)
            .unwrap_err();
        assert!(error.to_string().contains("not a session id"), "{error}");
    }
}

fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests make files as others do")]
fn a_session_is_found_by_its_id() {
    for native in [TranscriptFormat::ClaudeCode, TranscriptFormat::Codex] {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(
            native.find(home.path(), ID, &list).unwrap(),
            [] as [PathBuf; 0]
        );
        let path = native
            .path_for(home.path(), "/home/user/project", ID, Timestamp(0))
            .unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, one(native, "three")).unwrap();
        let other = native
            .path_for(home.path(), "/elsewhere", OTHER, Timestamp(1 << 40))
            .unwrap();
        std::fs::create_dir_all(other.parent().unwrap()).unwrap();
        std::fs::write(&other, b"").unwrap();
        std::fs::write(
            home.path().join(if native == TranscriptFormat::Codex {
                "sessions/x"
            } else {
                "projects/x"
            }),
            b"",
        )
        .unwrap();
        assert_eq!(native.find(home.path(), ID, &list).unwrap(), [path]);
        assert!(native.find(home.path(), "../x", &list).is_err());
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "tests make files as others do")]
fn sub_agents_are_found_beside_their_session() {
    let home = tempfile::tempdir().unwrap();
    let session = home.path().join(format!("{ID}.jsonl"));
    let folder = home.path().join(ID).join("subagents");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["agent-a4d8.jsonl", "agent-a4d8.meta.json", "notes.jsonl"] {
        std::fs::write(folder.join(name), b"").unwrap();
    }
    let found = TranscriptFormat::ClaudeCode
        .sub_agents(&session, &list)
        .unwrap();
    assert_eq!(found, [folder.join("agent-a4d8.jsonl")]);
}
