//! Targets for workflow specs, which are YAML from users and strangers, and for plans, which agents
//! write.

use segno_spec::checklist;
use segno_spec::{load, parse};

use crate::seeds;
use crate::target::Target;

/// Specs, and the files that they refer to.
pub const SPEC: Target = Target {
    name: "spec",
    seeds: || seeds::files("examples", ".yaml"),
    dictionary: &[
        b"&a [*a, *a]",
        b"*a",
        b"!!binary ",
        b"<<: *a",
        b"? ",
        b"- ",
        b"  ",
        b": ",
        b"{{ ",
        b" }}",
        b"{% for x in range(999999999) %}",
        b"$ref: other.yaml",
        b"output_schema: schema.json",
        b"0x7fffffffffffffff",
        b".inf",
        b".nan",
    ],
    fix_checksums: |_, _| (),
    check,
};

/// A spec is accepted or refused in the same way each time, and its self-contained form parses to
/// the same workflow.
fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let files = |_: &str| Ok("{\"type\": \"object\", \"provider\": \"scripted\"}".to_owned());
    let read = || load(&text, &files);
    match (read(), read()) {
        (Ok((alone, workflow)), Ok((again, _))) => {
            assert_eq!(alone, again);
            let kept = parse(&alone).expect("a self-contained spec can be parsed again");
            assert_eq!(format!("{kept:?}"), format!("{workflow:?}"));
        }
        (Err(one), Err(two)) => assert_eq!(format!("{one:?}"), format!("{two:?}")),
        _ => panic!("parsing a spec is deterministic"),
    }
}

/// Plans as Markdown checklists.
pub const CHECKLIST: Target = Target {
    name: "checklist",
    seeds: || {
        let mut seeds = seeds::files("docs/guide", "work.md");
        seeds.push(b"- [x] **T1**: a\n- [ ] T2: b (after T1)\n  c\n\n  - [ ] d\n1. [ ] `e` f (needs T1, T2)\n   Depends on: T1\n".to_vec());
        seeds
    },
    dictionary: &[
        b"- [ ] ",
        b"* [x] ",
        b"1) [X] ",
        b"**T1**",
        b"T2: ",
        b" (after T1, T2)",
        b" (depends on: T1 and T2)",
        b"Depends on: T3",
        b"```\n",
        b"~~~\n",
        b"\t",
        b"    ",
        b"\r\n",
    ],
    fix_checksums: |_, _| (),
    check: check_plan,
};

/// A plan is refused, or each of its tasks comes after its dependencies and the plan can be written
/// and read again without a difference.
fn check_plan(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(list) = checklist::read(&text) else {
        return;
    };
    let order = list.order();
    assert_eq!(order.len(), list.tasks.len());
    for (at, place) in order.iter().enumerate() {
        let needed = &list.tasks[*place].depends_on;
        assert!(needed.iter().all(|before| order[..at].contains(before)));
    }
    let again = checklist::read(&list.text()).expect("an encoded checklist can be parsed");
    assert_eq!(again.tasks, list.tasks);
}
