//! `/metrics`, read by a strict parser of the text format.

use std::collections::{BTreeMap, BTreeSet};

use segno_testkit::sandbox::wait_until;
use serde_json::json;

use super::{Request, Serving, token};
use crate::commands::write_asking_workflow;
use crate::sandbox;

/// The samples of a text, by name and labels.
type Samples = BTreeMap<(String, Vec<(String, String)>), f64>;

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn labels(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(is_name(name), "{text}");
        let (value, after) = after.split_once('"').unwrap();
        found.push((name.to_owned(), value.to_owned()));
        rest = after.strip_prefix(',').unwrap_or(after);
        assert!(after.is_empty() || after.starts_with(','), "{text}");
    }
    found
}

/// The samples, after checking what the format demands: types before samples, each name in one
/// group, no sample twice, and histograms that add up.
fn parse(text: &str) -> Samples {
    assert!(text.ends_with('\n'));
    let mut types = BTreeMap::new();
    let mut current = String::new();
    let mut groups = BTreeSet::new();
    let mut samples = Samples::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty(), "{line}");
            assert!(groups.insert(name.to_owned()), "{name} has two groups");
            name.clone_into(&mut current);
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(name, current);
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            types.insert(name.to_owned(), kind.to_owned());
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap();
        let (name, labels) = match series.split_once('{') {
            None => (series, Vec::new()),
            Some((name, rest)) => (name, labels(rest.strip_suffix('}').unwrap())),
        };
        assert!(is_name(name), "{line}");
        let kind = types[&current].as_str();
        let suffixes: &[&str] = match kind {
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let belongs = suffixes
            .iter()
            .any(|suffix| name == format!("{current}{suffix}"));
        assert!(belongs, "{line} is not in the group {current}");
        assert!(kind != "counter" || name.ends_with("_total"), "{line}");
        let seen = samples.insert((name.to_owned(), labels), value);
        assert_eq!(seen, None, "{line} is there twice");
    }
    check_histograms(&samples);
    samples
}

fn check_histograms(samples: &Samples) {
    for ((name, labels), count) in samples {
        let Some(base) = name.strip_suffix("_count") else {
            continue;
        };
        let mut buckets = Vec::new();
        for ((other, more), value) in samples {
            let le = more.iter().find(|(label, _)| label == "le");
            let same: Vec<_> = more.iter().filter(|(label, _)| label != "le").collect();
            if *other == format!("{base}_bucket") && same.into_iter().eq(labels) {
                let bound = &le.unwrap().1;
                let bound: f64 = bound.replace("+Inf", "inf").parse().unwrap();
                buckets.push((bound, *value));
            }
        }
        buckets.sort_by(|left, right| left.0.total_cmp(&right.0));
        assert!(buckets.is_sorted_by(|left, right| left.1 <= right.1));
        let (bound, last) = *buckets.last().unwrap();
        assert!(bound.is_infinite() && (last - count).abs() < 0.5, "{name}");
        assert!(samples.contains_key(&(format!("{base}_sum"), labels.clone())));
    }
}

#[track_caller]
fn value(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels = labels
        .iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
    let key = (name.to_owned(), labels.collect());
    *samples
        .get(&key)
        .unwrap_or_else(|| panic!("{key:?} is not in {samples:#?}"))
}

#[test]
fn metrics_count_sessions_requests_and_readers() {
    let sandbox = sandbox();
    sandbox.scripted_chain(2, 0);
    sandbox.segno(&["run", "chain.yaml"]).expect_success();
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "operate");
    let scrape = || parse(&serving.get(&token, "/metrics").expect(200).body);
    let first = scrape();
    let near = |samples: &Samples, name: &str, labels: &[(&str, &str)], wanted: f64| {
        (value(samples, name, labels) - wanted).abs() < 1e-9
    };
    assert!(near(
        &first,
        "segno_sessions",
        &[("status", "completed")],
        1.0
    ));
    assert!(near(&first, "segno_steps_finished", &[], 2.0));
    assert!(near(
        &first,
        "segno_tokens",
        &[("direction", "input")],
        200.0
    ));
    assert!(near(&first, "segno_cost_usd", &[], 0.002));
    assert!(value(&first, "process_resident_memory_bytes", &[]) > 1e6);
    assert!(value(&first, "process_open_fds", &[]) > 5.0);
    assert!(value(&first, "segno_uptime_seconds", &[]) > 0.0);
    // What changes afterwards is counted without reading everything again.
    write_asking_workflow(&sandbox);
    sandbox.segno(&["run", "report.yaml"]).refused(19, &[]);
    wait_until("the question is counted", || {
        let now = scrape();
        near(&now, "segno_questions_open", &[], 1.0)
            && near(&now, "segno_sessions", &[("status", "waiting")], 1.0)
    });
    let words = ["sessions", "delete", "chain", "--yes"];
    sandbox.segno(&words).expect_success();
    wait_until("the deleted session is not counted", || {
        near(&scrape(), "segno_sessions", &[("status", "completed")], 0.0)
    });
    let request = Request::get("/api/v1/sessions/report/events").token(&token);
    let mut stream = serving.follow(request);
    stream.next_event().unwrap();
    serving.send(&Request::get("/surprise")).expect(404);
    let path = "/api/v1/sessions/report/notes";
    let note = json!({"notes": [{"todo": {"text": "x", "progress": "pending"}}]});
    serving.post(&token, path, &note).expect(200);
    loop {
        if stream.next_event().unwrap().data["kind"] == "memos_written" {
            break;
        }
    }
    let last = scrape();
    assert!(near(&last, "segno_event_readers", &[], 1.0));
    assert!(value(&last, "segno_event_latency_seconds_count", &[]) >= 1.0);
    let name = "segno_http_requests_total";
    let noted = [
        ("method", "POST"),
        ("route", "/api/v1/sessions/{session}/notes"),
        ("status", "200"),
    ];
    assert!(near(&last, name, &noted, 1.0));
    let unknown = [("method", "GET"), ("route", "none"), ("status", "404")];
    assert!(near(&last, name, &unknown, 1.0));
    drop(stream);
    wait_until("the reader is gone", || {
        near(&scrape(), "segno_event_readers", &[], 0.0)
    });
}

#[test]
fn runs_are_active_while_their_process_lives() {
    let sandbox = sandbox();
    sandbox.scripted_chain(50, 200);
    let mut run = sandbox.start(&["run", "chain.yaml"]);
    let serving = Serving::start(&sandbox);
    let token = token(&sandbox, "read");
    let active = || {
        let samples = parse(&serving.get(&token, "/metrics").expect(200).body);
        value(&samples, "segno_runs_active", &[]) > 0.5
    };
    wait_until("the run is counted", active);
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("the killed run is not counted", || !active());
}
