//! (i) Homes with many sessions: how long the first page of a list takes, and a start whose name is
//! taken often.

use std::time::Instant;

use segno_core::id::SessionId;
use segno_core::session::Status;
use segno_core::store::{Journal, LeaseUpdate, Sessions};
use segno_core::time::Timestamp;
use segno_testkit::journal::{JournalBuilder, run_ended};
use segno_testkit::sandbox::{Sandbox, memory_dir};

use crate::disk::Disk;
use crate::figures::{Bar, Row, Samples, Table, millis};
use crate::{Plan, log_progress, parts};

const REPETITIONS: usize = 15;

/// In memory: only reading is measured, and making the sessions takes many syncs.
pub(crate) fn measure(plan: &Plan, disk: &mut Disk, table: &mut Table) {
    let folder = memory_dir();
    let sandbox = Sandbox::new(&plan.segno);
    let mut made = 0_u32;
    let counts: &[(u32, f64)] = if plan.quick {
        &[(10_000, 30.0)]
    } else {
        &[(10_000, 30.0), (100_000, 60.0)]
    };
    for (count, most) in counts {
        log_progress(&format!("  creating {count} sessions"));
        make(folder.path(), made..*count);
        made = *count;
        let run = |words: &[&str]| {
            let mut command = sandbox.command(words);
            command.env("SEGNO_HOME", folder.path().join("home"));
            let begun = Instant::now();
            let output = command.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            millis(begun.elapsed())
        };
        let first = run(&["sessions", "list", "--all"]);
        let (mut all, mut open) = (Samples::default(), Samples::default());
        for _ in 0..REPETITIONS {
            disk.probe();
            all.push(run(&["sessions", "list", "--all", "--limit", "50"]));
            open.push(run(&["status"]));
        }
        let of = |what: &str| format!("{count} sessions: {what}");
        let mut once = Samples::default();
        once.push(first);
        table.add(Row::single("i", of("first list of all"), "ms", once));
        let row = Row::single("i", of("first page"), "ms", all);
        table.add(row.bar(Bar::AtMost(*most)));
        table.add(Row::single("i", of("segno status"), "ms", open));
    }
}

pub(crate) fn make(folder: &std::path::Path, numbers: std::ops::Range<u32>) {
    let store = parts::store(folder);
    parts::runtime().block_on(async {
        for number in numbers {
            let mut entropy = [0; 10];
            entropy[..4].copy_from_slice(&number.to_be_bytes());
            let at = Timestamp(1_700_000_000_000 + i64::from(number) * 1000);
            let mut journal = JournalBuilder::of(SessionId::new(at, entropy));
            let new = journal.create(&format!("session-{number}"));
            store.create(new).await.unwrap();
            let mut end = journal.batch([run_ended(Status::Completed)]);
            end.lease = LeaseUpdate::Release;
            store.append(end).await.unwrap();
        }
    });
}
