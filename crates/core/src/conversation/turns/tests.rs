use super::super::Part;
use super::*;
use proptest::prelude::*;
use serde_json::json;

fn user(text: &str) -> ConversationItem {
    ConversationItem::new(ItemContent::User {
        origin: Origin::User,
        parts: vec![Part::Text { text: text.into() }],
    })
}

fn calls(ids: &[&str]) -> ConversationItem {
    let call = |id: &&str| {
        AssistantPart::Call(ToolCall {
            id: (*id).into(),
            name: "look".into(),
            input: json!({}),
        })
    };
    ConversationItem::new(ItemContent::Assistant {
        message: None,
        model: None,
        parts: ids.iter().map(call).collect(),
        usage: None,
    })
}

fn result(id: &str, text: &str) -> ConversationItem {
    ConversationItem::new(ItemContent::Result(Answer {
        id: id.into(),
        parts: vec![Part::Text { text: text.into() }],
        outcome: Outcome::Succeeded,
    }))
}

/// The rule that every vendor enforces.
fn each_call_has_its_result(turns: &[Turn]) -> bool {
    let mut seen = std::collections::HashSet::new();
    turns.iter().enumerate().all(|(at, turn)| match turn {
        Turn::Assistant { parts, .. } => {
            let ids: Vec<_> = parts
                .iter()
                .filter_map(|part| match part {
                    ModelPart::Call(call) => Some(call.id.as_str()),
                    ModelPart::Text(_) => None,
                })
                .collect();
            let fresh = ids.iter().all(|id| seen.insert((*id).to_owned()));
            let answered = match turns.get(at + 1) {
                Some(Turn::Results { answers, .. }) => {
                    answers.iter().map(|answer| answer.id.as_str()).eq(ids)
                }
                _ => ids.is_empty(),
            };
            fresh && answered
        }
        Turn::Results { .. } => at > 0 && matches!(turns[at - 1], Turn::Assistant { .. }),
        Turn::User { .. } => true,
    })
}

#[test]
fn late_result_joins_its_call_and_missing_is_unknown() {
    let (turns, losses) = turns(&[
        user("go"),
        calls(&["a", "b"]),
        user("hurry"),
        result("a", "late"),
        result("z", "nobody asked"),
    ]);
    assert!(each_call_has_its_result(&turns));
    let Turn::Results { answers, .. } = &turns[2] else {
        panic!("{turns:?}");
    };
    assert_eq!(plain_text(&answers[0].parts), "late");
    assert_eq!(answers[1], unknown_result("b".into()));
    assert_eq!(losses.count(Loss::Unanswered), 1);
    assert_eq!(losses.count(Loss::StrayResult), 1);
    assert_eq!(turns.len(), 5);
}

#[test]
fn items_before_the_last_summary_are_counted_as_lost() {
    let summary = ConversationItem::new(ItemContent::Compaction {
        summary: Some("we looked".into()),
        before: Some(9),
        after: Some(1),
    });
    let (turns, losses) = turns(&[user("go"), calls(&["a"]), summary, user("on")]);
    assert_eq!(losses.count(Loss::BeforeCompaction), 2);
    let said: Vec<_> = turns
        .iter()
        .map(|turn| match turn {
            Turn::User { parts, .. } => plain_text(parts),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(said, ["we looked", "on"]);
}

#[test]
fn thinking_and_side_branches_are_counted_as_lost() {
    let thinking = ConversationItem::new(ItemContent::Assistant {
        message: None,
        model: None,
        parts: vec![AssistantPart::Thinking {
            text: "hm".into(),
            seal: None,
        }],
        usage: None,
    });
    let side = ConversationItem {
        branch: Branch::Side,
        ..user("side")
    };
    let helper = ConversationItem {
        thread: Thread::Agent("h".into()),
        ..user("helper")
    };
    let (turns, losses) = turns(&[thinking, side, helper]);
    assert_eq!(turns, []);
    for loss in [Loss::Thinking, Loss::SideBranch, Loss::SubAgent] {
        assert_eq!(losses.count(loss), 1, "{loss:?}");
    }
}

fn any_entry() -> impl Strategy<Value = ConversationItem> {
    const IDS: &[&str] = &["a", "b", "c", "a_2"];
    prop_oneof![
        "[a-z]{0,4}".prop_map(|text| user(&text)),
        proptest::collection::vec(proptest::sample::select(IDS), 0..3).prop_map(|ids| calls(&ids)),
        proptest::sample::select(IDS).prop_map(|id| result(id, "out")),
    ]
}

proptest! {
    #[test]
    fn every_call_is_followed_by_its_result(
        entries in proptest::collection::vec(any_entry(), 0..20)
    ) {
        let (turns, _) = turns(&entries);
        prop_assert!(each_call_has_its_result(&turns), "{turns:?}");
    }

    #[test]
    fn no_result_is_lost_or_invented(entries in proptest::collection::vec(any_entry(), 0..20)) {
        let (turns, losses) = turns(&entries);
        let asked = entries.iter().filter(|entry| matches!(entry.content, ItemContent::Result(_))).count();
        let answered: usize = turns.iter().map(|turn| match turn {
            Turn::Results { answers, .. } => {
                answers.iter().filter(|answer| answer.outcome == Outcome::Succeeded).count()
            }
            _ => 0,
        }).sum();
        prop_assert_eq!(asked, answered + usize::try_from(losses.count(Loss::StrayResult)).unwrap());
    }
}
