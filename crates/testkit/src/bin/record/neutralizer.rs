//! Removes from recordings what would differ in the next one, or must not be published: paths, ids,
//! timestamps, process ids, and the vendors' texts and lists. The same original gets the same
//! replacement in all files of a scene, so that references stay valid.

use std::collections::BTreeMap;
use std::process::Command;

use segno_testkit::model::ModelServer;
use segno_testkit::programs::{AgentSandbox, modules};
use serde_json::{Map, Value};

/// How much of texts and lists is kept.
#[derive(Clone, Copy)]
struct Limits {
    /// Longer texts are cut.
    text: usize,
    /// To this many characters.
    begin: usize,
    /// Longer lists are cut.
    list: usize,
}

/// For fields that may contain our words: these are shorter.
const OURS: Limits = Limits {
    text: 300,
    begin: 100,
    list: 10,
};

/// For fields with the vendor's words: instructions, descriptions of tools, lists of commands.
const THEIRS: Limits = Limits {
    text: 40,
    begin: 24,
    list: 2,
};

/// Fields that contain only the vendor's words.
const VENDOR: [&str; 17] = [
    "attachment",
    "rendered",
    "shape",
    "params",
    "systemPrompt",
    "tools",
    "slash_commands",
    "terminal_slash_commands",
    "skills",
    "agents",
    "base_instructions",
    "full",
    "state",
    "availableCommands",
    "availableModels",
    "configOptions",
    "models",
];

/// Fields with randomly chosen names, and their replacements.
const NAMES: [(&str, &str); 5] = [
    ("agentId", "agent-1"),
    ("agent_id", "agent-1"),
    ("task_id", "task-1"),
    ("backgroundTaskId", "task-1"),
    ("slug", "a-slug"),
];

/// 2026-01-01, the date of all recordings.
const DAY: &str = "2026-01-01";
const EPOCH: u64 = 1_767_225_600;

/// Neutralizes the lines of one scene.
pub(crate) struct Neutralizer {
    /// Texts and their replacements, applied in this order.
    words: Vec<(String, String)>,
    ids: BTreeMap<String, String>,
    timestamps: u64,
}

impl Neutralizer {
    pub(crate) fn new(stage: &AgentSandbox, server: &ModelServer) -> Self {
        let port = server.host().rsplit(':').next().unwrap().to_owned();
        let root = stage.root().display().to_string();
        // How Claude Code derives folder names from paths.
        let dashed = |path: &str| path.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let modules = modules();
        let real = std::fs::canonicalize(&modules).unwrap();
        let words = [
            (root.clone(), "/stage".to_owned()),
            (dashed(&root), "-stage".to_owned()),
            (modules.display().to_string(), "/programs".to_owned()),
            (real.display().to_string(), "/programs".to_owned()),
            (server.host(), "http://127.0.0.1:1".to_owned()),
            (format!("{port}x"), "1x".to_owned()),
            (today(), DAY.to_owned()),
        ];
        Self {
            words: words.to_vec(),
            ids: BTreeMap::new(),
            timestamps: 0,
        }
    }

    /// Collects the short names that agents give to what they start.
    pub(crate) fn collect_names(&mut self, value: &Value) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| self.collect_names(one)),
            Value::Object(fields) => {
                for (field, value) in fields {
                    let named = NAMES.iter().find(|(known, _)| known == field);
                    if let (Some((_, to)), Value::String(name)) = (named, value)
                        && !self.words.iter().any(|(known, _)| known == name)
                    {
                        self.words.push((name.clone(), (*to).to_owned()));
                    }
                    self.collect_names(value);
                }
            }
            _ => {}
        }
    }

    /// A neutralized line.
    pub(crate) fn neutralize(&mut self, line: &Value) -> Value {
        self.value("", line, OURS)
    }

    fn value(&mut self, name: &str, value: &Value, limits: Limits) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(name, text, limits)),
            Value::Number(number) => match fixed(name) {
                Some(fixed) => fixed.into(),
                None => Value::Number(number.clone()),
            },
            Value::Array(all) => {
                let kept = all.iter().take(limits.list);
                kept.map(|one| self.value(name, one, limits)).collect()
            }
            Value::Object(fields) => {
                let instructs = value["role"] == "developer" || value["role"] == "system";
                let mut kept = Map::new();
                for (name, value) in fields {
                    let theirs = instructs || VENDOR.contains(&name.as_str());
                    let limits = if theirs { THEIRS } else { limits };
                    let value = self.value(name, value, limits);
                    kept.insert(self.text("", name, OURS), value);
                }
                Value::Object(kept)
            }
            other => other.clone(),
        }
    }

    fn text(&mut self, name: &str, text: &str, limits: Limits) -> String {
        if is_timestamp(text) {
            self.timestamps += 1;
            let (minutes, seconds) = (self.timestamps / 60 % 60, self.timestamps % 60);
            return format!("{DAY}T00:{minutes:02}:{seconds:02}.000Z");
        }
        if matches!(name, "messaging_socket_path" | "process_id" | "osVersion") {
            return "1".to_owned();
        }
        let mut text = text.to_owned();
        for (from, to) in &self.words {
            text = text.replace(from, to);
        }
        text = self.ids(&text);
        // What the vendor inserts into the user's messages.
        let reminder = text.starts_with('<') && !text.starts_with("<summary>");
        let limits = if reminder { THEIRS } else { limits };
        if text.chars().count() > limits.text {
            let begin: String = text.chars().take(limits.begin).collect();
            text = format!("{begin} … (cut)");
        }
        text
    }

    /// Replaces ids and hashes, which differ each time, by numbered ones.
    fn ids(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let id = rest.get(..36).filter(|head| is_id(head));
            let hash = rest.get(..64).filter(|head| is_hash(head));
            if let Some(head) = id.or(hash) {
                let number = self.ids.len() + 1;
                let new = || match hash {
                    Some(_) => format!("{number:064}"),
                    // The version of an id shows who made it, and stays.
                    None => format!("00000000-0000-{}000-8000-{number:012}", &head[14..15]),
                };
                out += self.ids.entry(head.to_owned()).or_insert_with(new);
                rest = &rest[head.len()..];
            } else {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        out
    }

    /// Panics if anything machine-specific is left.
    pub(crate) fn check(&self, name: &str, text: &str) {
        let text = text.replace("/stage/", "");
        let words = self.words.iter().map(|(word, _)| word.clone());
        let home = std::env::var("HOME").ok().filter(|home| home.len() > 1);
        let temporary = std::env::temp_dir().display().to_string();
        let folders = home.into_iter().chain([temporary]);
        for word in words.chain(folders.map(|folder| format!("{folder}/"))) {
            let Some(at) = text.find(&word) else { continue };
            let around: String = text[at..].chars().take(120).collect();
            panic!("{name} still contains {word}: {around}");
        }
    }
}

fn today() -> String {
    let date = Command::new("date").args(["-u", "+%F"]).output().unwrap();
    String::from_utf8(date.stdout).unwrap().trim().to_owned()
}

/// The replacement of numbers that differ each time, by the name of their field.
fn fixed(name: &str) -> Option<u64> {
    let timed = name.ends_with("_ms") || name.to_lowercase().contains("duration");
    match name {
        "pid" | "uid" => Some(1),
        "started_at" | "completed_at" | "create_time" | "resets_at" | "created_at" => Some(EPOCH),
        "started_at_ms" | "completed_at_ms" | "startTime" => Some(EPOCH * 1_000),
        _ if timed => Some(1),
        _ => None,
    }
}

/// Whether a text is a timestamp, as `2026-11-15T07:14:42.578Z`.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    (20..=30).contains(&bytes.len())
        && bytes[10] == b'T'
        && bytes.ends_with(b"Z")
        && bytes[..4].iter().all(u8::is_ascii_digit)
}

fn is_hash(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a text is a UUID.
fn is_id(text: &str) -> bool {
    text.char_indices().all(|(at, c)| match at {
        8 | 13 | 18 | 23 => c == '-',
        _ => c.is_ascii_hexdigit(),
    })
}
