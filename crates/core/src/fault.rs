//! Named failpoints where a test may kill the process (fault F1).
//!
//! Without the feature `failpoints` the calls compile to nothing. With it, one failpoint can be armed to
//! abort at its n-th visit, and all visits can be counted, so that the crash runner knows which
//! failpoints exist and that it missed none.

macro_rules! points {
    ($($variant:ident = $name:literal,)*) => {
        /// A failpoint.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Point { $(#[doc = concat!("`", $name, "`")] $variant,)* }

        impl Point {
            /// Every failpoint.
            pub const ALL: &[Point] = &[$(Point::$variant,)*];

            /// The name that arms the failpoint.
            pub const fn name(self) -> &'static str {
                match self { $(Point::$variant => $name,)* }
            }
        }
    };
}

points! {
    SessionBeforeCreate = "session.before_create",
    SessionAfterCreate = "session.after_create",
    JournalBeforeCommit = "journal.before_commit",
    JournalAfterCommit = "journal.after_commit",
    JournalAfterAckMarker = "journal.after_ack_marker",
    LeaseAfterAcquire = "lease.after_acquire",
    StepBeforeEffect = "step.before_effect",
    StepAfterEffect = "step.after_effect",
    BlobBeforeSync = "blob.before_sync",
    BlobBeforeRename = "blob.before_rename",
    BlobAfterRename = "blob.after_rename",
    ArtifactBeforeRename = "artifact.before_rename",
    ArtifactAfterRename = "artifact.after_rename",
    RunBeforeEnd = "run.before_end",
    RunAfterEnd = "run.after_end",
    PackBeforeRename = "pack.before_rename",
    PackAfterRename = "pack.after_rename",
    SnapshotBeforeManifest = "snapshot.before_manifest",
    SnapshotAfterManifest = "snapshot.after_manifest",
    SnapshotAfterHead = "snapshot.after_head",
    SealBeforePublish = "seal.before_publish",
    SealAfterPublish = "seal.after_publish",
    CheckpointBeforeRename = "checkpoint.before_rename",
    CheckpointAfterRename = "checkpoint.after_rename",
    CheckpointAfterDelete = "checkpoint.after_delete",
    RestoreAfterRescue = "restore.after_rescue",
    RestoreAfterStage = "restore.after_stage",
    RestoreAfterMove = "restore.after_move",
    RestoreBeforeFinish = "restore.before_finish",
    SweepAfterUnlist = "sweep.after_unlist",
    SweepAfterRewrite = "sweep.after_rewrite",
    SweepBeforeDelete = "sweep.before_delete",
    SweepAfterDelete = "sweep.after_delete",
    SweepAfterTrash = "sweep.after_trash",
    TranscriptAfterDraft = "transcript.after_draft",
    TranscriptBeforeSync = "transcript.before_sync",
    TranscriptAfterBackup = "transcript.after_backup",
    TranscriptBeforeRename = "transcript.before_rename",
    TranscriptAfterRename = "transcript.after_rename",
    RequestAfterIntent = "request.after_intent",
    RequestAfterEffect = "request.after_effect",
    RequestAfterOutcome = "request.after_outcome",
    BackgroundAfterRequest = "background.after_request",
    WorkerAfterLaunch = "worker.after_launch",
}

/// Aborts the process if this failpoint is armed and this is the armed visit.
#[inline]
pub fn point(point: Point) {
    #[cfg(feature = "failpoints")]
    armed::visit(point);
    #[cfg(not(feature = "failpoints"))]
    let _ = point;
}

#[cfg(feature = "failpoints")]
pub use armed::{arm, confirm_with, on_visit};

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::Point;

    static ARMED: OnceLock<(Point, AtomicU64)> = OnceLock::new();
    static OBSERVER: OnceLock<fn(Point)> = OnceLock::new();
    static CONFIRM: OnceLock<fn() -> bool> = OnceLock::new();

    /// Arms one failpoint: `name` or `name:n` aborts the process at the n-th visit (the first by
    /// default). Returns false if there is no such failpoint or one is already armed.
    pub fn arm(spec: &str) -> bool {
        let (name, visit) = spec.split_once(':').unwrap_or((spec, "1"));
        let point = Point::ALL.iter().find(|point| point.name() == name);
        match (point, visit.parse::<u64>()) {
            (Some(&point), Ok(visit)) if visit > 0 => {
                ARMED.set((point, AtomicU64::new(visit))).is_ok()
            }
            _ => false,
        }
    }

    /// Asks `confirm` at the armed visit; the process lives on if it returns false.
    pub fn confirm_with(confirm: fn() -> bool) {
        let _ = CONFIRM.set(confirm);
    }

    /// Calls `observer` at every visit of every failpoint.
    pub fn on_visit(observer: fn(Point)) {
        let _ = OBSERVER.set(observer);
    }

    pub(super) fn visit(point: Point) {
        if let Some(observer) = OBSERVER.get() {
            observer(point);
        }
        if let Some((armed, left)) = ARMED.get()
            && *armed == point
            && left.fetch_sub(1, Ordering::SeqCst) == 1
            && CONFIRM.get().is_none_or(|confirm| confirm())
        {
            std::process::abort();
        }
    }
}
