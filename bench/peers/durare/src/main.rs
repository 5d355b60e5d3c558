//! One round of durare on SQLite: `peer-durare STEPS DIR MODE`.
//!
//! MODE `default` uses the provider's own connection settings (WAL,
//! `synchronous = NORMAL`); MODE `full` hands it a pool with the same settings
//! except `synchronous = FULL`, so that each step is on disk when it returns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use durare::{DurableContext, DurableEngine, Error, SqliteProvider, WorkflowOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

type AnyError = Box<dyn std::error::Error>;

/// 2,048 characters that differ from step to step.
fn output(step: u64) -> String {
    format!("{step:08}").repeat(256)
}

async fn chain(ctx: DurableContext, steps: u64) -> Result<f64, Error> {
    let begun = Instant::now();
    for step in 0..steps {
        let out: String = ctx
            .step("step", move || async move { Ok::<_, Error>(output(step)) })
            .await?;
        std::hint::black_box(out);
    }
    Ok(begun.elapsed().as_secs_f64() * 1e3 / steps as f64)
}

async fn provider(file: &str, full: bool) -> Result<SqliteProvider, AnyError> {
    if !full {
        return Ok(SqliteProvider::connect(&format!("sqlite://{file}")).await?);
    }
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .foreign_keys(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(5));
    let pool = SqlitePoolOptions::new()
        .max_connections(5)
        .connect_with(options)
        .await?;
    let set: i64 = sqlx::query_scalar("PRAGMA synchronous")
        .fetch_one(&pool)
        .await?;
    if set != 2 {
        return Err(format!("synchronous is {set}, not 2 (FULL)").into());
    }
    Ok(SqliteProvider::from_pool(pool))
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let args: Vec<String> = std::env::args().collect();
    let [_, steps, dir, mode] = args.as_slice() else {
        return Err("usage: peer-durare STEPS DIR default|full".into());
    };
    let steps: u64 = steps.parse()?;
    let provider = provider(&format!("{dir}/durare.db"), mode == "full").await?;
    let mut engine = DurableEngine::new(Arc::new(provider)).await?;
    engine.register("chain", chain);
    engine.launch().await?;
    let ms: f64 = engine
        .start::<_, f64>("chain", steps, WorkflowOptions::with_id("bench"))
        .await?
        .result()
        .await?;
    println!("{}", serde_json::json!({ "ms_per_step": ms }));
    engine.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
