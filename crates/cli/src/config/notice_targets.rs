//! The `[[notices]]` tables of `config.toml`: where notices go.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use segno_core::session::Status;
use segno_supervisor::notices::{Channel, Filter, Kind, Rate, Source, Target};
use serde_json::{Value, json};

/// The keys of a table.
pub(super) const KEYS: &[&str] = &[
    "to",
    "name",
    "on",
    "sessions",
    "status",
    "burst",
    "every_s",
    "command",
    "url",
    "url_env",
    "url_file",
    "secret_env",
    "secret_file",
    "priority",
];

/// More targets than anybody needs.
const MAX_TARGETS: usize = 50;

const CHANNELS: &str = "`desktop`, `command`, `webhook`, `slack`, `discord` or `ntfy`";

/// Parses all tables. A target without a name has that of its channel, numbered.
pub(super) fn parse(table: &toml::Table) -> Result<Vec<Target>, String> {
    let Some(value) = table.get("notices") else {
        return Ok(Vec::new());
    };
    let tables = value.as_array().map(Vec::as_slice);
    let tables = tables.ok_or("`notices` must be written as `[[notices]]`")?;
    if tables.len() > MAX_TARGETS {
        return Err(format!("`notices` has more than {MAX_TARGETS} targets"));
    }
    let mut targets: Vec<Target> = Vec::new();
    for value in tables {
        let table = value
            .as_table()
            .ok_or("`notices` must be written as `[[notices]]`")?;
        let mut target = target(&Fields(table))?;
        let is_taken = |name: &str| targets.iter().any(|known| known.name == name);
        if is_taken(&target.name) {
            if table.contains_key("name") {
                return Err(format!("`notices.name` is used twice: `{}`", target.name));
            }
            let free = |n: &usize| !is_taken(&format!("{}-{n}", target.name));
            let number = (2..=MAX_TARGETS + 1).find(free).unwrap_or_default();
            target.name = format!("{}-{number}", target.name);
        }
        targets.push(target);
    }
    Ok(targets)
}

/// The names of keys that are no settings.
pub(super) fn unknown_keys(value: &toml::Value) -> Vec<String> {
    let tables = value.as_array().into_iter().flatten();
    let keys = tables
        .filter_map(toml::Value::as_table)
        .flat_map(toml::Table::keys);
    let unknown = keys.filter(|key| !KEYS.contains(&key.as_str()));
    let names: BTreeSet<String> = unknown.map(|key| format!("notices.{key}")).collect();
    names.into_iter().collect()
}

/// The target as `segno config show` prints it. A URL is not shown, because it may be a secret.
pub(super) fn shown(target: &Target) -> Value {
    let kinds: Vec<&str> = target
        .filter
        .kinds
        .iter()
        .map(|kind| kind.as_str())
        .collect();
    let mut shown = json!({
        "to": target.channel.as_str(),
        "on": kinds,
        "burst": target.rate.burst,
        "every_s": target.rate.every.as_secs(),
    });
    if !target.filter.sessions.is_empty() {
        shown["sessions"] = json!(target.filter.sessions);
    }
    if !target.filter.statuses.is_empty() {
        shown["status"] = json!(target.filter.statuses);
    }
    match &target.channel {
        Channel::Desktop => {}
        Channel::Command(argv) => shown["command"] = json!(argv),
        Channel::Webhook { url, secret } => {
            show_source(&mut shown, "url", url);
            if let Some(secret) = secret {
                show_source(&mut shown, "secret", secret);
            }
        }
        Channel::Slack(url) | Channel::Discord(url) => show_source(&mut shown, "url", url),
        Channel::Ntfy { url, token, .. } => {
            show_source(&mut shown, "url", url);
            if let Some(token) = token {
                show_source(&mut shown, "secret", token);
            }
        }
    }
    shown
}

fn show_source(shown: &mut Value, key: &str, source: &Source) {
    match source {
        Source::Text(_) => shown[key] = "(hidden)".into(),
        Source::Variable(name) => shown[format!("{key}_env")] = json!(name),
        Source::File(path) => shown[format!("{key}_file")] = json!(path),
    }
}

fn target(fields: &Fields<'_>) -> Result<Target, String> {
    if fields.0.contains_key("secret") {
        return Err(
            "`notices.secret` would store the secret in clear; use `secret_env` or `secret_file`"
                .into(),
        );
    }
    let to = fields
        .text("to")?
        .ok_or_else(|| format!("`notices.to` is missing: it is {CHANNELS}"))?;
    let (channel, own): (_, &[&str]) = match to {
        "desktop" => (Channel::Desktop, &[]),
        "command" => (Channel::Command(fields.command()?), &["command"]),
        "webhook" => {
            let (url, secret) = (fields.url(to)?, fields.source("secret")?);
            (Channel::Webhook { url, secret }, &["url", "secret"])
        }
        "slack" => (Channel::Slack(fields.url(to)?), &["url"]),
        "discord" => (Channel::Discord(fields.url(to)?), &["url"]),
        "ntfy" => {
            let channel = Channel::Ntfy {
                url: fields.url(to)?,
                token: fields.source("secret")?,
                priority: fields
                    .number("priority", 1, 5)?
                    .and_then(|number| u8::try_from(number).ok()),
            };
            (channel, &["url", "secret", "priority"])
        }
        other => return Err(format!("`notices.to` must be {CHANNELS}, not `{other}`")),
    };
    fields.refuse_others(to, own)?;
    let defaults = Rate::default();
    let burst = fields.number("burst", 1, 1000)?;
    let every = fields.number("every_s", 1, 86_400)?;
    Ok(Target {
        name: fields.name()?.unwrap_or(to).to_owned(),
        channel,
        filter: Filter {
            kinds: fields
                .words::<Kind>("on")?
                .unwrap_or(Kind::DEFAULT.to_vec()),
            sessions: fields.texts("sessions")?.unwrap_or_default(),
            statuses: fields.words::<Status>("status")?.unwrap_or_default(),
        },
        rate: Rate {
            burst: burst
                .and_then(|burst| u32::try_from(burst).ok())
                .unwrap_or(defaults.burst),
            every: every.map_or(defaults.every, Duration::from_secs),
        },
    })
}

/// The fields of one table. Errors name the key; they never quote a URL.
struct Fields<'a>(&'a toml::Table);

impl<'a> Fields<'a> {
    fn text(&self, key: &str) -> Result<Option<&'a str>, String> {
        let Some(value) = self.0.get(key) else {
            return Ok(None);
        };
        let text = value.as_str().filter(|text| !text.trim().is_empty());
        let wrong = || format!("`notices.{key}` must be a string that is not empty");
        text.map(Some).ok_or_else(wrong)
    }

    fn name(&self) -> Result<Option<&'a str>, String> {
        let name = self.text("name")?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        match name.filter(|name| !name.chars().all(fits) || name.len() > 64) {
            None => Ok(name),
            Some(_) => Err("`notices.name` has up to 64 letters, digits or . _ -".into()),
        }
    }

    fn texts(&self, key: &str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.0.get(key) else {
            return Ok(None);
        };
        let text = |value: &toml::Value| Some(value.as_str()?.to_owned());
        let texts = value
            .as_array()
            .and_then(|values| values.iter().map(text).collect::<Option<Vec<_>>>());
        let texts = texts.filter(|texts| !texts.is_empty() && !texts.contains(&String::new()));
        let wrong = || format!("`notices.{key}` must be a list of strings that is not empty");
        texts.map(Some).ok_or_else(wrong)
    }

    /// A list of known words.
    fn words<T: std::str::FromStr>(&self, key: &str) -> Result<Option<Vec<T>>, String> {
        let parse = |word: String| {
            let known: Vec<&str> = match key {
                "on" => Kind::ALL.iter().map(|kind| kind.as_str()).collect(),
                _ => Status::ALL.iter().map(|status| status.as_str()).collect(),
            };
            let unknown = |_| {
                let known = known.join(", ");
                format!("`notices.{key}` has `{word}`; the words are {known}")
            };
            word.parse().map_err(unknown)
        };
        let words = self.texts(key)?;
        words
            .map(|words| words.into_iter().map(parse).collect())
            .transpose()
    }

    fn number(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, String> {
        let Some(value) = self.0.get(key) else {
            return Ok(None);
        };
        let number = value.as_integer().and_then(|it| u64::try_from(it).ok());
        match number.filter(|number| (least..=most).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(format!(
                "`notices.{key}` must be a whole number from {least} to {most}, not {value}"
            )),
        }
    }

    fn command(&self) -> Result<Vec<String>, String> {
        let missing = || "`notices.command` must list the program and its arguments".to_owned();
        self.texts("command")?.ok_or_else(missing)
    }

    /// A value from one of `KEY` (only for URLs), `KEY_env` and `KEY_file`.
    fn source(&self, key: &str) -> Result<Option<Source>, String> {
        let (variable, file) = (format!("{key}_env"), format!("{key}_file"));
        let text = if key == "url" { self.text(key)? } else { None };
        let path = self.text(&file)?.map(PathBuf::from);
        if path.as_ref().is_some_and(|path| path.is_relative()) {
            return Err(format!("`notices.{file}` must be an absolute path"));
        }
        let sources: Vec<Source> = [
            text.map(|text| Source::Text(text.to_owned())),
            self.text(&variable)?
                .map(|name| Source::Variable(name.to_owned())),
            path.map(Source::File),
        ]
        .into_iter()
        .flatten()
        .collect();
        match sources.len() {
            0 | 1 => Ok(sources.into_iter().next()),
            _ => Err(format!(
                "a table of `notices` may have only one of `{key}`, `{variable}` and `{file}`"
            )),
        }
    }

    fn url(&self, to: &str) -> Result<Source, String> {
        let url = self
            .source("url")?
            .ok_or_else(|| format!("`notices` to `{to}` needs `url`, `url_env` or `url_file`"))?;
        if let Source::Text(text) = &url
            && !text.starts_with("https://")
            && !text.starts_with("http://")
        {
            return Err("`notices.url` must begin with https:// or http://".into());
        }
        Ok(url)
    }

    /// Refuses settings of other channels, which would be ignored.
    fn refuse_others(&self, to: &str, own: &[&str]) -> Result<(), String> {
        for key in ["command", "url", "secret", "priority"] {
            let spellings = [key.to_owned(), format!("{key}_env"), format!("{key}_file")];
            let found = spellings.iter().find(|key| self.0.contains_key(*key));
            if let Some(found) = found.filter(|_| !own.contains(&key)) {
                return Err(format!("`notices.{found}` does not apply to `{to}`"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Target>, String> {
        parse(&text.parse().unwrap())
    }

    #[test]
    fn targets_get_names_and_defaults() {
        let targets = parsed("[[notices]]\nto = 'desktop'\n[[notices]]\nto = 'desktop'\n").unwrap();
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["desktop", "desktop-2"]);
        assert_eq!(targets[0].filter.kinds, Kind::DEFAULT);
        assert_eq!(targets[0].rate, Rate::default());
    }

    #[test]
    fn wrong_tables_are_refused_by_key() {
        for (table, named) in [
            ("name = 'a'", "`notices.to` is missing"),
            ("to = 'pager'", "not `pager`"),
            ("to = 'webhook'", "needs `url`"),
            (
                "to = 'webhook'\nurl = 'ftp://x'",
                "`notices.url` must begin",
            ),
            (
                "to = 'webhook'\nurl_env = 'A'\nurl_file = '/a'",
                "only one of",
            ),
            ("to = 'webhook'\nurl_env = 'A'\nsecret = 's'", "in clear"),
            ("to = 'webhook'\nurl_file = 'a'", "absolute"),
            ("to = 'command'", "`notices.command`"),
            ("to = 'command'\ncommand = []", "`notices.command`"),
            (
                "to = 'desktop'\nurl = 'https://x'",
                "does not apply to `desktop`",
            ),
            (
                "to = 'slack'\nurl_env = 'A'\nsecret_env = 'B'",
                "does not apply",
            ),
            ("to = 'desktop'\non = ['exploded']", "`exploded`"),
            ("to = 'desktop'\nstatus = ['odd']", "`odd`"),
            ("to = 'desktop'\nburst = 0", "`notices.burst`"),
            (
                "to = 'ntfy'\nurl_env = 'A'\npriority = 6",
                "`notices.priority`",
            ),
            ("to = 'desktop'\nname = 'a b'", "`notices.name`"),
        ] {
            let error = parsed(&format!("[[notices]]\n{table}\n")).unwrap_err();
            assert!(error.contains(named), "{table}: {error}");
        }
        assert!(parsed("notices = 3").is_err());
    }

    #[test]
    fn shown_target_has_no_url() {
        let text = "[[notices]]\nto = 'slack'\nurl = 'https://hooks.example/T0/secret'\n";
        let shown = shown(&parsed(text).unwrap()[0]).to_string();
        assert!(shown.contains("\"url\":\"(hidden)\""), "{shown}");
        assert!(!shown.contains("hooks.example"), "{shown}");
    }
}
