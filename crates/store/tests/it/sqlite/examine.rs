//! What `doctor` asks a store: each kind of damage, and what does not belong into a home.

use segno_core::journal::{StopMode, StopRequested};
use segno_core::store::{CachedState, Finding, Inbox, InboxMessage, Severity};

use super::*;

async fn findings(store: &Sqlite) -> Vec<Finding> {
    store.examine().await.unwrap()
}

/// The database of a session, opened by someone else.
fn database(folder: &TempDir, session: SessionId) -> Connection {
    let path = format!("home/sessions/{session}/journal.db");
    Connection::open(folder.path().join(path)).unwrap()
}

/// A session with a message in its inbox and a folded state.
async fn session_with_caches(store: &Sqlite) -> SessionId {
    let mut journal = create(store, 1, "one").await;
    let mut batch = journal.batch([step_started("steps/0")]);
    batch.cached_state = Some(CachedState {
        head: batch.head(),
        version: 1,
        body: "{\"a\": 1}".to_owned(),
    });
    store.append(batch).await.unwrap();
    let stop = StopRequested {
        by: "me".to_owned(),
        mode: StopMode::Boundary,
        status: Status::Paused,
        reason: None,
        checkpoint: None,
    };
    let message = InboxMessage::Stop(stop);
    store
        .post(journal.session, Timestamp(1), message)
        .await
        .unwrap();
    journal.session
}

#[tokio::test]
async fn entries_that_nobody_knows_are_named() {
    let (store, folder) = fresh(Arc::default());
    create(&store, 1, "one").await;
    assert_eq!(findings(&store).await, []);
    let home = folder.path().join("home");
    let strange = [
        "strange",
        "sessions/strange",
        "sessions/01arz3ndektsv4rrffq69g5fav",
        "heads/strange",
        "trash/strange",
        "names/strange",
    ];
    for path in strange {
        fs::write(home.join(path), "").unwrap();
    }
    // The draft of a migration.
    fs::create_dir(home.join("sessions/.migrating")).unwrap();
    fs::write(home.join("config.toml"), "").unwrap();
    let found = findings(&store).await;
    assert!(found.iter().all(|it| it.severity == Severity::Notice));
    let mut named: Vec<PathBuf> = found.into_iter().map(|it| it.object.into()).collect();
    named.sort();
    let mut expected = strange.map(|path| home.join(path));
    expected.sort();
    assert_eq!(named, expected);
}

#[tokio::test]
async fn missing_reserve_is_noticed() {
    let (store, folder) = fresh(Arc::default());
    fs::remove_file(folder.path().join("home/reserve")).unwrap();
    let found = findings(&store).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].object, "the reserve");
}

#[tokio::test]
async fn altered_message_is_damage_of_the_inbox() {
    let (store, folder) = fresh(Arc::default());
    let session = session_with_caches(&store).await;
    assert_eq!(damage(&store).await, [""; 0]);
    let changed = database(&folder, session)
        .execute("UPDATE inbox SET body = replace(body, 'me', 'we')", [])
        .unwrap();
    assert_eq!(changed, 1);
    assert_eq!(
        damage(&store).await,
        ["its inbox: has a message that does not match its checksum"]
    );
}

#[tokio::test]
async fn altered_folded_state_is_damage_and_not_used() {
    let (store, folder) = fresh(Arc::default());
    let session = session_with_caches(&store).await;
    assert!(store.cached_state(session).await.unwrap().is_some());
    let changed = database(&folder, session)
        .execute("UPDATE folded SET body = replace(body, '1', '2')", [])
        .unwrap();
    assert_eq!(changed, 1);
    assert_eq!(
        damage(&store).await,
        ["its folded state: does not match its checksum; it is only a cache and is not used"]
    );
    assert_eq!(store.cached_state(session).await, Ok(None));
}

#[tokio::test]
async fn database_with_another_schema_is_refused() {
    let (store, folder) = fresh(Arc::default());
    let session = create(&store, 1, "one").await.session;
    drop(store);
    database(&folder, session)
        .execute_batch("CREATE TABLE other (x)")
        .unwrap();
    let store = open(&folder, Arc::default());
    let error = store.summary(session).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Damaged);
    assert!(
        error.to_string().contains("differs from Segno's schema"),
        "{error}"
    );
}
