//! The conformance suite that every remote passes. `remote_conformance!(make)` turns each case into
//! a test; `make` returns an empty remote and whatever must live as long as the remote does.

#![expect(
    missing_docs,
    reason = "the name of a case is the claim that it checks"
)]

use std::sync::Arc;

use segno_core::remote::{Error, Put, Remote};
use tempfile::TempDir;

/// Makes a test of each case, for the remote that `$make` returns.
#[macro_export]
macro_rules! remote_conformance {
    ($make:expr) => {
        $crate::remote_conformance!(
            @cases $make;
            created_object_reads_back,
            one_of_many_concurrent_creates_wins,
            files_of_any_length_round_trip,
            existing_file_is_not_uploaded_again,
            object_of_different_length_is_replaced,
            list_is_sorted_and_limited_to_its_folder,
            deleting_twice_is_no_error,
            missing_object_is_reported,
            wrong_length_is_detected,
            path_escaping_names_are_refused,
        );
    };
    (@cases $make:expr; $($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let (remote, _alive) = ($make)();
                $crate::remotes::$case(std::sync::Arc::new(remote)).await;
            }
        )*
    };
}

fn file(folder: &TempDir, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Bytes that do not repeat.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24).to_le_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

pub async fn created_object_reads_back(remote: Arc<dyn Remote>) {
    for (name, bytes) in [("a/b.json", &b"{}"[..]), ("empty", b""), ("a/c", &[0, 255])] {
        let put = remote.create(name, bytes.to_vec()).await;
        assert_eq!(put, Ok(Put::New), "{name}");
        assert_eq!(remote.read(name, 100).await.as_deref(), Ok(bytes), "{name}");
    }
}

pub async fn one_of_many_concurrent_creates_wins(remote: Arc<dyn Remote>) {
    let tasks: Vec<_> = (0..8_u8)
        .map(|number| {
            let remote = Arc::clone(&remote);
            tokio::spawn(async move { remote.create("one", vec![number]).await })
        })
        .collect();
    let mut first = Vec::new();
    for (number, task) in (0..8_u8).zip(tasks) {
        if task.await.unwrap() == Ok(Put::New) {
            first.push(number);
        }
    }
    assert_eq!(remote.read("one", 1).await, Ok(first));
}

pub async fn files_of_any_length_round_trip(remote: Arc<dyn Remote>) {
    const PIECE: usize = 8 * 1024 * 1024;
    let folder = TempDir::new().unwrap();
    for length in [0, 1, PIECE, PIECE + 1, 2 * PIECE + 12_345] {
        let bytes = noise(length);
        let name = format!("packs/{length}");
        let sent = remote.upload(&name, &file(&folder, &bytes)).await;
        assert_eq!(sent, Ok(Put::New), "{length}");
        let back = file(&folder, b"");
        let got = remote.download(&name, length as u64, &back).await;
        assert_eq!(got, Ok(()), "{length}");
        assert!(std::fs::read(&back).unwrap() == bytes, "{length}");
    }
}

pub async fn existing_file_is_not_uploaded_again(remote: Arc<dyn Remote>) {
    let folder = TempDir::new().unwrap();
    for length in [10, 9 * 1024 * 1024] {
        let name = format!("packs/{length}");
        let path = file(&folder, &noise(length));
        assert_eq!(remote.upload(&name, &path).await, Ok(Put::New));
        assert_eq!(remote.upload(&name, &path).await, Ok(Put::Exists));
    }
}

pub async fn object_of_different_length_is_replaced(remote: Arc<dyn Remote>) {
    let folder = TempDir::new().unwrap();
    for length in [10, 9 * 1024 * 1024] {
        let name = format!("packs/{length}");
        remote.create(&name, b"cut".to_vec()).await.unwrap();
        let path = file(&folder, &noise(length));
        assert_eq!(remote.upload(&name, &path).await, Ok(Put::New));
        let back = remote.read(&name, length as u64).await;
        assert!(back == Ok(noise(length)), "{length}");
    }
}

pub async fn list_is_sorted_and_limited_to_its_folder(remote: Arc<dyn Remote>) {
    assert_eq!(remote.list("a").await, Ok(Vec::new()));
    for name in ["a/2", "a/1/x", "ab/3", "a/10", "c"] {
        remote.create(name, name.as_bytes().to_vec()).await.unwrap();
    }
    let names = async |folder: &str| -> Vec<(String, u64)> {
        let listed = remote.list(folder).await.unwrap();
        let name = |object: segno_core::remote::Object| (object.name, object.length);
        listed.into_iter().map(name).collect()
    };
    let named = |names: &[&str]| -> Vec<(String, u64)> {
        let named = |name: &&str| ((*name).to_owned(), name.len() as u64);
        names.iter().map(named).collect()
    };
    assert_eq!(names("a").await, named(&["a/1/x", "a/10", "a/2"]));
    let all = named(&["a/1/x", "a/10", "a/2", "ab/3", "c"]);
    assert_eq!(names("").await, all);
}

pub async fn deleting_twice_is_no_error(remote: Arc<dyn Remote>) {
    remote.create("a/b", b"x".to_vec()).await.unwrap();
    assert_eq!(remote.delete("a/b").await, Ok(()));
    assert_eq!(remote.delete("a/b").await, Ok(()));
    assert_eq!(remote.list("").await, Ok(Vec::new()));
    assert_eq!(remote.create("a/b", b"y".to_vec()).await, Ok(Put::New));
}

pub async fn missing_object_is_reported(remote: Arc<dyn Remote>) {
    let folder = TempDir::new().unwrap();
    let read = remote.read("a/b", 10).await;
    assert!(matches!(read, Err(Error::Missing { .. })), "{read:?}");
    let got = remote.download("a/b", 10, &file(&folder, b"")).await;
    assert!(matches!(got, Err(Error::Missing { .. })), "{got:?}");
    let sent = remote.upload("a/b", &folder.path().join("none")).await;
    assert!(matches!(sent, Err(Error::File { .. })), "{sent:?}");
}

pub async fn wrong_length_is_detected(remote: Arc<dyn Remote>) {
    let folder = TempDir::new().unwrap();
    remote.create("a", noise(100)).await.unwrap();
    let read = remote.read("a", 99).await;
    assert!(matches!(read, Err(Error::Damaged { .. })), "{read:?}");
    for length in [99, 101] {
        let got = remote.download("a", length, &file(&folder, b"")).await;
        assert!(
            matches!(got, Err(Error::Damaged { .. })),
            "{length} {got:?}"
        );
    }
}

pub async fn path_escaping_names_are_refused(remote: Arc<dyn Remote>) {
    for name in ["../x", "/x", "a/../../x", "a//b", ""] {
        let read = remote.read(name, 1).await;
        assert!(matches!(read, Err(Error::Name(_))), "{name} {read:?}");
        let put = remote.create(name, Vec::new()).await;
        assert!(matches!(put, Err(Error::Name(_))), "{name} {put:?}");
    }
}
