//! Defaults that documents promise, and rules of statuses, as users meet them.

use segno_core::time::Timestamp;
use serde_json::json;

use super::{
    edit, failing_chain, fix_answers, of_kind, scripted, session_statuses, shown, start_waiting,
    waiting_chain,
};
use crate::sandbox;

#[test]
fn documented_defaults_hold() {
    let sandbox = sandbox();
    let shown = sandbox
        .segno(&["config", "show", "--json"])
        .expect_success();
    let config = shown.json().remove(0);
    let value = |name: &str| {
        let mut settings = config["settings"].as_array().unwrap().iter();
        let found = settings.find(|setting| setting["key"] == name).unwrap();
        assert_eq!(found["source"], "default", "{name}");
        found["value"].clone()
    };
    for (name, expected) in [
        ("cleanup.max_age_days", json!(7)),
        ("cleanup.keep_completed", json!(true)),
        ("cleanup.auto", json!(false)),
        ("trash.keep_days", json!(7)),
        ("checkpoints.keep", json!(10)),
        ("checkpoints.max_age_days", json!(7)),
        ("lease.ttl_ms", json!(30_000)),
        ("chat.idle_after_s", json!(300)),
        ("chat.expires_after_s", json!(1800)),
        ("claude-code.permissions", json!("edit")),
        ("codex.permissions", json!("edit")),
        ("acp.permissions", json!("edit")),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
}

#[test]
fn waiting_session_cannot_be_paused_and_paused_one_can_be_cancelled() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: one", "QUESTION"],
        "default: {text: fine}",
    );
    edit(
        &sandbox,
        "agent: a, QUESTION",
        "type: hitl, prompt: Continue?",
    );
    sandbox.segno(&["run", "chain.yaml"]).refused(19, &[]);
    sandbox.segno(&["pause", "chain"]).refused(17, &["[S0116]"]);
    assert_eq!(shown(&sandbox, "chain")["status"], "waiting");

    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &["--name", "other"]);
    let paused = sandbox
        .segno(&["pause", "other", "--force"])
        .expect_success();
    let hint = "segno resume other";
    assert!(paused.stderr.contains(hint), "{}", paused.stderr);
    live.finish();
    assert_eq!(shown(&sandbox, "other")["status"], "paused");
    sandbox.segno(&["cancel", "other"]).expect_success();
    assert_eq!(shown(&sandbox, "other")["status"], "cancelled");
    sandbox.segno(&["resume", "other"]).refused(17, &[]);
}

#[test]
fn auto_resume_takes_the_newest_of_several() {
    let sandbox = sandbox();
    failing_chain(&sandbox);
    for name in ["older", "newer"] {
        let words = ["run", "chain.yaml", "--name", name];
        sandbox.segno(&words).refused(10, &["no key"]);
    }
    fix_answers(&sandbox);
    sandbox
        .segno(&["run", "chain.yaml", "--auto-resume"])
        .expect_success();
    let is = |name: &str, status: &str| (name.to_owned(), status.to_owned());
    assert_eq!(
        session_statuses(&sandbox),
        [is("newer", "completed"), is("older", "failed")]
    );
}

#[test]
fn resume_reports_saved_tokens_and_cost() {
    let sandbox = sandbox();
    scripted(
        &sandbox,
        &["input: one", "input: two"],
        "answers:\n  - {step: steps/0, text: fine, usage: {input_tokens: 1200, output_tokens: 34, cost_usd: 0.56}}\n  - {step: steps/1, fail: {kind: auth, message: no key}}",
    );
    sandbox.segno(&["run", "chain.yaml"]).refused(10, &[]);
    fix_answers(&sandbox);
    let resumed = sandbox.segno(&["resume", "chain"]).expect_success();
    let saved = "saved 1,234 tokens, $0.56";
    assert!(resumed.stderr.contains(saved), "{}", resumed.stderr);
}

#[test]
fn chain_of_a_thousand_steps_runs_to_its_end() {
    let sandbox = sandbox();
    sandbox.scripted_chain(1000, 0);
    let run = sandbox
        .segno(&["run", "chain.yaml", "--json"])
        .expect_success();
    assert_eq!(of_kind(&run.json(), "step_finished").len(), 1000);
    assert_eq!(sandbox.calls().len(), 1000);
}

/// The current time, as Segno writes it.
#[expect(
    clippy::disallowed_methods,
    reason = "the machine's clock is compared with"
)]
fn now() -> String {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(since.as_millis()).unwrap()).to_string()
}

#[test]
fn times_are_those_of_the_events() {
    let sandbox = sandbox();
    let before = now();
    waiting_chain(&sandbox, 2, 1);
    let (live, _) = start_waiting(&sandbox, &[]);
    sandbox
        .segno(&["pause", "chain", "--force", "--reason", "lunch"])
        .expect_success();
    live.finish();
    sandbox
        .segno(&["note", "decision", "use SQLite", "--session", "chain"])
        .expect_success();
    let after = now();
    let listed = sandbox.segno(&["checkpoint", "list", "chain", "--json"]);
    let notes = sandbox.segno(&["note", "list", "chain", "--json"]);
    for (what, at) in [
        ("checkpoint", &listed.json()[0]["at"]),
        ("stop", &shown(&sandbox, "chain")["stopped"]["at"]),
        ("note", &notes.json()[0]["at"]),
    ] {
        let at = at.as_str().unwrap_or_else(|| panic!("{what}: {at}"));
        assert!(
            *before <= *at && *at <= *after,
            "{what}: {before} {at} {after}"
        );
    }
}
