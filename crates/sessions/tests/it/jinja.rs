//! Compares templates with Jinja2, for the part of it that specs use. `make test` installs Jinja2
//! where this test finds it; `SEGNO_PYTHON` names another Python that has it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use minijinja::Value;
use minijinja::value::Serde;
use segno_spec::template::Templates;
use segno_testkit::clock::Seeded;
use serde_json::json;

const CASES: usize = 3000;

fn python() -> PathBuf {
    match std::env::var_os("SEGNO_PYTHON") {
        Some(python) => python.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python"),
    }
}

fn context() -> serde_json::Value {
    json!({
        "topic": "The tides of Brittany",
        "empty": "",
        "odd": "  it's <b>\"odd\"</b>\tand ünï\u{301} \n two lines ",
        "n": 7,
        "zero": 0,
        "half": 0.5,
        "yes": true,
        "no": false,
        "nothing": null,
        "items": ["x", "yy", "zzz"],
        "numbers": [3, 1, 2],
        "facts": {"a": "one", "b": [1, 2], "c": {"deep": "end"}},
        "steps": [
            {"agent": "a", "index": 0, "response": "Score: 42\nfine"},
            {"agent": "b", "index": 1, "response": "redo THIS"},
        ],
    })
}

/// Generates random templates.
struct Generator<'a> {
    rng: &'a Seeded,
}

impl Generator<'_> {
    fn pick<'b>(&self, choices: &[&'b str]) -> &'b str {
        let index = usize::try_from(self.rng.below(choices.len() as u64)).unwrap();
        choices[index]
    }

    fn one_in(&self, of: u64) -> bool {
        self.rng.below(of) == 0
    }

    fn template(&self, depth: u32) -> String {
        let mut text = String::new();
        for _ in 0..=self.rng.below(3) {
            text += &self.piece(depth);
        }
        text
    }

    fn piece(&self, depth: u32) -> String {
        let inside = |generator: &Self| generator.template(depth.saturating_sub(1));
        match self.rng.below(if depth == 0 { 4 } else { 9 }) {
            0 => self
                .pick(&["plain ", "a\n", "{# unseen #}", " - ", "ü\n\n"])
                .to_owned(),
            1..=3 => {
                let (open, close) = if self.one_in(6) {
                    ("{{-", "-}}")
                } else {
                    ("{{", "}}")
                };
                format!("{open} {} {close}", self.expression(2))
            }
            4 => format!(
                "{{% if {} %}}{}{{% endif %}}",
                self.condition(),
                inside(self)
            ),
            5 => format!(
                "{{% if {} %}}{}{{% elif {} %}}{}{{% else %}}{}{{% endif %}}",
                self.condition(),
                inside(self),
                self.condition(),
                inside(self),
                inside(self)
            ),
            6 => format!(
                "{{% for i in {} %}}{}{{% endfor %}}",
                self.pick(&[
                    "items",
                    "numbers",
                    "steps",
                    "items[1:]",
                    "topic.split()",
                    "[]"
                ]),
                self.pick(&[
                    "{{ loop.index }}",
                    "{{ i }},",
                    "{% if loop.last %}.{% endif %}",
                    "{{ loop.index0 }}{{ loop.first }}",
                    "{{ i | tojson }}"
                ])
            ),
            7 => format!("{{% set v = {} %}}{{{{ v }}}}", self.expression(1)),
            _ => format!(
                "{{% for k, v in facts.items() %}}{{{{ k }}}}={}{{% endfor %}}",
                self.pick(&["{{ v | tojson }}", "{{ k | upper }}", "{{ loop.length }}"])
            ),
        }
    }

    fn condition(&self) -> String {
        match self.rng.below(8) {
            0 => format!("{} == {}", self.expression(1), self.expression(0)),
            1 => format!("{} in {}", self.text(), self.text()),
            2 => format!("not {}", self.expression(0)),
            3 => format!("{} and {}", self.expression(0), self.expression(0)),
            4 => format!("{} or {}", self.expression(0), self.expression(0)),
            5 => format!(
                "{} is defined",
                self.pick(&["topic", "nobody", "facts.a", "facts.nobody", "steps"])
            ),
            6 => format!(
                "{} is {}",
                self.expression(0),
                self.pick(&["none", "string", "number", "mapping", "not none"])
            ),
            _ => format!(
                "n {} {}",
                self.pick(&["<", ">", "<=", ">=", "!=", "=="]),
                self.pick(&["7", "zero", "3", "n"])
            ),
        }
    }

    fn text(&self) -> String {
        self.pick(&[
            "topic",
            "empty",
            "odd",
            "steps[0].response",
            "steps[-1].response",
            "'tide'",
            "\"Score\"",
            "facts.c.deep",
            "items[0]",
        ])
        .to_owned()
    }

    fn expression(&self, depth: u32) -> String {
        if depth == 0 {
            return self
                .pick(&[
                    "topic",
                    "n",
                    "zero",
                    "yes",
                    "no",
                    "nothing",
                    "'tide'",
                    "items",
                    "steps[0].response",
                    "facts.a",
                    "facts['c'].deep",
                    "numbers[1]",
                    "3",
                ])
                .to_owned();
        }
        match self.rng.below(14) {
            0..=1 => format!("{}{}", self.text(), self.method()),
            2..=4 => format!("{} | {}", self.text(), self.filter()),
            5 => format!(
                "{} | {}",
                self.expression(depth - 1),
                self.pick(&["tojson", "string", "default('d')"])
            ),
            6 => format!("items | join({})", self.pick(&["', '", "''", "'-'"])),
            7 => format!(
                "{} {} {}",
                self.pick(&["n", "3", "zero", "half"]),
                self.pick(&["+", "-", "*", "//", "%"]),
                self.pick(&["2", "n", "5"])
            ),
            8 => format!("{} ~ {}", self.expression(0), self.expression(0)),
            9 => format!(
                "{} if {} else {}",
                self.expression(0),
                self.condition(),
                self.expression(0)
            ),
            10 => format!(
                "{}[{}]",
                self.pick(&["items", "numbers", "steps", "topic"]),
                self.pick(&["0", "-1", "1", "9"])
            ),
            11 => format!(
                "{}[{}]",
                self.pick(&["items", "topic", "odd"]),
                self.pick(&[":2", "1:", "-3:", "1:2", ":"])
            ),
            12 => self
                .pick(&[
                    "nobody",
                    "nobody.at.all",
                    "facts.nobody",
                    "steps[9].response",
                    "nobody | default('none')",
                ])
                .to_owned(),
            _ => self.expression(0),
        }
    }

    fn method(&self) -> &'static str {
        self.pick(&[
            ".lower()",
            ".upper()",
            ".strip()",
            ".split()[0]",
            ".split('i') | length",
            ".replace('i', 'y')",
            ".startswith('The')",
            ".endswith('fine')",
            ".title()",
            ".lstrip()",
            ".count('i')",
            ".splitlines() | length",
            ".capitalize()",
        ])
    }

    fn filter(&self) -> &'static str {
        self.pick(&[
            "lower",
            "upper",
            "length",
            "trim",
            "truncate(9)",
            "truncate",
            "replace('t', 'T')",
            "tojson",
            "regex_search('score: (\\\\d+)')",
            "regex_search('zzz')",
            "first",
            "last",
            "title",
            "default('x')",
            "upper | lower | length",
            "reverse",
        ])
    }
}

#[test]
fn templates_render_as_in_jinja() {
    let python = python();
    assert!(
        python.exists(),
        "{} is missing: `make test` puts it there",
        python.display()
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/jinja.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut answers = BufReader::new(from).lines();
    let seed = std::env::var("SEGNO_TEMPLATE_SEED").map_or(1, |seed| seed.parse().unwrap());
    let rng = Seeded::new(seed);
    let (generator, templates, context) = (Generator { rng: &rng }, Templates::new(), context());
    let (mut rendered, mut refused, mut wrong) = (0, 0, Vec::new());
    for _ in 0..CASES {
        let source = generator.template(2);
        writeln!(to, "{}", json!({"source": source, "context": context})).unwrap();
        let answer = answers.next().unwrap().unwrap();
        let theirs: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let ours = templates.render(&source, Value::from(Serde(&context)));
        match (theirs["text"].as_str(), &ours) {
            (Some(theirs), Ok(ours)) if theirs == ours => rendered += 1,
            (None, Err(_)) => refused += 1,
            _ => wrong.push(format!(
                "{source:?}\n   Jinja2: {theirs}\n   ours: {ours:?}"
            )),
        }
    }
    drop(to);
    child.wait().unwrap();
    assert!(
        wrong.is_empty(),
        "seed {seed}: {} of {CASES} differ\n{}",
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
    assert!(
        rendered > CASES / 2 && refused > CASES / 50,
        "{rendered} rendered, {refused} refused"
    );
}
