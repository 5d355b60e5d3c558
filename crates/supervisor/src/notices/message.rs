//! What is sent: one notice, and those that the rate limit merges with it, in the format of each
//! channel.
//!
//! Text of agents and users never becomes markup: mentions are disabled and special characters are
//! escaped.

use serde_json::{Value, json};

use super::kind::Severity;
use super::notice::{Notice, bounded};

/// How many merged notices are listed; the rest is counted.
const MAX_LISTED: usize = 20;

/// The longest messages of Slack, Discord and ntfy that are sent, in characters.
const MAX_SLACK: usize = 3000;
const MAX_DISCORD: usize = 1900;
const MAX_NTFY: usize = 1200;

/// A notice on its way to one target.
#[derive(Debug, Clone)]
pub(super) struct Message<'a> {
    pub(super) first: &'a Notice,
    /// The notices that are merged with the first one.
    pub(super) more: &'a [Notice],
    /// How many times it was sent, this time included.
    pub(super) attempt: u32,
    /// Whether an earlier attempt may have arrived.
    pub(super) is_repeated: bool,
}

impl Message<'_> {
    /// The title in one line.
    pub(super) fn title(&self) -> String {
        let more = match self.more.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let mark = if self.is_repeated { " (repeated)" } else { "" };
        format!("{}{more}{mark}", self.first.title)
    }

    /// The text below the title, in lines.
    pub(super) fn body(&self) -> String {
        let first = [Some(&self.first.text), self.first.hint.as_ref()];
        let first = first.into_iter().flatten().filter(|line| !line.is_empty());
        let listed = self.more.iter().take(MAX_LISTED);
        let lines = first.chain(listed.map(|notice| &notice.title));
        lines.map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The format of webhooks and commands.
    pub(super) fn json(&self) -> Value {
        let mut value = shape(self.first);
        let more: Vec<Value> = self.more.iter().take(MAX_LISTED).map(shape).collect();
        value["v"] = 1.into();
        value["attempt"] = self.attempt.into();
        value["repeated"] = self.is_repeated.into();
        value["more"] = more.into();
        value["more_count"] = self.more.len().into();
        value
    }

    pub(super) fn slack(&self) -> Value {
        let text = format!("{}\n{}", self.title(), self.body());
        let text = bounded(&escape_slack(text.trim_end()), MAX_SLACK);
        json!({"text": text, "mrkdwn": false, "link_names": false, "unfurl_links": false, "unfurl_media": false})
    }

    pub(super) fn discord(&self) -> Value {
        let text = format!("**{}**\n{}", escape_discord(&self.title()), {
            escape_discord(&self.body())
        });
        let text = bounded(text.trim_end(), MAX_DISCORD);
        // The flag suppresses embeds.
        json!({"content": text, "allowed_mentions": {"parse": []}, "flags": 4})
    }

    /// The body for ntfy, whose title is a header.
    pub(super) fn ntfy(&self) -> String {
        match bounded(&self.body(), MAX_NTFY) {
            // ntfy replaces an empty body by a text of its own.
            empty if empty.is_empty() => self.first.kind.to_string(),
            body => body,
        }
    }

    pub(super) fn ntfy_priority(&self) -> u8 {
        match self.first.kind.severity() {
            Severity::Information => 3,
            Severity::Attention => 4,
            Severity::Error => 5,
        }
    }

    /// The arguments of `notify-send`.
    pub(super) fn desktop(&self) -> Vec<String> {
        let urgency = match self.first.kind.severity() {
            Severity::Information => "low",
            Severity::Attention => "normal",
            Severity::Error => "critical",
        };
        // Desktops interpret the body as markup.
        let body = escape_markup(&self.body());
        let words = ["notify-send", "--app-name=Segno", "--urgency", urgency];
        let words = words.into_iter().map(str::to_owned);
        words.chain(["--".into(), self.title(), body]).collect()
    }
}

fn shape(notice: &Notice) -> Value {
    json!({
        "kind": "notice",
        "id": notice.id(),
        "event": notice.kind,
        "session": notice.session,
        "name": notice.name,
        "status": notice.status,
        "seq": notice.seq,
        "run": notice.run,
        "at": notice.at.to_string(),
        "title": notice.title,
        "text": notice.text,
        "hint": notice.hint,
    })
}

fn escape_markup(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

/// A zero-width space after `@` keeps `@everyone` and the like from being mentions.
fn without_mentions(text: &str) -> String {
    text.replace('@', "@\u{200B}")
}

/// Without `<`, Slack knows neither mentions nor links.
fn escape_slack(text: &str) -> String {
    escape_markup(&without_mentions(text))
}

fn escape_discord(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in without_mentions(text).chars() {
        if "\\*_`~|>#[]()<-".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::kind::Kind;
    use super::*;
    use segno_core::id::SessionId;
    use segno_core::session::Status;
    use segno_core::time::Timestamp;

    fn notice(title: &str, text: &str) -> Notice {
        Notice {
            kind: Kind::Failed,
            session: SessionId::new(Timestamp(0), [7; 10]),
            name: "nightly".into(),
            status: Status::Failed,
            seq: 9,
            run: 2,
            at: Timestamp(0),
            title: title.into(),
            text: text.into(),
            hint: None,
        }
    }

    fn message<'a>(first: &'a Notice, more: &'a [Notice]) -> Message<'a> {
        Message {
            first,
            more,
            attempt: 1,
            is_repeated: false,
        }
    }

    #[test]
    fn markup_and_mentions_are_escaped() {
        let hostile = notice(
            "a failed",
            "<!channel> <script> @everyone **b** & [x](http://y)",
        );
        let message = message(&hostile, &[]);
        assert_eq!(
            message.slack()["text"],
            "a failed\n&lt;!channel&gt; &lt;script&gt; @\u{200B}everyone **b** &amp; [x](http://y)"
        );
        let discord = message.discord();
        assert_eq!(discord["allowed_mentions"]["parse"], json!([]));
        assert_eq!(
            discord["content"],
            "**a failed**\n\\<!channel\\> \\<script\\> @\u{200B}everyone \\*\\*b\\*\\* & \\[x\\]\\(http://y\\)"
        );
        let body = message.desktop().pop().unwrap();
        assert!(body.starts_with("&lt;!channel&gt;"), "{body}");
    }

    #[test]
    fn option_like_text_follows_two_dashes() {
        let hostile = notice("--help", "--expire-time=0");
        let words = message(&hostile, &[]).desktop();
        let dashes = words.iter().position(|word| word == "--").unwrap();
        assert_eq!(words[dashes + 1..], ["--help", "--expire-time=0"]);
    }

    #[test]
    fn messages_have_a_limited_length() {
        let long = notice("a failed", &"@<".repeat(5000));
        let message = message(&long, &[]);
        let characters = |value: &Value| value.as_str().unwrap().chars().count();
        assert_eq!(characters(&message.slack()["text"]), MAX_SLACK);
        assert_eq!(characters(&message.discord()["content"]), MAX_DISCORD);
        assert_eq!(message.ntfy().chars().count(), MAX_NTFY);
    }

    #[test]
    fn merged_notices_are_counted_and_listed() {
        let first = notice("a failed", "why");
        let more: Vec<Notice> = (0..30)
            .map(|n| notice(&format!("s{n} failed"), ""))
            .collect();
        let message = message(&first, &more);
        assert_eq!(message.title(), "a failed and 30 more");
        let json = message.json();
        assert_eq!(json["more"].as_array().unwrap().len(), MAX_LISTED);
        assert_eq!(json["more_count"], 30);
    }

    #[test]
    fn repeated_notice_says_so() {
        let first = notice("a failed", "");
        let repeated = Message {
            is_repeated: true,
            attempt: 2,
            ..message(&first, &[])
        };
        assert_eq!(repeated.title(), "a failed (repeated)");
        assert_eq!(repeated.json()["repeated"], true);
        assert_eq!(repeated.json()["id"], message(&first, &[]).json()["id"]);
    }
}
