//! Measures redaction on generated texts. `make test` prints the figures.

use std::fmt::Write;
use std::path::Path;

use segno_secrets::redact::Redactor;
use segno_testkit::corpus::{Corpus, Sample};

/// The number of texts of each kind per seed.
const COUNT: usize = 2000;
/// The rules were written with the first seed at hand; the second shows that they fit more than that.
const SEEDS: [u64; 2] = [1, 6];

/// The share of `part` in percent.
fn percent(part: usize, whole: usize) -> f64 {
    part as f64 * 100.0 / whole as f64
}

fn list<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> String {
    let lines = samples
        .into_iter()
        .map(|sample| format!("{}: {:?}", sample.kind, sample.text));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn redaction_finds_secrets_and_spares_lookalikes() {
    let mut figures = String::from("redaction:");
    for seed in SEEDS {
        let corpus = Corpus::new(seed, COUNT);
        let redactor = Redactor::new(corpus.environment.clone());
        let leaked: Vec<_> = corpus
            .secrets
            .iter()
            .filter(|sample| sample.leaks_into(&redactor.redact(&sample.text)))
            .collect();
        let changed: Vec<_> = corpus
            .harmless
            .iter()
            .filter(|sample| redactor.redact(&sample.text) != sample.text)
            .collect();
        let recall = 100.0 - percent(leaked.len(), COUNT);
        let false_positives = percent(changed.len(), COUNT);
        assert!(recall >= 99.0, "seed {seed}, leaked:\n{}", list(leaked));
        assert!(
            false_positives <= 1.0,
            "seed {seed}, changed:\n{}",
            list(changed)
        );
        write!(
            figures,
            " {recall:.2} % of {COUNT} secrets found, {false_positives:.2} % of {COUNT} harmless texts changed (seed {seed});"
        )
        .unwrap();
    }
    let figures = figures.trim_end_matches(';').to_owned() + "\n";
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redaction.txt");
    std::fs::write(file, figures).unwrap();
}

#[test]
fn corpus_depends_on_the_seed_alone() {
    let text = |seed| format!("{:?}", Corpus::new(seed, 40));
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
}

#[test]
fn leaks_are_seen_across_line_breaks() {
    let corpus = Corpus::new(5, 200);
    assert!(
        corpus
            .secrets
            .iter()
            .all(|sample| sample.leaks_into(&sample.text))
    );
    assert!(corpus.secrets.iter().all(|sample| !sample.leaks_into("")));
}

#[test]
fn corpus_is_redacted_once_and_for_all() {
    let corpus = Corpus::new(9, 400);
    let redactor = Redactor::new(corpus.environment.clone());
    for sample in corpus.secrets.iter().chain(&corpus.harmless) {
        let once = redactor.redact(&sample.text).into_owned();
        assert_eq!(redactor.redact(&once), once, "{}", sample.kind);
    }
}
