//! The API keeps its promises to clients: the recorded document `docs/formats/openapi.json` is
//! compared with the one that the server serves.
//!
//! A client of the recorded API must work with this server. So nothing that a client may read or
//! call may disappear or become something else, and nothing that it sends may be refused. Additions
//! pass; `INSTA_UPDATE=always` records them, as it does for the other stored outputs.

#![expect(
    clippy::disallowed_methods,
    reason = "the recorded document is read and written"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Request, Serving};
use crate::sandbox;

fn recorded_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/openapi.json")
}

/// The document without the version of the program.
fn served() -> Value {
    let sandbox = sandbox();
    let serving = Serving::start(&sandbox);
    let answer = serving.send(&Request::get("/openapi.json")).expect(200);
    let mut document = answer.json();
    document["info"]["version"] = "1".into();
    document
}

#[test]
fn clients_of_the_recorded_api_still_work() {
    let served = served();
    let text = std::fs::read_to_string(recorded_path()).unwrap_or_default();
    let recorded: Value = serde_json::from_str(&text).unwrap_or_default();
    let broken = breaking_changes(&recorded, &served);
    let updates = std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always");
    if updates {
        let text = serde_json::to_string_pretty(&served).unwrap();
        std::fs::write(recorded_path(), text + "\n").unwrap();
        return;
    }
    assert!(
        broken.is_empty(),
        "these changes break clients of the API:\n  {}\nUndo them, or give the changed routes another version (`/api/v2`). If nobody can have used them, record the new API with `INSTA_UPDATE=always` and say so in the commit.",
        broken.join("\n  ")
    );
    assert!(
        recorded["paths"].is_object(),
        "docs/formats/openapi.json is missing; record it with `INSTA_UPDATE=always`"
    );
    if recorded != served {
        println!("the API has additions; record them with `INSTA_UPDATE=always`");
    }
}

/// The changes from one document to another that break clients.
fn breaking_changes(old: &Value, new: &Value) -> Vec<String> {
    let mut comparison = Comparison {
        old,
        new,
        compared: BTreeSet::new(),
        broken: Vec::new(),
    };
    for (path, methods) in fields(&old["paths"]) {
        for (method, operation) in fields(methods) {
            let name = format!("{} {path}", method.to_uppercase());
            match new["paths"][path].get(method) {
                Some(now) => comparison.operation(&name, operation, now),
                None => comparison.broken.push(format!("{name} was removed")),
            }
        }
    }
    comparison.broken
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn words(value: &Value) -> BTreeSet<String> {
    let words = value.as_array().into_iter().flatten();
    words
        .map(|word| word.to_string().replace('"', ""))
        .collect()
}

/// Who reads values of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// The server reads what clients send.
    Server,
    Client,
}

struct Comparison<'a> {
    old: &'a Value,
    new: &'a Value,
    /// Pairs of schemas that were compared, which may refer to each other.
    compared: BTreeSet<String>,
    broken: Vec<String>,
}

impl Comparison<'_> {
    fn operation(&mut self, name: &str, old: &Value, new: &Value) {
        let scope = |operation: &Value| match operation["x-segno-scope"].as_str() {
            None => 0,
            Some("read") => 1,
            Some("operate") => 2,
            Some(_) => 3,
        };
        if scope(new) > scope(old) {
            let needed = &new["x-segno-scope"];
            self.broken.push(format!("{name} needs the scope {needed}"));
        }
        self.parameters(name, &old["parameters"], &new["parameters"]);
        self.body(name, &old["requestBody"], &new["requestBody"]);
        for (status, response) in fields(&old["responses"]) {
            let Some(now) = new["responses"].get(status) else {
                let problem = format!("{name} no longer answers with status {status}");
                self.broken.push(problem);
                continue;
            };
            for (kind, content) in fields(&response["content"]) {
                let Some(now) = now["content"].get(kind) else {
                    self.broken
                        .push(format!("{name} no longer answers with {kind}"));
                    continue;
                };
                let place = format!("the answer of {name}");
                self.schema(&place, Reader::Client, &content["schema"], &now["schema"]);
            }
        }
    }

    fn parameters(&mut self, name: &str, old: &Value, new: &Value) {
        let find = |all: &Value, name: &Value| {
            let all = all.as_array().into_iter().flatten();
            all.clone().find(|one| one["name"] == *name).cloned()
        };
        for one in old.as_array().into_iter().flatten() {
            let Some(now) = find(new, &one["name"]) else {
                let parameter = &one["name"];
                let problem = format!("{name} no longer accepts the parameter {parameter}");
                self.broken.push(problem);
                continue;
            };
            let place = format!("parameter {} of {name}", one["name"]);
            self.schema(&place, Reader::Server, &one["schema"], &now["schema"]);
        }
        for one in new.as_array().into_iter().flatten() {
            let before = find(old, &one["name"]).unwrap_or_default();
            if one["required"] == true && before["required"] != true {
                let parameter = &one["name"];
                self.broken
                    .push(format!("{name} requires the parameter {parameter}"));
            }
        }
    }

    fn body(&mut self, name: &str, old: &Value, new: &Value) {
        if new["required"] == true && old["required"] != true {
            self.broken.push(format!("{name} requires a body"));
        }
        for (kind, content) in fields(&old["content"]) {
            let Some(now) = new["content"].get(kind) else {
                self.broken
                    .push(format!("{name} no longer accepts a body of {kind}"));
                continue;
            };
            let place = format!("the body of {name}");
            self.schema(&place, Reader::Server, &content["schema"], &now["schema"]);
        }
    }

    fn schema(&mut self, place: &str, reader: Reader, old: &Value, new: &Value) {
        let (old_document, new_document) = (self.old, self.new);
        let (old_name, new_name) = (&old["$ref"], &new["$ref"]);
        if (old_name.is_string() || new_name.is_string())
            && !self
                .compared
                .insert(format!("{reader:?} {old_name} {new_name}"))
        {
            return;
        }
        let old = resolve(old_document, old);
        let new = resolve(new_document, new);
        let place = match old_name.as_str().and_then(|name| name.rsplit('/').next()) {
            Some(name) => format!("{name} ({place})"),
            None => place.to_owned(),
        };
        self.types(&place, reader, old, new);
        self.limits(&place, reader, old, new);
        self.properties(&place, reader, old, new);
        self.schema_if_any(
            &format!("items of {place}"),
            reader,
            &old["items"],
            &new["items"],
        );
        let (old, new) = (options(old_document, old), options(new_document, new));
        if let ([old], [new]) = (&old[..], &new[..]) {
            self.schema(&place, reader, old, new);
        }
    }

    fn schema_if_any(&mut self, place: &str, reader: Reader, old: &Value, new: &Value) {
        if old.is_object() && new.is_object() {
            self.schema(place, reader, old, new);
        }
    }

    fn types(&mut self, place: &str, reader: Reader, old: &Value, new: &Value) {
        let (before, now) = (types(self.old, old), types(self.new, new));
        let is_safe = match reader {
            Reader::Client => before.is_empty() || (!now.is_empty() && now.is_subset(&before)),
            Reader::Server => now.is_empty() || (!before.is_empty() && before.is_subset(&now)),
        };
        if !is_safe {
            let list =
                |types: &BTreeSet<String>| types.iter().cloned().collect::<Vec<_>>().join(" or ");
            let (before, now) = (list(&before), list(&now));
            self.broken
                .push(format!("{place} was {before}, and is {now}"));
        }
        let (before, now) = (&old["enum"], &new["enum"]);
        if now.is_array() {
            for word in words(before).difference(&words(now)) {
                self.broken.push(format!("{place} can no longer be {word}"));
            }
        }
        if old.get("const").is_some()
            && old["const"] != new["const"]
            && !words(now).contains(&old["const"].to_string().replace('"', ""))
        {
            let problem = format!("{place} was {}, and is {}", old["const"], new["const"]);
            self.broken.push(problem);
        }
    }

    /// Numbers and lengths that a client may send.
    fn limits(&mut self, place: &str, reader: Reader, old: &Value, new: &Value) {
        if reader == Reader::Client {
            return;
        }
        for (limit, sign) in [
            ("minimum", 1),
            ("minLength", 1),
            ("maximum", -1),
            ("maxLength", -1),
        ] {
            let Some(now) = new[limit].as_i64() else {
                continue;
            };
            let before = old[limit].as_i64();
            if before.is_none_or(|before| (now - before) * sign > 0) {
                self.broken.push(format!("the {limit} of {place} is {now}"));
            }
        }
    }

    fn properties(&mut self, place: &str, reader: Reader, old: &Value, new: &Value) {
        for (name, property) in fields(&old["properties"]) {
            let Some(now) = new["properties"].get(name) else {
                self.broken.push(format!("`{name}` of {place} was removed"));
                continue;
            };
            self.schema(&format!("`{name}` of {place}"), reader, property, now);
        }
        let (before, now) = (words(&old["required"]), words(&new["required"]));
        match reader {
            Reader::Client => {
                for name in before.difference(&now) {
                    self.broken
                        .push(format!("`{name}` of {place} may be absent"));
                }
            }
            Reader::Server => {
                for name in now.difference(&before) {
                    self.broken.push(format!("`{name}` of {place} is required"));
                }
            }
        }
    }
}

/// The schema that a reference names, or the schema itself.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|it| it.strip_prefix('#')) {
        Some(pointer) => document.pointer(pointer).unwrap_or(&Value::Null),
        None => schema,
    }
}

/// The alternatives of a schema, without `null`.
fn options<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let options = schema["anyOf"].as_array().into_iter().flatten();
    let is_null = |option: &&Value| resolve(document, option)["type"] == "null";
    options.filter(|option| !is_null(option)).collect()
}

/// The types of values that pass; empty if all do.
fn types(document: &Value, schema: &Value) -> BTreeSet<String> {
    let schema = resolve(document, schema);
    let of_value = |value: &Value| match value {
        Value::String(_) => "string",
        Value::Number(_) => "integer",
        Value::Bool(_) => "boolean",
        Value::Null => "null",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if let Some(options) = schema["anyOf"].as_array() {
        return options
            .iter()
            .flat_map(|option| types(document, option))
            .collect();
    }
    if let Some(value) = schema.get("const") {
        return BTreeSet::from([of_value(value).to_owned()]);
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .map(|value| of_value(value).to_owned())
            .collect();
    }
    match &schema["type"] {
        Value::String(name) => BTreeSet::from([name.clone()]),
        names => words(names),
    }
}

/// A document with one route whose body and answer have these schemas.
fn document(body: &Value, answer: &Value) -> Value {
    let in_json = |schema: &Value| json!({"application/json": {"schema": schema}});
    json!({"paths": {"/x": {"post": {
        "x-segno-scope": "read",
        "parameters": [{"name": "limit", "required": false, "schema": {"type": "integer", "maximum": 9}}],
        "requestBody": {"content": in_json(body)},
        "responses": {"200": {"content": in_json(answer)}},
    }}}})
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

#[test]
fn breaking_changes_are_found_and_additions_pass() {
    let text = json!({"type": "string"});
    let body = object(&json!({"a": text, "word": {"enum": ["x", "y"]}}), &[]);
    let answer = object(
        &json!({"b": text, "c": {"anyOf": [text, {"type": "null"}]}}),
        &["b"],
    );
    let old = document(&body, &answer);
    let with = |body: &Value, answer: &Value| breaking_changes(&old, &document(body, answer));
    let change = |value: &Value, pointer: &str, new: Value| {
        let mut value = value.clone();
        *value.pointer_mut(pointer).unwrap() = new;
        value
    };
    // Additions.
    let more = object(
        &json!({"a": text, "word": {"enum": ["x", "y", "z"]}, "n": text}),
        &[],
    );
    assert_eq!(with(&more, &answer), [""; 0]);
    let more = object(&json!({"b": text, "c": text, "d": text}), &["b", "c", "d"]);
    assert_eq!(with(&body, &more), [""; 0]);
    let mut more = old.clone();
    more["paths"]["/y"] = json!({"get": {}});
    assert_eq!(breaking_changes(&old, &more), [""; 0]);
    // Changes that break.
    let found = |body: &Value, answer: &Value, expected: &str| {
        let broken = with(body, answer);
        assert!(
            broken.len() == 1 && broken[0].contains(expected),
            "{expected}: {broken:?}"
        );
    };
    let required = change(&body, "/required", json!(["a"]));
    found(&required, &answer, "`a` of the body of POST /x is required");
    let narrow = change(&body, "/properties/word/enum", json!(["x"]));
    found(&narrow, &answer, "can no longer be y");
    let retyped = change(&body, "/properties/a/type", "integer".into());
    found(&retyped, &answer, "was string, and is integer");
    let removed = object(&json!({"b": text}), &["b"]);
    found(&body, &removed, "`c` of the answer of POST /x was removed");
    let retyped = change(&answer, "/properties/b/type", "array".into());
    found(&body, &retyped, "was string, and is array");
    let optional = change(&answer, "/required", json!([]));
    found(
        &body,
        &optional,
        "`b` of the answer of POST /x may be absent",
    );
    let nullable = change(
        &answer,
        "/properties/b",
        json!({"anyOf": [text, {"type": "null"}]}),
    );
    found(&body, &nullable, "was string, and is null or string");
    let operation = "/paths/~1x/post";
    for (pointer, value, expected) in [
        ("", json!({}), "POST /x was removed"),
        (operation, Value::Null, "no longer"),
        (
            "/paths/~1x/post/x-segno-scope",
            "admin".into(),
            "needs the scope",
        ),
        (
            "/paths/~1x/post/parameters",
            json!([]),
            "no longer accepts the parameter",
        ),
        (
            "/paths/~1x/post/parameters/0/required",
            true.into(),
            "requires the parameter",
        ),
        (
            "/paths/~1x/post/parameters/0/schema/maximum",
            8.into(),
            "the maximum of",
        ),
        (
            "/paths/~1x/post/responses",
            json!({"201": {}}),
            "no longer answers with status 200",
        ),
    ] {
        let broken = breaking_changes(&old, &change(&old, pointer, value));
        assert!(
            broken.iter().any(|it| it.contains(expected)),
            "{expected}: {broken:?}"
        );
    }
    let empty = Value::Object(Map::new());
    assert_eq!(breaking_changes(&empty, &old), [""; 0]);
}
