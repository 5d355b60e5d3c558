//! Answers of earlier steps, at hand or fetched.

use segno_core::journal::{Event, Text};

use crate::world::{chain, stage};

#[tokio::test]
async fn a_template_sees_every_earlier_answer() {
    let stage = stage(
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
    stage.run(&spec).await.unwrap();
    let entries = stage.seen.entries.lock().unwrap();
    let asked = entries.iter().find_map(|entry| match &entry.event {
        Event::StepStarted(event) if event.path.as_str() == "steps/2" => Some(event.input.clone()),
        _ => None,
    });
    assert_eq!(
        asked,
        Some(Text::Inline("1:a:first 2:a:second 1first".into()))
    );
}

#[tokio::test]
async fn a_step_without_input_gets_the_answer_before_it() {
    let stage =
        stage("answers:\n- {step: steps/0, text: first}\n- {contains: first, text: heard}\n");
    let spec = chain("", &["a"]).replace("}]", "}, {agent: a}]");
    assert_eq!(stage.run(&spec).await.unwrap().output, "heard");
}

#[tokio::test]
async fn more_answers_than_fit_at_hand_are_fetched_again() {
    // Twelve answers of a megabyte: the first are let go and come back from the blob store.
    let stage = stage("default: {repeat: {text: \"0123456789abcde \", bytes: 1048576}}");
    let mut steps = vec!["a"; 12];
    steps.push("{% for s in steps %}{{ s.response[:4] }}{% endfor %}");
    stage.run(&chain("", &steps)).await.unwrap();
    let entries = stage.seen.entries.lock().unwrap();
    let asked = entries.iter().rev().find_map(|entry| match &entry.event {
        Event::StepStarted(event) => Some(event.input.clone()),
        _ => None,
    });
    assert_eq!(asked, Some(Text::Inline("0123".repeat(12))));
}
