//! Where agents meet secrets: files, commands, requests, logs and code.

use super::draw::Draw;

/// How a kind of place writes names.
#[derive(Clone, Copy)]
enum Style {
    /// `API_KEY`
    Upper,
    /// `api_key`
    Snake,
    /// `apiKey`
    Camel,
    /// `api-key`
    Kebab,
    /// `X-Api-Key`
    Header,
}

/// Places that name the secret.
const NAMED: &[(Style, &str)] = &[
    (Style::Upper, "export {name}={value}\n"),
    (Style::Upper, "{name}=\"{value}\""),
    (
        Style::Upper,
        "HOME=/home/ada\n{name}={value}\nSHELL=/bin/zsh\n",
    ),
    (Style::Upper, "{name}='{value}' cargo run --release"),
    (Style::Upper, "docker run -e {name}={value} -p 80:80 nginx"),
    (Style::Upper, "ENV {name} {value}\n"),
    (Style::Upper, "set -x {name} {value}\n"),
    (
        Style::Upper,
        "      - name: {name}\n        value: {value}\n",
    ),
    (Style::Upper, "      - {name}: \"{value}\"\n"),
    (Style::Upper, "const {name}: &str = \"{value}\";"),
    (Style::Upper, "os.environ[\"{name}\"] = \"{value}\""),
    (Style::Upper, "+{name}={value}\n"),
    (Style::Snake, "{\"{name}\": \"{value}\", \"page\": 2}"),
    (Style::Snake, "{\\\"{name}\\\":\\\"{value}\\\"}"),
    (Style::Snake, "{name}: {value}\n"),
    (Style::Snake, "  {name}: '{value}'\n"),
    (Style::Snake, "{name} = \"{value}\"\n"),
    (Style::Snake, "{name} = {value}\n"),
    (
        Style::Snake,
        "client = Client({name}=\"{value}\", timeout=30)",
    ),
    (Style::Snake, "INFO config loaded: {name}={value} retries=3"),
    (
        Style::Snake,
        "https://{host}/v1/items?{name}={value}&page=2",
    ),
    (
        Style::Snake,
        "curl -d '{name}={value}' https://{host}/login",
    ),
    (
        Style::Snake,
        "variable \"{name}\" { default = \"{value}\" }",
    ),
    (Style::Snake, "{'{name}': '{value}', 'debug': True}"),
    (Style::Camel, "const {name} = \"{value}\";"),
    (Style::Camel, "{ {name}: '{value}', retries: 3 }"),
    (Style::Camel, "String {name} = \"{value}\";"),
    (Style::Camel, "\"{name}\":\"{value}\","),
    (Style::Camel, "{name} := \"{value}\""),
    (Style::Kebab, "{name}: \"{value}\""),
    (Style::Kebab, "server start --{name} {value} --port 8080"),
    (Style::Kebab, "server start --{name}={value}"),
    (Style::Header, "{name}: {value}\r\nAccept: */*\r\n"),
    (Style::Header, "curl -H '{name}: {value}' https://{host}/"),
    (Style::Header, "headers = {\"{name}\": \"{value}\"}"),
];

/// Places in which only the secret itself tells what it is.
const BARE: &[&str] = &[
    "{value}",
    "{value}\n",
    "use {value} for now.",
    "The value `{value}` works.",
    "client.login(\"{value}\")",
    "Authorization: Bearer {value}",
    "-H \"Authorization: Bearer {value}\"",
    "login succeeded with {value} (expires in 3600s)",
    "[\"{value}\", null]",
    "https://x-access-token:{value}@{host}/repo.git",
    "echo {value} | tool login",
    "line one\\n{value}\\nline three",
    "<value>{value}</value>",
    "({value})",
    "https://{host}/cb?code={value}&x=1",
    "| account | {value} |",
    "-{value}\n+{value}\n",
];

/// `value` under `name` (in upper case with underscores).
pub(super) fn named(draw: &Draw, name: &str, value: &str) -> String {
    let (style, template) = draw.one(NAMED);
    template
        .replace("{host}", &draw.host())
        .replace("{name}", &styled(name, style))
        .replace("{value}", value)
}

/// `value` without a name that tells what it is.
pub(super) fn bare(draw: &Draw, value: &str) -> String {
    let template = draw.one(BARE);
    template
        .replace("{host}", &draw.host())
        .replace("{value}", value)
}

fn styled(name: &str, style: Style) -> String {
    let lower = name.to_ascii_lowercase();
    let capitalized = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    let words: Vec<&str> = lower.split('_').collect();
    match style {
        Style::Upper => name.to_owned(),
        Style::Snake => lower,
        Style::Kebab => words.join("-"),
        Style::Camel => {
            let rest = words[1..].iter().map(|word| capitalized(word));
            words[0].to_owned() + &rest.collect::<String>()
        }
        Style::Header => {
            let all: Vec<_> = words.iter().map(|word| capitalized(word)).collect();
            format!("X-{}", all.join("-"))
        }
    }
}
