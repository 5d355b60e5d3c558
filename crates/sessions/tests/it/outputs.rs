//! Answers of earlier steps, from memory or from the blob store.

use segno_core::journal::{Event, Text};

use crate::harness::{chain, harness};

#[tokio::test]
async fn template_sees_all_earlier_answers() {
    let harness = harness(
        "answers:\n- {step: steps/0, text: first}\n- {step: steps/1, text: second}\n- {step: steps/2, text: third}\n",
    );
    let spec = chain(
        "",
        &[
            "a",
            "b",
            "{% for s in steps %}{{ loop.index }}:{{ s.agent }}:{{ s.response }} {% endfor %}{{ steps[1].index }}{{ steps[-2].response }}",
        ],
    );
    harness.run(&spec).await.unwrap();
    let entries = harness.seen.entries.lock().unwrap();
    let prompt = entries.iter().find_map(|entry| match &entry.event {
        Event::StepStarted(event) if event.path.as_str() == "steps/2" => Some(event.input.clone()),
        _ => None,
    });
    assert_eq!(
        prompt,
        Some(Text::Inline("1:a:first 2:a:second 1first".into()))
    );
}

#[tokio::test]
async fn step_without_input_gets_the_previous_answer() {
    let harness =
        harness("answers:\n- {step: steps/0, text: first}\n- {contains: first, text: heard}\n");
    let spec = chain("", &["a"]).replace("}]", "}, {agent: a}]");
    assert_eq!(harness.run(&spec).await.unwrap().output, "heard");
}

#[tokio::test]
async fn answers_beyond_the_cache_are_read_from_blobs() {
    // Twelve answers of a megabyte: the first ones are dropped from memory and read again from the
    // blob store.
    let harness = harness("default: {repeat: {text: \"0123456789abcde \", bytes: 1048576}}");
    let mut steps = vec!["a"; 12];
    steps.push("{% for s in steps %}{{ s.response[:4] }}{% endfor %}");
    harness.run(&chain("", &steps)).await.unwrap();
    let entries = harness.seen.entries.lock().unwrap();
    let prompt = entries.iter().rev().find_map(|entry| match &entry.event {
        Event::StepStarted(event) => Some(event.input.clone()),
        _ => None,
    });
    assert_eq!(prompt, Some(Text::Inline("0123".repeat(12))));
}
