use super::*;

fn ids(list: &Checklist) -> Vec<&str> {
    list.tasks.iter().map(|task| task.id.as_str()).collect()
}

fn problems_of(text: &str) -> Vec<String> {
    let problems = read(text).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

const PLAN: &str = "\
# A new parser

The old one is slow.

- [x] **T1**: Read the old parser
- [ ] T2: Write the new one (after T1)
  - keep the error messages
    - [ ] all of them

  The old tests must pass.
* [ ] Tell people: a note (depends on: T1 and `T2`)
  Depends on: docs
1. [ ] **docs:** Write the page
   (nobody reads it)

Thanks!
";

#[test]
fn checklist_has_ids_descriptions_and_dependencies() {
    let list = read(PLAN).unwrap();
    assert_eq!(ids(&list), ["T1", "T2", "T3", "docs"]);
    assert_eq!(
        list.about,
        "# A new parser\n\nThe old one is slow.\n\nThanks!"
    );
    let [first, second, third, docs] = &list.tasks[..] else {
        panic!("{list:?}");
    };
    assert!(first.done && !second.done);
    assert_eq!(first.title, "Read the old parser");
    assert_eq!(second.title, "Write the new one");
    assert_eq!(
        second.description,
        "- keep the error messages\n  - [ ] all of them\n\nThe old tests must pass."
    );
    assert_eq!(third.title, "Tell people: a note");
    assert_eq!(third.depends_on, [0, 1, 3]);
    assert_eq!(docs.description, "(nobody reads it)");
    assert_eq!(list.order(), [0, 1, 3, 2]);
}

#[test]
fn problems_are_reported_with_their_lines() {
    assert_eq!(
        problems_of("just words\n"),
        ["line 1: there is no task: write `- [ ] TITLE`"]
    );
    assert_eq!(
        problems_of("- [ ] T1: a\n\n- [ ] T1: b (after T7)\n- [ ] \n"),
        [
            "line 3: duplicate task `T1`, first defined in line 1",
            "line 3: `after` names an unknown task `T7`",
            "line 4: task T3 has no title",
        ]
    );
    assert_eq!(
        problems_of("- [ ] T1: a (after T3)\n- [ ] T2: b (after T1)\n- [ ] T3: c (after T2)\n"),
        ["line 1: depends on itself: T1 → T3 → T2 → T1"]
    );
    assert_eq!(
        problems_of("- [ ] T1: a (after T1)\n"),
        ["line 1: depends on itself: T1 → T1"]
    );
    let long = "x".repeat(MAX_BYTES + 1);
    assert_eq!(
        problems_of(&long),
        ["line 1: a plan has at most 1048576 bytes"]
    );
}

#[test]
fn text_that_resembles_a_task_is_not_one() {
    for text in [
        "```\n- [ ] in code\n```\n",
        "- a list without boxes\n",
        "- [link](there)\n",
        "-[ ] without a space\n",
        "the box - [ ] inside\n",
        "- [?] neither\n",
    ] {
        assert!(!has_tasks(text), "{text}");
    }
    let list = read("~~~\n```\n- [ ] code\n~~~\n- [ ] Note: no name\n- [ ] T9 (after all)x\n");
    let list = list.unwrap();
    assert_eq!(ids(&list), ["T1", "T2"]);
    assert_eq!(list.tasks[0].title, "Note: no name");
    assert_eq!(list.tasks[1].title, "T9 (after all)x");
}

#[test]
fn unindented_code_block_stays_in_its_task() {
    let list = read("- [ ] a\n  ```\n- [ ] code\n```\n- [ ] b\n").unwrap();
    assert_eq!(ids(&list), ["T1", "T2"]);
    assert_eq!(list.tasks[0].description, "  ```\n- [ ] code\n```");
}

#[test]
fn any_space_separates_an_id_from_its_title() {
    for separator in [": ", "\u{a0}: ", ":\u{a0}", " \u{a0}:: "] {
        let list = read(&format!("- [ ] `docs`{separator}Write")).unwrap();
        assert_eq!((ids(&list), &*list.tasks[0].title), (vec!["docs"], "Write"));
    }
    assert!(read("- [ ] `docs`\u{a0}:").is_err());
}

#[test]
fn generated_ids_do_not_repeat_given_ones() {
    let list = read("- [ ] a\n- [ ] T1: b\n- [ ] c\n- [ ] T4: d\n").unwrap();
    assert_eq!(ids(&list), ["T2", "T1", "T3", "T4"]);
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_is_parsed_or_rejected(text in "(?s).{0,400}") {
        let _ = read(&text);
    }

    #[test]
    fn parsed_plan_round_trips_through_text(
        lines in proptest::collection::vec("([ \t]{0,5}([-*+]|[0-9]{1,2}\\.)? ?(\\[[ xX]\\])? ?(\\*\\*|`|\\[)?(T[1-5]|docs)?(\\*\\*|`|\\])?:?[ \u{a0}]?[a-z(,:\u{e9} ]{0,12}(\\((after|needs:|depends on) (T[1-5]|docs)?(, T[1-5])?\\))?|- \\[ \\] \\*\\*docs\\*\\*: x|[ ]{0,3}(```|~~~)|  Depends on: T[1-5])", 0..12)
    ) {
        if let Ok(list) = read(&lines.join("\n")) {
            let order = list.order();
            proptest::prop_assert_eq!(order.len(), list.tasks.len());
            for (at, place) in order.iter().enumerate() {
                for before in &list.tasks[*place].depends_on {
                    proptest::prop_assert!(order[..at].contains(before));
                }
            }
            let again = read(&list.text()).unwrap();
            proptest::prop_assert_eq!(&again.tasks, &list.tasks);
        }
    }
}
