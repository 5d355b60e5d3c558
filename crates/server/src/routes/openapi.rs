//! The OpenAPI document, made from the table of routes and the schemas in `openapi/schemas.json`.
//!
//! The shapes are those of `--json` ([`segno_sessions::json`]), so the schemas are written by hand
//! and tests compare every answer with its schema.

use segno_sessions::details::Category;
use serde_json::{Map, Value, json};

use super::{ENDPOINTS, Endpoint, Method};
use crate::access::Scope;

/// The sections of a checkpoint, with their other names.
const SECTIONS: [&str; 9] = [
    "plan",
    "decisions",
    "errors",
    "feedback",
    "reviewer-feedback",
    "tests",
    "git",
    "git-changes",
    "usage",
];

/// The parts of a checkpoint that an earlier design named.
const PARTS: [&str; 4] = ["decisions", "errors", "reviewer-feedback", "git-changes"];

const SCHEMAS: &str = include_str!("openapi/schemas.json");

/// What the document says about a route.
pub(crate) struct Doc {
    pub(super) summary: &'static str,
    answer: Answer,
    pub(super) query: &'static [Parameter],
    body: Option<&'static str>,
}

enum Answer {
    Json(&'static str),
    /// JSON, or a stream of it.
    JsonOrStream(&'static str),
    Stream,
    /// A file of any type.
    File,
    Text,
    Page,
    /// The style of pages.
    Style,
    /// A page, for a form.
    PageOfForm,
}

impl Doc {
    /// A route that answers with JSON of this schema.
    pub(crate) const fn new(summary: &'static str, schema: &'static str) -> Self {
        Self {
            summary,
            answer: Answer::Json(schema),
            query: &[],
            body: None,
        }
    }

    /// A route that answers with a file.
    pub(crate) const fn file(summary: &'static str) -> Self {
        Self {
            summary,
            answer: Answer::File,
            query: &[],
            body: None,
        }
    }

    /// A route that answers with plain text.
    pub(crate) const fn text(summary: &'static str) -> Self {
        Self {
            summary,
            answer: Answer::Text,
            query: &[],
            body: None,
        }
    }

    /// A route for people.
    pub(crate) const fn page(summary: &'static str) -> Self {
        Self {
            summary,
            answer: Answer::Page,
            query: &[],
            body: None,
        }
    }

    /// The answer is a style sheet.
    pub(crate) const fn style(mut self) -> Self {
        self.answer = Answer::Style;
        self
    }

    pub(crate) const fn query(mut self, query: &'static [Parameter]) -> Self {
        self.query = query;
        self
    }

    /// The schema of the body.
    pub(crate) const fn body(mut self, schema: &'static str) -> Self {
        self.body = Some(schema);
        self
    }

    /// The body is the form of a page.
    pub(crate) const fn form(mut self) -> Self {
        self.answer = Answer::PageOfForm;
        self
    }

    /// The answer is a stream, if the client asks for one.
    pub(crate) const fn streams(mut self) -> Self {
        if let Answer::Json(schema) = self.answer {
            self.answer = Answer::JsonOrStream(schema);
        }
        self
    }

    /// The answer is always a stream.
    pub(crate) const fn only_streams(mut self) -> Self {
        self.answer = Answer::Stream;
        self
    }
}

/// A parameter after `?`.
pub(crate) struct Parameter {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// The smallest and the largest value of a number.
    range: Option<(i64, i64)>,
    pub(super) required: bool,
}

impl Parameter {
    pub(crate) const fn text(name: &'static str, what: &'static str) -> Self {
        Self {
            name,
            what,
            range: None,
            required: false,
        }
    }

    pub(crate) const fn number(
        name: &'static str,
        what: &'static str,
        least: i64,
        most: i64,
    ) -> Self {
        Self {
            name,
            what,
            range: Some((least, most)),
            required: false,
        }
    }

    pub(crate) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    fn json(&self) -> Value {
        let schema = match self.range {
            None => json!({"type": "string"}),
            Some((least, i64::MAX)) => json!({"type": "integer", "minimum": least}),
            Some((least, most)) => json!({"type": "integer", "minimum": least, "maximum": most}),
        };
        json!({
            "name": self.name,
            "in": "query",
            "description": self.what,
            "required": self.required,
            "schema": schema,
        })
    }
}

/// The whole document.
pub(crate) fn document(version: &str) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in ENDPOINTS {
        let path = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        let method = endpoint.method.as_str().to_ascii_lowercase();
        path[method] = operation(endpoint);
    }
    let schemas: Value = serde_json::from_str(SCHEMAS).expect("a file of this crate");
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Segno",
            "version": version,
            "description": "Durable runs for AI agents. Errors are `application/problem+json`, and their `type` is a page of this server.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "`segno token create NAME`"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "segno", "description": "`segno open`"},
            },
        },
    })
}

fn operation(endpoint: &Endpoint) -> Value {
    let doc = &endpoint.doc;
    let in_path = endpoint.path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some(path_parameter(name))
    });
    let has_key = endpoint.method == Method::Post && endpoint.scope.is_some();
    let parameters: Vec<Value> = in_path
        .chain(doc.query.iter().map(Parameter::json))
        .chain(has_key.then(idempotency_key))
        .collect();
    let mut operation = json!({
        "summary": doc.summary,
        "operationId": operation_id(endpoint),
        "parameters": parameters,
        "responses": {
            (success(endpoint)): {"description": "Success", "content": content(&doc.answer)},
            "default": {
                "description": "An error",
                "content": {"application/problem+json": {"schema": reference("Problem")}},
            },
        },
        "security": security(endpoint.scope),
        "x-segno-scope": endpoint.scope.map(Scope::as_str),
    });
    if let Some(body) = doc.body {
        operation["requestBody"] =
            json!({"content": {"application/json": {"schema": reference(body)}}});
    }
    if let Answer::PageOfForm = doc.answer {
        operation["requestBody"] = json!({"content": {"application/x-www-form-urlencoded": {"schema": reference("Login")}}});
    }
    operation
}

/// A part of a path. The parts have one meaning each, in all paths.
fn path_parameter(name: &str) -> Value {
    let text = json!({"type": "string", "minLength": 1});
    let (what, schema) = match name {
        "session" => (
            "The id of a session, its name, or a unique prefix of either",
            text,
        ),
        "checkpoint" => (
            "The id of a checkpoint, or a unique prefix or suffix of it",
            text,
        ),
        "category" => (
            "What to read",
            json!({"type": "string", "enum": Category::ALL}),
        ),
        "section" => ("What to read", json!({"type": "string", "enum": SECTIONS})),
        "part" => ("What to read", json!({"type": "string", "enum": PARTS})),
        "artifact" => ("The path of an artifact, as listed", text),
        "digest" => (
            "The BLAKE3 of the text, in hexadecimal",
            json!({"type": "string", "pattern": "^[0-9a-f]{64}$"}),
        ),
        _ => ("The code of an error", text),
    };
    json!({"name": name, "in": "path", "required": true, "description": what, "schema": schema})
}

fn idempotency_key() -> Value {
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Sent again with the same key, the request gets the first answer and has no second effect",
        "required": false,
        "schema": {"type": "string", "minLength": 1, "maxLength": 128},
    })
}

/// The status of a success. An operation that only asks a run to do something is accepted.
fn success(endpoint: &Endpoint) -> &'static str {
    match (&endpoint.doc.answer, endpoint.method) {
        (Answer::PageOfForm, _) => "303",
        (_, Method::Post) => "2XX",
        _ => "200",
    }
}

fn content(answer: &Answer) -> Value {
    let json_type = |schema: &str| json!({"schema": reference(schema)});
    match answer {
        Answer::Json(schema) => json!({"application/json": json_type(schema)}),
        Answer::JsonOrStream(schema) => {
            json!({"application/json": json_type(schema), "text/event-stream": {}})
        }
        Answer::Stream => json!({"text/event-stream": {}}),
        Answer::File => json!({"*/*": {"schema": {"type": "string", "contentEncoding": "binary"}}}),
        Answer::Text => json!({"text/plain": {}}),
        Answer::Page | Answer::PageOfForm => json!({"text/html": {}}),
        Answer::Style => json!({"text/css": {}}),
    }
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn security(scope: Option<Scope>) -> Value {
    match scope {
        None => json!([]),
        Some(_) => json!([{"token": []}, {"cookie": []}]),
    }
}

/// A name for generated clients, such as `post_sessions_session_pause`.
fn operation_id(endpoint: &Endpoint) -> String {
    let words = endpoint.path.trim_start_matches("/api/v1");
    let words = words.split(['/', '{', '}', '.', '-']);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let method = endpoint.method.as_str().to_ascii_lowercase();
    if words.is_empty() {
        return format!("{method}_home");
    }
    format!("{method}_{}", words.join("_"))
}
