use super::*;

const COMMAND: &str = "'/opt/segno' __hook claude '/home/me/.local/state/segno' || true";

/// Settings files in many layouts.
const FILES: [&str; 14] = [
    "{}",
    "{}\n",
    "{\n}\n",
    "{ }",
    "{\"model\":\"opus\"}",
    "{\n  \"model\": \"opus\"\n}\n",
    "{\n\t\"model\": \"opus\",\n\t\"hooks\": {}\n}\n",
    "{\r\n    \"hooks\": {\r\n    },\r\n    \"z\": 1\r\n}\r\n",
    "{\"hooks\":{\"Stop\":[]}}",
    "{\"hooks\":{},\"a\":[1, 2 ,3]}",
    "{\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}\n    ]\n  }\n}",
    "{\n \"b\": 1,   \"a\": {\"deep\": [1,\n2]},\n \"hooks\": {\"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": []}], \"SessionEnd\": [ ]}\n}\n",
    "{\n  \"hooks\": {\n    \"Stop\": [\n    ]\n  },\n  \"env\": {\"K\": \"\\u00e9 \\\" }\"}\n}\n",
    "\n\n{\"x\":\n1}\n\n",
];

fn value(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn filled(text: &str) -> Filled {
    add(text, COMMAND).unwrap()
}

#[test]
fn added_hooks_cover_all_events_and_can_be_removed() {
    for text in FILES {
        let filled = filled(text);
        let ours = find(&filled.text, Agent::Claude).unwrap();
        let mut events: Vec<&str> = ours.iter().map(|(event, _)| event.as_str()).collect();
        events.sort_unstable();
        assert_eq!(
            events,
            ["SessionEnd", "SessionStart", "Stop"],
            "{}",
            filled.text
        );
        assert_eq!(ours[0].1.binary, Path::new("/opt/segno"));
        assert_eq!(remove_ranges(&filled.text, &filled.added).unwrap(), text);
    }
}

#[test]
fn removal_without_receipt_keeps_the_rest() {
    for text in FILES {
        let stripped = remove(&filled(text).text, Agent::Claude).unwrap();
        let mut before = value(text);
        // Containers that were already empty may be removed.
        if let Some(hooks) = before.get_mut("hooks").and_then(Json::as_object_mut) {
            hooks.retain(|_, groups| groups.as_array().is_some_and(|groups| !groups.is_empty()));
            if hooks.is_empty() {
                before.as_object_mut().unwrap().remove("hooks");
            }
        }
        assert_eq!(value(&stripped), before, "{text}");
    }
}

#[test]
fn other_hooks_keep_their_bytes() {
    let text = FILES[10];
    assert_eq!(remove(&filled(text).text, Agent::Claude).unwrap(), text);
    let text = "{\n  \"hooks\": {\n    \"Stop\": [{\"hooks\": [{\"command\": \"a\"}, {\"command\": \"OURS\"}, {\"command\": \"b; __hook claude\"}]}]\n  },\n  \"z\": 1\n}";
    let mixed = text.replace("OURS", COMMAND);
    let stripped = remove(&mixed, Agent::Claude).unwrap();
    assert_eq!(stripped, text.replace(", {\"command\": \"OURS\"}", ""));
}

#[test]
fn added_hooks_use_the_layout_of_the_file() {
    assert_eq!(
        filled("{\"a\":1}\n").text.lines().count(),
        1,
        "one line stays one line"
    );
    let text = filled("{\r\n\t\"a\": 1\r\n}\r\n").text;
    assert!(
        text.contains("\r\n\t\"hooks\": {\r\n\t\t\"SessionEnd\": [\r\n\t\t\t{\r\n"),
        "{text:?}"
    );
    assert!(!text.replace("\r\n", "").contains('\n'));
    let text = filled("{}").text;
    assert!(
        text.starts_with("{\n  \"hooks\": {\n    \"SessionEnd\": ["),
        "{text}"
    );
    assert!(text.ends_with("\n  }\n}"), "{text}");
}

#[test]
fn hooks_of_other_programs_are_not_ours() {
    let text = filled("{}").text;
    assert_eq!(find(&text, Agent::Codex).unwrap(), []);
    assert_eq!(remove(&text, Agent::Codex).unwrap(), text);
    let lookalike = json!({"hooks": {"Stop": [{"hooks": [
        {"command": "rm x; '/opt/segno' __hook claude '/h' || true"},
        {"command": "segno __hook claude '/h' || true"},
        {"command": "'/opt/segno' __hook claude '/h'"},
        {"command": 7},
    ]}]}});
    assert_eq!(find(&lookalike.to_string(), Agent::Claude).unwrap(), []);
}

#[test]
fn unexpected_format_is_refused() {
    for text in [
        "[]",
        "7",
        "{\"hooks\":[]}",
        "{\"hooks\":null}",
        "{\"hooks\":{\"Stop\":{}}}",
        "{\"hooks\":{},\"hooks\":{}}",
        "{\"hooks\":{\"Stop\":[],\"Stop\":[]}}",
    ] {
        assert!(add(text, COMMAND).is_err(), "{text}");
        assert!(remove(text, Agent::Claude).is_err(), "{text}");
    }
}

#[test]
fn file_that_the_agent_ignores_gets_no_hooks() {
    for (text, reason) in [
        ("{\"a\":1,}", "line 1 has a trailing comma"),
        ("{\n  // mine\n}", "line 2 has a comment"),
        ("{}\n/* mine */", "line 2 has a comment"),
        ("{\"a\": [1,\n],} // x", "line 1 has a trailing comma"),
    ] {
        let refusal = add(text, COMMAND).unwrap_err();
        assert!(refusal.contains(reason), "{refusal}");
        assert!(find(text, Agent::Claude).is_err(), "{text}");
        assert_eq!(remove(text, Agent::Claude).unwrap(), text);
    }
}

#[test]
fn removal_keeps_comments() {
    let group = json!({"hooks": [{"type": "command", "command": COMMAND}]}).to_string();
    for (with, without) in [
        // Behind, before and between the elements of others.
        (
            "{\"hooks\": {\"Stop\": [\n  {\"x\": 1}, // a\n  OURS // b\n], // c\n}, // d\n}\n",
            "{\"hooks\": {\"Stop\": [\n  {\"x\": 1} // a\n   // b\n], // c\n}, // d\n}\n",
        ),
        (
            "{\"hooks\": {\"Stop\": [\n  OURS, // a\n  // b\n  {\"x\": 1}, // c\n]}}",
            "{\"hooks\": {\"Stop\": [\n   // a\n  // b\n  {\"x\": 1}, // c\n]}}",
        ),
        (
            "{\"hooks\": {\"Stop\": [{\"x\": 1}, /* a */ OURS /* b */, {\"y\": 2}]}}",
            "{\"hooks\": {\"Stop\": [{\"x\": 1}, /* a */ /* b */ {\"y\": 2}]}}",
        ),
        // A container with a comment stays.
        (
            "{\r\n  // mine\r\n  \"hooks\": {\"Stop\": [OURS]}\r\n}\r\n",
            "{\r\n  // mine\r\n}\r\n",
        ),
        (
            "{\"hooks\": { // mine\n  \"Stop\": [\n    // b\n    OURS,\n  ],\n}}",
            "{\"hooks\": { // mine\n  \"Stop\": [\n    // b\n  ],\n}}",
        ),
        // The line of a comment must still end.
        (
            "{ // mine\n  \"hooks\": {\"Stop\": [OURS]} }",
            "{ // mine\n   }",
        ),
    ] {
        let removed = remove(&with.replace("OURS", &group), Agent::Claude).unwrap();
        assert_eq!(removed, without);
        document(&removed).unwrap();
    }
}
