//! Malicious archives, built byte by byte: each is refused by name, and nothing is stored.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use segno_core::error::Diagnose;
use segno_snapshot::{Archive, CaptureReport, Error, ImportMode, Kind, Limits, Restore};

use crate::fixture::{Fixture, noise};

/// A tar archive that is built by hand.
#[derive(Clone, Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn block(mut self, name: &[u8], kind: u8, size: u64, link: &[u8]) -> Self {
        let mut block = [0_u8; 512];
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, name);
        put(100, b"0000644\x000000000\x000000000\0");
        put(
            124,
            format!("{size:011o}\x0000000000000\0        ").as_bytes(),
        );
        put(156, &[kind]);
        put(157, link);
        put(257, b"ustar\x0000");
        self.0.extend_from_slice(&block);
        self.fix_checksum()
    }

    /// Fixes the checksum of the last block.
    fn fix_checksum(mut self) -> Self {
        let from = self.0.len() - 512;
        let block = &mut self.0[from..];
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self
    }

    /// Changes the last block and fixes its checksum.
    fn with(mut self, at: usize, bytes: &[u8]) -> Self {
        let from = self.0.len() - 512 + at;
        self.0[from..from + bytes.len()].copy_from_slice(bytes);
        self.fix_checksum()
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        let length = self.0.len().next_multiple_of(512);
        self.0.resize(length, 0);
        self
    }

    fn file(self, name: &str, content: &[u8]) -> Self {
        self.block(name.as_bytes(), b'0', content.len() as u64, b"")
            .bytes(content)
    }

    fn folder(self, name: &str) -> Self {
        self.block(name.as_bytes(), b'5', 0, b"")
    }

    fn link(self, name: &str, target: &str) -> Self {
        self.block(name.as_bytes(), b'2', 0, target.as_bytes())
    }

    fn twin(self, name: &str, of: &str) -> Self {
        self.block(name.as_bytes(), b'1', 0, of.as_bytes())
    }

    fn records(self, kind: u8, records: &[(&str, &[u8])]) -> Self {
        let mut all = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let fits = |length: &usize| rest + length.to_string().len() == *length;
            let length = (rest..rest + 20).find(fits);
            let length = length.unwrap();
            all.extend_from_slice(format!("{length} {key}=").as_bytes());
            all.extend_from_slice(value);
            all.push(b'\n');
        }
        self.block(b"records", kind, all.len() as u64, b"")
            .bytes(&all)
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        self.0
    }
}

fn tar() -> Tar {
    Tar::default().folder("./").file("./before", b"fine")
}

struct Case {
    fixture: Fixture,
    file: PathBuf,
}

impl Case {
    fn new() -> Self {
        let fixture = Fixture::new();
        let file = fixture.folder.path().join("a.tar.zst");
        Self { fixture, file }
    }

    fn read(
        &self,
        bytes: &[u8],
        limits: Limits,
        keeping: ImportMode,
    ) -> Result<CaptureReport, Error> {
        fs::write(&self.file, bytes).unwrap();
        let archive = Archive {
            from: &self.file,
            digest: None,
            snapshot: None,
            limits,
            mode: keeping,
        };
        self.fixture.store.import_archive(&archive, &|_| {})
    }

    fn import_packed(&self, bytes: &[u8], limits: Limits) -> Result<CaptureReport, Error> {
        self.read(bytes, limits, ImportMode::Store)
    }

    fn import(&self, tar: &[u8]) -> Result<CaptureReport, Error> {
        let packed = zstd::encode_all(tar, 1).unwrap();
        self.import_packed(&packed, Limits::default())
    }

    /// Expects a refusal that contains all of `words`, and an unchanged store.
    fn refused(&self, what: &str, tar: &[u8], words: &[&str]) {
        let Err(error) = self.import(tar) else {
            panic!("{what}: it was taken");
        };
        let said = error.to_string();
        for word in words {
            assert!(
                said.contains(word),
                "{what}: {said:?} does not say {word:?}"
            );
        }
        assert!(
            ["K0401", "K0402", "K0403"].contains(&error.code()),
            "{what}: {said}"
        );
        self.assert_empty(what);
    }

    fn assert_empty(&self, what: &str) {
        assert_eq!(self.fixture.store.snapshots().unwrap(), [], "{what}");
        for folder in ["packs", "manifests", "drafts"] {
            let place = self.fixture.folder.path().join("store").join(folder);
            assert_eq!(fs::read_dir(place).unwrap().count(), 0, "{what}: {folder}");
        }
        // Nothing beside the store, the empty workspace and the archive.
        let beside = fs::read_dir(self.fixture.folder.path()).unwrap().count();
        assert_eq!(beside, 3, "{what}");
        assert_eq!(
            fs::read_dir(self.fixture.work()).unwrap().count(),
            0,
            "{what}"
        );
    }
}

#[test]
fn archive_paths_leading_out_are_refused() {
    let case = Case::new();
    for name in [
        "../evil",
        "..",
        "a/../../evil",
        "./../evil",
        "/etc/evil",
        "/",
        "a//b",
        "a/./b",
        "sub/..",
        "//evil",
    ] {
        let tar = tar().file(name, b"evil").end();
        case.refused(name, &tar, &[&format!("`{name}`"), "refused"]);
        // The same through PAX records, and through GNU long names.
        let said = self::tar().records(b'x', &[("path", name.as_bytes())]);
        case.refused(
            name,
            &said.file("good", b"evil").end(),
            &[&format!("`{name}`")],
        );
        let length = name.len() as u64 + 1;
        let long = self::tar().block(b"././@LongLink", b'L', length, b"");
        let long = long.bytes(&[name.as_bytes(), b"\0"].concat());
        case.refused(
            name,
            &long.file("good", b"evil").end(),
            &[&format!("`{name}`")],
        );
    }
    let nul = tar().records(b'x', &[("path", b"a\0b")]).file("x", b"evil");
    case.refused("NUL", &nul.end(), &["NUL"]);
    let empty = tar().records(b'x', &[("path", b"")]).file("x", b"evil");
    case.refused("empty", &empty.end(), &["refused"]);
    let long = "n".repeat(256);
    let long = tar().records(b'x', &[("path", long.as_bytes())]);
    case.refused("long name", &long.file("x", b"").end(), &["is too long"]);
    let deep = "d/".repeat(2100);
    let deep = tar().records(b'x', &[("path", deep.as_bytes())]);
    case.refused("long path", &deep.file("x", b"").end(), &["is too long"]);
    // In the prefix field of the block.
    let prefix = tar().block(b"evil", b'0', 0, b"").with(345, b"../..");
    case.refused("prefix", &prefix.end(), &["`../../evil`"]);
}

#[test]
fn members_below_a_link_or_file_are_refused() {
    let case = Case::new();
    let link = tar().link("a", "/tmp").file("a/evil", b"x").end();
    case.refused(
        "link, then child",
        &link,
        &["`a/evil`", "`a`, which is not a folder"],
    );
    let child = tar().file("a/evil", b"x").link("a", "/tmp").end();
    case.refused("child, then link", &child, &["`a/evil`", "not a folder"]);
    let deep = tar().link("a", "..").file("a/b/c/evil", b"x").end();
    case.refused(
        "deep below a link",
        &deep,
        &["`a/b/c/evil`", "not a folder"],
    );
    let file = tar().file("a", b"x").file("a/evil", b"x").end();
    case.refused("below a file", &file, &["`a/evil`", "not a folder"]);
    let twin = tar().twin("a", "before").file("a/evil", b"x").end();
    case.refused("below a hard link", &twin, &["`a/evil`", "not a folder"]);
    let root = tar().link(".", "/tmp").end();
    case.refused(
        "the folder itself as a link",
        &root,
        &["`.`", "not a folder"],
    );
}

#[test]
fn hard_links_need_an_earlier_file_inside() {
    let case = Case::new();
    let twin = |of: &str| tar().twin("evil", of).end();
    for of in ["/etc/passwd", "../outside", "a/../../b", ""] {
        case.refused(of, &twin(of), &["`evil`", "hard link"]);
    }
    case.refused(
        "missing",
        &twin("missing"),
        &["`evil`", "not in the archive"],
    );
    case.refused("itself", &twin("evil"), &["`evil`", "does not come before"]);
    let later = tar().twin("evil", "late").file("late", b"x").end();
    case.refused("later", &later, &["`evil`", "does not come before"]);
    let circle = tar().twin("one", "two").twin("two", "one").end();
    case.refused(
        "in a circle",
        &circle,
        &["hard link", "does not come before"],
    );
    let folder = tar().folder("sub").twin("evil", "sub").end();
    case.refused("of a folder", &folder, &["`evil`", "not a file"]);
    let link = tar().link("sub", "/etc/passwd").twin("evil", "sub").end();
    case.refused("of a link", &link, &["`evil`", "not a file"]);
    let unmentioned = tar().file("sub/x", b"").twin("evil", "sub").end();
    case.refused(
        "of a folder nobody mentioned",
        &unmentioned,
        &["`evil`", "not a file"],
    );
}

#[test]
fn special_archive_members_are_refused() {
    let case = Case::new();
    for (kind, word) in [
        (b'3', "device"),
        (b'4', "device"),
        (b'6', "FIFO"),
        (b'S', "sparse"),
        (b'D', "unknown"),
        (b'M', "unknown"),
        (b'V', "unknown"),
        (b'Z', "unknown"),
        (0xff, "unknown"),
    ] {
        let tar = tar().block(b"evil", kind, 0, b"").end();
        case.refused(word, &tar, &["`evil`", word]);
    }
    let sparse = tar().records(b'x', &[("GNU.sparse.major", b"1")]);
    case.refused("sparse", &sparse.file("evil", b"x").end(), &["sparse"]);
    for kind in [b'1', b'2', b'5'] {
        let tar = tar().block(b"evil", kind, 3, b"before").bytes(b"abc").end();
        case.refused("content", &tar, &["`evil`", "content"]);
    }
    let nowhere = tar().link("evil", "").end();
    case.refused("a link to nothing", &nowhere, &["`evil`", "link"]);
    let long = "x".repeat(5000);
    let long = tar().records(b'x', &[("linkpath", long.as_bytes())]);
    case.refused(
        "a long link",
        &long.link("evil", "x").end(),
        &["`evil`", "link"],
    );
}

#[test]
fn ambiguous_archive_members_are_refused() {
    let case = Case::new();
    let twice = tar().file("a", b"1").file("./a", b"2").end();
    case.refused("twice", &twice, &["`a`", "twice"]);
    let both = tar().folder("a").link("a", "/tmp").end();
    case.refused("a folder and a link", &both, &["`a`", "twice"]);
    let root = tar().folder(".").end();
    case.refused("the folder itself", &root, &["twice"]);
    let paths: [(&str, &[u8]); 2] = [("path", b"good"), ("path", b"evil")];
    let paths = tar().records(b'x', &paths).file("x", b"");
    case.refused("two paths", &paths.end(), &["duplicate field"]);
    let records = tar().records(b'x', &[("path", b"a")]);
    let records = records.records(b'x', &[("path", b"b")]).file("x", b"");
    case.refused("two records", &records.end(), &["two headers"]);
    for key in [
        "path",
        "linkpath",
        "size",
        "mtime",
        "GNU.sparse.name",
        "SCHILY.xattr.user.x",
    ] {
        let global = tar().records(b'g', &[(key, b"1")]).file("x", b"").end();
        case.refused(key, &global, &["global header"]);
    }
    let sizes: [(&str, &[u8]); 1] = [("size", b"-1")];
    case.refused(
        "size",
        &tar().records(b'x', &sizes).file("x", b"").end(),
        &["size"],
    );
    let times: [(&str, &[u8]); 1] = [("mtime", b"yesterday")];
    case.refused(
        "time",
        &tar().records(b'x', &times).file("x", b"").end(),
        &["time"],
    );
    let wrong = tar().block(b"records", b'x', 9, b"").bytes(b"99 path=a");
    case.refused("records", &wrong.file("x", b"").end(), &["extended header"]);
    let value = vec![0; 70_000];
    let wide = tar().records(b'x', &[("SCHILY.xattr.user.x", &value)]);
    case.refused("attribute", &wide.file("x", b"").end(), &["attribute"]);
    let left = b"segno left out\n{\"path\":\"../x\",\"why\":\"vault\"}\n";
    let left = tar().records(b'g', &[("comment", left)]);
    case.refused("left out", &left.end(), &["leads out"]);
}

#[test]
fn missing_or_false_archive_end_is_refused() {
    let case = Case::new();
    let good = tar().file("a", &noise(1000, 1)).end();
    for cut in (0..good.len()).step_by(128) {
        case.refused(
            &format!("cut at {cut}"),
            &good[..cut],
            &["its end is missing"],
        );
    }
    let more = [&good[..], b"more"].concat();
    case.refused("more", &more, &["data follows its end"]);
    let hidden = [&good[..], &tar().file("hidden", b"x").end()].concat();
    case.refused("a second archive", &hidden, &["data follows its end"]);
    let announced = tar().records(b'x', &[("path", b"late")]).end();
    case.refused("announced", &announced, &["has no member"]);
    // Zeros pad the last block of a tape.
    case.import(&[&good[..], &[0; 9000]].concat()).unwrap();
}

#[test]
fn damaged_archives_are_refused_or_harmless() {
    let case = Case::new();
    let tar = tar().file("a", &noise(300, 1)).link("b", "a").end();
    let mut packed = Vec::new();
    let mut encoder = zstd::stream::write::Encoder::new(&mut packed, 3).unwrap();
    encoder.include_checksum(true).unwrap();
    std::io::Write::write_all(&mut encoder, &tar).unwrap();
    encoder.finish().unwrap();
    for cut in 0..packed.len() {
        let taken = case.import_packed(&packed[..cut], Limits::default());
        assert!(taken.is_err(), "cut at {cut}");
    }
    case.assert_empty("cut");
    let garbage = [&packed[..], b"garbage"].concat();
    assert!(case.import_packed(&garbage, Limits::default()).is_err());
    let whole = case.import_packed(&packed, Limits::default()).unwrap();
    for place in 0..packed.len() {
        for bit in 0..8 {
            let mut flipped = packed.clone();
            flipped[place] ^= 1 << bit;
            let taken = case.read(&flipped, Limits::default(), ImportMode::VerifyOnly);
            if let Ok(taken) = taken {
                assert_eq!(taken.snapshot, whole.snapshot, "{place} {bit}");
            }
        }
    }
    assert_eq!(case.fixture.store.snapshots().unwrap(), [whole.snapshot]);
}

#[test]
fn non_archives_are_refused() {
    let case = Case::new();
    for (what, bytes) in [
        ("nothing", &b""[..]),
        ("text", b"hello"),
        ("plain tar", &tar().end()),
    ] {
        let refused = case.import_packed(bytes, Limits::default()).unwrap_err();
        assert_eq!(refused.code(), "K0402", "{what}: {refused}");
        case.assert_empty(what);
    }
    case.refused("zeros, once", &[0; 512], &["end is missing"]);
    case.refused("noise", &noise(5000, 3), &["refused"]);
    // An empty archive is an empty folder.
    assert_eq!(case.import(&[0; 1024]).unwrap().files, 0);
}

/// Compresses with a window of `window` (a power of two).
fn with_window(bytes: &[u8], window: u32) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut encoder = zstd::stream::write::Encoder::new(&mut packed, 1).unwrap();
    encoder.window_log(window).unwrap();
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap();
    packed
}

#[test]
fn archive_bombs_are_refused_early() {
    let case = Case::new();
    let limited = |bytes, entries| Limits { bytes, entries };
    let measure = |what: &str, tar: &[u8], limits| {
        let packed = zstd::encode_all(tar, 1).unwrap();
        let refused = case.import_packed(&packed, limits).unwrap_err();
        assert_eq!(refused.code(), "K0403", "{what}: {refused}");
        assert!(refused.hint().unwrap().contains("--max-"), "{what}");
        case.assert_empty(what);
    };
    // A size that is only claimed is refused before any content is read.
    let claimed = tar().block(b"bomb", b'0', 0o77_777_777_777, b"").end();
    measure("claimed", &claimed, limited(1 << 30, 1000));
    let huge = tar().records(b'x', &[("size", b"9223372036854775807")]);
    measure(
        "claimed in records",
        &huge.file("bomb", b"").end(),
        Limits::default(),
    );
    let zeros = vec![0; 40 << 20];
    measure(
        "zeros",
        &tar().file("bomb", &zeros).end(),
        limited(32 << 20, 1000),
    );
    let end = [tar().end(), zeros].concat();
    measure("zeros after the end", &end, limited(32 << 20, 1000));
    let mut many = tar();
    for number in 0..2000 {
        many = many.file(&format!("f{number}"), b"");
    }
    measure("many", &many.end(), limited(1 << 30, 1999));
    // A path whose folders would all have to be created.
    let deep = "d/".repeat(2000);
    let deep = tar().records(b'x', &[("path", deep.as_bytes())]);
    measure("deep", &deep.file("x", b"").end(), limited(1 << 30, 1000));
    let mut left = Vec::from(*b"segno left out\n");
    for number in 0..2000 {
        left.extend_from_slice(format!("{{\"path\":\"{number}\",\"why\":\"vault\"}}\n").as_bytes());
    }
    let left = tar().records(b'g', &[("comment", &left)]);
    measure("left out", &left.end(), limited(1 << 30, 100));
    let header = tar()
        .block(b"records", b'x', 9 << 20, b"")
        .bytes(&vec![b'x'; 9 << 20]);
    case.refused(
        "records",
        &header.file("x", b"").end(),
        &["header has more than"],
    );
    // A frame with too large a window.
    let far = with_window(&tar().file("a", &vec![1; 1 << 20]).end(), 27);
    let refused = case.import_packed(&far, Limits::default()).unwrap_err();
    assert_eq!(refused.code(), "K0402", "{refused}");
    let near = with_window(&tar().file("a", b"x").end(), 25);
    case.import_packed(&near, Limits::default()).unwrap();
}

#[test]
fn odd_but_harmless_archives_are_imported() {
    let case = Case::new();
    let tar = tar()
        .file("A.txt", b"upper")
        .file("a.txt", b"lower")
        .file("e\u{301}", b"two signs")
        .file("\u{e9}", b"one sign")
        .block(b"tool", b'0', 0, b"")
        .with(100, b"0006755\0")
        .link("away", "/etc/passwd")
        .link("up", "../../..")
        .file("-rf", b"")
        .records(b'x', &[("comment", b"segno unstable")])
        .file("moving", b"")
        .file("...", b"")
        .twin("again", "./a.txt");
    let taken = case.import(&tar.end()).unwrap();
    let store = &case.fixture.store;
    let listed = store.list(taken.snapshot).unwrap();
    let at = |path: &str| {
        listed
            .iter()
            .find(|entry| entry.path == Path::new(path))
            .unwrap()
    };
    assert_eq!(at("tool").mode, 0o6755);
    assert_eq!(taken.unstable, [PathBuf::from("moving")]);
    let into = case.fixture.target();
    store
        .restore(taken.snapshot, &into, &Restore::default(), &|_| {})
        .unwrap();
    let mode = fs::metadata(into.join("tool"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o755, "without privileges");
    assert_eq!(fs::read(into.join("A.txt")).unwrap(), b"upper");
    assert_eq!(fs::read(into.join("again")).unwrap(), b"lower");
    assert_eq!(
        fs::read_link(into.join("away")).unwrap(),
        Path::new("/etc/passwd")
    );
}

#[test]
fn first_name_of_a_file_gets_its_content() {
    let case = Case::new();
    let tar = tar()
        .records(b'x', &[("SCHILY.xattr.user.x", b"kept")])
        .file("z", b"one file")
        .twin("m", "z")
        .twin("./a", "m");
    let taken = case.import(&tar.end()).unwrap();
    let listed = case.fixture.store.list(taken.snapshot).unwrap();
    let at = |path: &str| {
        let found = listed.iter().find(|entry| entry.path == Path::new(path));
        found.unwrap()
    };
    assert_eq!(at("a").size(), 8);
    assert_eq!(at("a").attributes, [("user.x".into(), b"kept".to_vec())]);
    for name in ["m", "z"] {
        assert!(matches!(&at(name).kind, Kind::HardLink { of } if of == Path::new("a")));
        assert_eq!(at(name).attributes, []);
    }
    let into = case.fixture.target();
    let store = &case.fixture.store;
    store
        .restore(taken.snapshot, &into, &Restore::default(), &|_| {})
        .unwrap();
    let inodes = ["a", "m", "z"].map(|name| fs::metadata(into.join(name)).unwrap().ino());
    assert_eq!(inodes, [inodes[0]; 3]);
    assert_eq!(fs::read(into.join("z")).unwrap(), b"one file");
}
