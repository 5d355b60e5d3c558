//! The suite that every depot passes. `depot_conformance!(make)` turns each case into a test; `make`
//! returns an empty depot, with whatever must live as long as the depot does.

#![expect(
    missing_docs,
    reason = "the name of a case is the sentence that it checks"
)]

use std::sync::Arc;

use segno_core::depot::{Depot, Error, Put};
use tempfile::TempDir;

/// Makes one test out of each case, for the depot that `$make` returns.
#[macro_export]
macro_rules! depot_conformance {
    ($make:expr) => {
        $crate::depot_conformance!(
            @cases $make;
            what_is_created_is_read_back,
            of_many_that_create_one_is_first,
            files_of_every_length_come_back,
            a_file_that_is_there_is_not_sent_again,
            an_object_of_another_length_is_replaced,
            lists_are_sorted_and_go_no_further_than_their_folder,
            deleting_twice_is_no_error,
            what_is_missing_is_said_to_be_missing,
            what_is_too_long_or_too_short_is_noticed,
            names_that_lead_elsewhere_are_refused,
        );
    };
    (@cases $make:expr; $($case:ident,)*) => {
        $(
            #[tokio::test]
            async fn $case() {
                let (depot, _alive) = ($make)();
                $crate::depots::$case(std::sync::Arc::new(depot)).await;
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

pub async fn what_is_created_is_read_back(depot: Arc<dyn Depot>) {
    for (name, bytes) in [("a/b.json", &b"{}"[..]), ("empty", b""), ("a/c", &[0, 255])] {
        let put = depot.create(name, bytes.to_vec()).await;
        assert_eq!(put, Ok(Put::New), "{name}");
        assert_eq!(depot.read(name, 100).await.as_deref(), Ok(bytes), "{name}");
    }
}

pub async fn of_many_that_create_one_is_first(depot: Arc<dyn Depot>) {
    let tasks: Vec<_> = (0..8_u8)
        .map(|number| {
            let depot = Arc::clone(&depot);
            tokio::spawn(async move { depot.create("one", vec![number]).await })
        })
        .collect();
    let mut first = Vec::new();
    for (number, task) in (0..8_u8).zip(tasks) {
        if task.await.unwrap() == Ok(Put::New) {
            first.push(number);
        }
    }
    assert_eq!(depot.read("one", 1).await, Ok(first));
}

pub async fn files_of_every_length_come_back(depot: Arc<dyn Depot>) {
    const PIECE: usize = 8 * 1024 * 1024;
    let folder = TempDir::new().unwrap();
    for length in [0, 1, PIECE, PIECE + 1, 2 * PIECE + 12_345] {
        let bytes = noise(length);
        let name = format!("packs/{length}");
        let sent = depot.upload(&name, &file(&folder, &bytes)).await;
        assert_eq!(sent, Ok(Put::New), "{length}");
        let back = file(&folder, b"");
        let got = depot.download(&name, length as u64, &back).await;
        assert_eq!(got, Ok(()), "{length}");
        assert!(std::fs::read(&back).unwrap() == bytes, "{length}");
    }
}

pub async fn a_file_that_is_there_is_not_sent_again(depot: Arc<dyn Depot>) {
    let folder = TempDir::new().unwrap();
    for length in [10, 9 * 1024 * 1024] {
        let name = format!("packs/{length}");
        let path = file(&folder, &noise(length));
        assert_eq!(depot.upload(&name, &path).await, Ok(Put::New));
        assert_eq!(depot.upload(&name, &path).await, Ok(Put::Exists));
    }
}

pub async fn an_object_of_another_length_is_replaced(depot: Arc<dyn Depot>) {
    let folder = TempDir::new().unwrap();
    for length in [10, 9 * 1024 * 1024] {
        let name = format!("packs/{length}");
        depot.create(&name, b"cut".to_vec()).await.unwrap();
        let path = file(&folder, &noise(length));
        assert_eq!(depot.upload(&name, &path).await, Ok(Put::New));
        let back = depot.read(&name, length as u64).await;
        assert!(back == Ok(noise(length)), "{length}");
    }
}

pub async fn lists_are_sorted_and_go_no_further_than_their_folder(depot: Arc<dyn Depot>) {
    assert_eq!(depot.list("a").await, Ok(Vec::new()));
    for name in ["a/2", "a/1/x", "ab/3", "a/10", "c"] {
        depot.create(name, name.as_bytes().to_vec()).await.unwrap();
    }
    let names = async |folder: &str| -> Vec<(String, u64)> {
        let listed = depot.list(folder).await.unwrap();
        let name = |object: segno_core::depot::Object| (object.name, object.length);
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

pub async fn deleting_twice_is_no_error(depot: Arc<dyn Depot>) {
    depot.create("a/b", b"x".to_vec()).await.unwrap();
    assert_eq!(depot.delete("a/b").await, Ok(()));
    assert_eq!(depot.delete("a/b").await, Ok(()));
    assert_eq!(depot.list("").await, Ok(Vec::new()));
    assert_eq!(depot.create("a/b", b"y".to_vec()).await, Ok(Put::New));
}

pub async fn what_is_missing_is_said_to_be_missing(depot: Arc<dyn Depot>) {
    let folder = TempDir::new().unwrap();
    let read = depot.read("a/b", 10).await;
    assert!(matches!(read, Err(Error::Missing { .. })), "{read:?}");
    let got = depot.download("a/b", 10, &file(&folder, b"")).await;
    assert!(matches!(got, Err(Error::Missing { .. })), "{got:?}");
    let sent = depot.upload("a/b", &folder.path().join("none")).await;
    assert!(matches!(sent, Err(Error::File { .. })), "{sent:?}");
}

pub async fn what_is_too_long_or_too_short_is_noticed(depot: Arc<dyn Depot>) {
    let folder = TempDir::new().unwrap();
    depot.create("a", noise(100)).await.unwrap();
    let read = depot.read("a", 99).await;
    assert!(matches!(read, Err(Error::Damaged { .. })), "{read:?}");
    for length in [99, 101] {
        let got = depot.download("a", length, &file(&folder, b"")).await;
        assert!(
            matches!(got, Err(Error::Damaged { .. })),
            "{length} {got:?}"
        );
    }
}

pub async fn names_that_lead_elsewhere_are_refused(depot: Arc<dyn Depot>) {
    for name in ["../x", "/x", "a/../../x", "a//b", ""] {
        let read = depot.read(name, 1).await;
        assert!(matches!(read, Err(Error::Name(_))), "{name} {read:?}");
        let put = depot.create(name, Vec::new()).await;
        assert!(matches!(put, Err(Error::Name(_))), "{name} {put:?}");
    }
}
