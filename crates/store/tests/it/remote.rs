//! Remotes: the conformance suite on a folder and on an S3 server, and network failures.

#![expect(clippy::disallowed_methods, reason = "the test's own files")]

use std::sync::Arc;
use std::time::Duration;

use segno_core::ports::{Boxed, Clock, Random};
use segno_core::remote::{Error, Put, Remote};
use segno_core::time::Timestamp;
use segno_store::ObjectRemote;
use segno_testkit::bucket::BucketServer;
use segno_testkit::clock::Seeded;
use segno_testkit::proxy::{Failure, Proxy, Request};

/// A clock whose sleeps return at once and are counted.
struct InstantClock(std::sync::Mutex<Duration>);

impl Clock for InstantClock {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn elapsed(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, duration: Duration) -> Boxed<'_, ()> {
        *self.0.lock().unwrap() += duration;
        Box::pin(std::future::ready(()))
    }
}

fn remote_at(url: &str, host: &str) -> ObjectRemote {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "the-secret-of-the-key"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", host),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let clock = Arc::new(InstantClock(std::sync::Mutex::default()));
    let random: Arc<dyn Random> = Arc::new(Seeded::new(1));
    ObjectRemote::new(url, variables, clock, random).unwrap()
}

mod folder {
    use super::remote_at;

    segno_testkit::remote_conformance!(|| {
        let folder = tempfile::TempDir::new().unwrap();
        let url = format!("file://{}", folder.path().display());
        (remote_at(&url, ""), folder)
    });
}

mod bucket {
    use segno_testkit::bucket::BucketServer;

    use super::remote_at;

    segno_testkit::remote_conformance!(|| {
        let server = BucketServer::start();
        (remote_at("s3://bucket/a/prefix", &server.host()), server)
    });
}

fn noise(length: usize) -> Vec<u8> {
    (0..length)
        .map(|n| (n * 31 % 251).to_le_bytes()[0])
        .collect()
}

/// Performs every operation of a remote through a proxy that disturbs the n-th request, for every n
/// until there are no more.
async fn all_operations_with(mishap: fn(&Request) -> Failure) {
    let server = BucketServer::start();
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("file");
    let long = noise(9 * 1024 * 1024);
    let mut number = 0;
    loop {
        let victim = number;
        let proxy = Proxy::start(server.address(), move |n, request| {
            if n == victim {
                mishap(request)
            } else {
                Failure::None
            }
        });
        let remote = remote_at(&format!("s3://bucket/{number}"), &proxy.host());
        let told = |what: &str| {
            format!(
                "{what}, request {victim}: {:?}",
                proxy.requests().get(victim)
            )
        };
        // Who created it may remain unknown; whether it exists may not.
        remote
            .create("letter", b"hello".to_vec())
            .await
            .unwrap_or_else(|e| panic!("{} {e}", told("create")));
        for (name, bytes) in [("short", &long[..100]), ("long", &long[..])] {
            std::fs::write(&path, bytes).unwrap();
            remote
                .upload(name, &path)
                .await
                .unwrap_or_else(|e| panic!("{} {e}", told("upload")));
            std::fs::write(&path, b"").unwrap();
            let length = bytes.len() as u64;
            remote
                .download(name, length, &path)
                .await
                .unwrap_or_else(|e| panic!("{} {e}", told("download")));
            assert!(std::fs::read(&path).unwrap() == bytes, "{}", told(name));
        }
        assert_eq!(remote.read("letter", 10).await.unwrap(), b"hello");
        assert_eq!(
            remote.create("letter", b"other".to_vec()).await,
            Ok(Put::Exists),
            "{}",
            told("create")
        );
        let names: Vec<String> = remote
            .list("")
            .await
            .unwrap()
            .into_iter()
            .map(|object| object.name)
            .collect();
        assert_eq!(names, ["letter", "long", "short"], "{}", told("list"));
        for name in names {
            remote.delete(&name).await.unwrap();
        }
        assert_eq!(server.names(&format!("{number}/")), Vec::<String>::new());
        if proxy.requests().len() <= number {
            break;
        }
        number += 1;
    }
    assert!(number > 12, "{number} requests were disturbed");
}

#[tokio::test]
async fn failed_request_is_retried() {
    all_operations_with(|_| Failure::Refused(500, "InternalError")).await;
}

#[tokio::test]
async fn busy_server_is_retried() {
    all_operations_with(|_| Failure::Refused(503, "SlowDown")).await;
}

#[tokio::test]
async fn lost_request_is_retried() {
    all_operations_with(|_| Failure::Lost).await;
}

#[tokio::test]
async fn lost_answer_does_no_harm() {
    all_operations_with(|_| Failure::Unanswered).await;
}

#[tokio::test]
async fn truncated_body_is_fetched_again() {
    all_operations_with(|_| Failure::Cut).await;
}

#[tokio::test]
async fn half_body_claiming_to_be_whole_is_refetched() {
    // For short objects that are read in one request, only the reader of the content can tell.
    all_operations_with(|request| {
        let is_file = request.path.ends_with("/long") || request.path.ends_with("/short");
        if is_file && request.method == "GET" {
            Failure::Truncated
        } else {
            Failure::None
        }
    })
    .await;
}

async fn refused(host: &str, url: &str) -> Error {
    remote_at(url, host).list("").await.unwrap_err()
}

#[tokio::test]
async fn retries_of_a_busy_server_are_bounded() {
    let server = BucketServer::start();
    let proxy = Proxy::start(server.address(), |_, _| Failure::Refused(503, "SlowDown"));
    let error = refused(&proxy.host(), "s3://bucket").await;
    assert_eq!(
        error.to_string(),
        "remote s3://bucket cannot be used: it answered 503 SlowDown"
    );
    let asked = proxy.requests().len();
    assert!((3..=10).contains(&asked), "{asked}");
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    let server = BucketServer::start();
    for (status, code, told) in [
        (
            403,
            "AccessDenied",
            "denies access: it answered 403 AccessDenied",
        ),
        (400, "InvalidRequest", "it answered 400 InvalidRequest"),
        (301, "PermanentRedirect", "another region"),
    ] {
        let proxy = Proxy::start(server.address(), move |_, _| Failure::Refused(status, code));
        let error = refused(&proxy.host(), "s3://bucket").await;
        assert!(error.to_string().contains(told), "{error}");
        assert_eq!(proxy.requests().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn missing_bucket_folder_and_server_differ() {
    let server = BucketServer::start();
    let error = refused(&server.host(), "s3://other/x").await;
    assert!(matches!(error, Error::NoSuchRemote { .. }), "{error:?}");
    let put = remote_at("s3://other/x", &server.host())
        .create("a", Vec::new())
        .await;
    assert!(matches!(put, Err(Error::NoSuchRemote { .. })), "{put:?}");
    let error = refused("", "file:///not/there").await;
    assert!(matches!(error, Error::NoSuchRemote { .. }), "{error:?}");
    let error = refused("http://127.0.0.1:1", "s3://bucket").await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn unknown_key_is_refused_and_not_shown() {
    let server = BucketServer::requiring_known_keys();
    let error = refused(&server.host(), "s3://bucket").await;
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(!format!("{error:?}").contains("the-secret-of-the-key"));
}

#[tokio::test]
async fn half_a_key_is_refused_before_any_request() {
    let variables = [("AWS_ACCESS_KEY_ID".to_owned(), "key".to_owned())];
    let clock = Arc::new(InstantClock(std::sync::Mutex::default()));
    let remote = ObjectRemote::new("s3://b", variables, clock, Arc::new(Seeded::new(1))).unwrap();
    let error = remote.list("").await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
}
